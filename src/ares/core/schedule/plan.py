"""What a cycle proposes."""

from ares.core.schedule.reasons import Reason
from ares.model.base import Record
from ares.model.state import Placement


class Placed(Record, frozen=True):
    job: str
    placements: tuple[Placement, ...]


class LeftOut(Record, frozen=True):
    """Jobs of one class that found no place, all for the same reason."""

    class_id: int
    jobs: int
    first_job: str
    reason: Reason


class Plan(Record, frozen=True):
    """Placements in the order they were decided, and a reason for every class looked at that has jobs left.

    With `more` the cycle stopped at its limit: classes it did not reach are not mentioned; run it again.
    """

    at: float
    placed: tuple[Placed, ...]
    left: tuple[LeftOut, ...]
    more: bool = False
