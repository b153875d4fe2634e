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
    # From when on nobody else may be in its place, None: from its start. When a start slips, that stays what it was:
    # the room is kept as it comes free, and nobody enters who would not have ended by then.
    held_from: float | None = None

    @property
    def slipped(self) -> bool:
        """Whether it starts later than the room is held for it: what holds the room runs longer than was thought."""
        return self.held_from is not None and self.held_from < self.start
