"""The log of decisions: what was decided when. Checkers read it without the scheduler's own arithmetic.

A job is named by its index in `Trace.jobs`.
"""

from collections.abc import Callable

from ares.model.base import Record
from ares.model.state import Placement


class AttemptStart(Record, frozen=True):
    """An attempt began now. The scheduler estimates that it ends at `estimated_end`."""

    job: int
    estimated_end: float | None
    placements: tuple[Placement, ...]


class Promised(Record, frozen=True):
    """A promise: the room of a waiting job from `start` until its estimated end."""

    job: int
    start: float
    until: float | None
    placements: tuple[Placement, ...]


class AttemptEnd(Record, frozen=True):
    """An attempt released its resources: it ended, or was preempted."""

    job: int
    at: float


class CycleDecisions(Record, frozen=True):
    """One cycle, and what happened since the one before, in this order: ended, submitted, again, down, up, decided."""

    time: float
    submitted: tuple[int, ...] = ()
    # Jobs that wait again: an attempt failed or was preempted.
    again: tuple[int, ...] = ()
    ended: tuple[AttemptEnd, ...] = ()
    down: tuple[str, ...] = ()
    up: tuple[str, ...] = ()
    started: tuple[AttemptStart, ...] = ()
    promises: tuple[Promised, ...] = ()
    # Attempts that were resized, each with all the ranks it has now.
    resized: tuple[AttemptStart, ...] = ()
    # The cycle stopped at its limit: another one goes on where it stopped.
    more: bool = False
    # Running jobs whose estimate was corrected, with their new estimated end.
    corrected: tuple[tuple[int, float], ...] = ()


Log = Callable[[CycleDecisions], None]
