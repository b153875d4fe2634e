"""What was decided when, for whoever wants to check it without the scheduler's own arithmetic.

Jobs are named by their place in `Trace.jobs`.
"""

from collections.abc import Callable

from ares.model.base import Record
from ares.model.state import Placement


class AttemptStart(Record, frozen=True):
    """An attempt began now. By what the scheduler was told or learnt it ends at `estimated_end`."""

    job: int
    estimated_end: float | None
    placements: tuple[Placement, ...]


class Promised(Record, frozen=True):
    """Room that a waiting job has from `start` on, until it is expected to have ended."""

    job: int
    start: float
    until: float | None
    placements: tuple[Placement, ...]


class AttemptEnd(Record, frozen=True):
    """An attempt let go of all it held: it ended, or was taken away."""

    job: int
    at: float


class CycleDecisions(Record, frozen=True):
    """One cycle, and what happened since the one before, in this order: ended, submitted, again, down, up, decided."""

    time: float
    submitted: tuple[int, ...] = ()
    # Jobs that wait again: an attempt failed or was taken away.
    again: tuple[int, ...] = ()
    ended: tuple[AttemptEnd, ...] = ()
    down: tuple[str, ...] = ()
    up: tuple[str, ...] = ()
    started: tuple[AttemptStart, ...] = ()
    promises: tuple[Promised, ...] = ()
    # Attempts that go on with other ranks than before: all those they have now.
    resized: tuple[AttemptStart, ...] = ()
    # The cycle stopped at its limit: another one goes on where it stopped.
    more: bool = False
    # Running jobs whose estimate was corrected since: what they are thought to end at now.
    corrected: tuple[tuple[int, float], ...] = ()


Log = Callable[[CycleDecisions], None]
