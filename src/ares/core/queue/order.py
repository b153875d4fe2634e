"""The place of a waiting job among jobs of its class, and what its rank is computed from.

The order is a function of the jobs' records alone, so a new leader queues them exactly as the old one did.
"""

from functools import lru_cache

from ares.model.job import PRIORITIES, Priority
from ares.model.state import JobState

LEVELS: dict[Priority, int] = {priority: level for level, priority in enumerate(PRIORITIES)}

# (latest start or 0, submitted at, array index, job id, class id): the id makes it unique, the class rides along.
Place = tuple[float, float, int, str, int]


def account_of(state: JobState) -> str:
    """Where the job's use is counted: "tenant/team/user"."""
    return _account(state.tenant, state.team or "default", state.submitted_by or "nobody")


@lru_cache(maxsize=4096)
def _account(tenant: str, team: str, user: str) -> str:
    """Jobs of one account share its name."""
    return f"{tenant}/{team}/{user}"


def tenant_of(account: str) -> str:
    return account.split("/", 1)[0]


def place(state: JobState, start_by: float | None, class_id: int) -> Place:
    """Within a class: the least slack first, then by submission. A retried job keeps the place of its submission."""
    return (start_by or 0.0, state.submitted_at, state.index or 0, state.id, class_id)


def job_of(place: Place) -> str:
    return place[3]
