"""What a cycle proposes: placements, evictions, resizes and promised starts."""

from typing import Any

from ares.api.decisions import Promise
from ares.core.schedule.considered import Considered
from ares.model.base import Record
from ares.model.state import Placement


class Placed(Record, frozen=True):
    """A waiting job gets its place: one placement for each rank, for the alternative with this number."""

    job: str
    placements: tuple[Placement, ...]
    alternative: int = 0
    class_id: int = 0
    # The job makes use of a gap, and is asked to leave by then.
    leaves_at: float | None = None


class LeftOut(Record, frozen=True):
    """Jobs of one class that found no place. `explain` tells why."""

    class_id: int
    jobs: int
    # The first of these jobs that no room is kept for.
    first_job: str


class Eviction(Record, frozen=True):
    """Room made for one job by evicting others: `hold` is kept for it until they are gone."""

    job: str
    rule: str
    victims: tuple[str, ...]
    hold: tuple[Placement, ...]
    alternative: int
    lost_gpu_s: float
    reason: str
    # What the job and its victims are told.
    record: dict[str, Any] = {}
    # Elastic gangs that give up ranks for the job.
    shrunk: tuple[str, ...] = ()


class Resized(Record, frozen=True):
    """A running elastic gang goes on with these placements."""

    job: str
    placements: tuple[Placement, ...]
    reason: str


class Plan(Record, frozen=True):
    """Placements in the order they were decided. With `more` the cycle stopped at its limit: run it again."""

    at: float
    placed: tuple[Placed, ...] = ()
    left: tuple[LeftOut, ...] = ()
    # Starts to come: room is held for these jobs until then.
    promises: tuple[Promise, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    resized: tuple[Resized, ...] = ()
    # Jobs whose kept room turned out to be of no use to them.
    unheld: tuple[str, ...] = ()
    # Decisions kept whole, by job: of the first jobs placed.
    considered: dict[str, Considered] = {}
    more: bool = False
    # Waiting jobs that the cycle had no time for: the next cycle begins with them.
    unreached: int = 0
