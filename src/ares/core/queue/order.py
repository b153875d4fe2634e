"""Which job comes first: by priority level, then by submission.

The order is a function of the jobs' records alone, so a new leader queues them exactly as the old one did.
"""

from ares.model.job import PRIORITIES, Priority
from ares.model.state import JobState

LEVELS: dict[Priority, int] = {priority: level for level, priority in enumerate(PRIORITIES)}

# (submitted at, array index, job id, class id): the id makes it unique, the class rides along.
Rank = tuple[float, int, str, int]


def rank(state: JobState, class_id: int) -> Rank:
    """The place of a job among jobs of its level. A retried job keeps the place of its submission."""
    return (state.submitted_at, state.index or 0, state.id, class_id)


def job_of(place: Rank) -> str:
    return place[2]
