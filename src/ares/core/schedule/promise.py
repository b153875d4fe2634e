"""A start that a plan promises to a waiting job: the room is held for it from then on."""

from ares.model.base import Record
from ares.model.state import Placement


class Promise(Record, frozen=True):
    """Seconds since the epoch; `until` is when it will have ended, None when nobody can say."""

    job: str
    start: float
    until: float | None
    placements: tuple[Placement, ...]
    # What it was promised first: some strategies let it slip, but only so far.
    first_start: float
    made_at: float
