"""Room that is booked ahead: which GPUs of which nodes, from when until when, and for which tenant."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import Name, Note, Record, Slug
from ares.model.job import GpuModel
from ares.model.state import Placement

ReservationState = Literal["planned", "active", "ended", "released", "cancelled"]
# States in which its room is kept.
BOOKED: frozenset[ReservationState] = frozenset({"planned", "active"})

Moment = Annotated[float, Meta(ge=0.0, le=1e11)]
NodeName = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)")]


class RoomAsked(Record, frozen=True):
    """How much to book, in all. Whole nodes where only nodes are named or counted."""

    gpus: Annotated[int, Meta(ge=0, le=100_000)] = 0
    gpu_model: GpuModel | None = None
    # Beside GPUs these are shared out among them. Left out, every GPU, or CPU, comes with its part of its node.
    cpu_milli: Annotated[int, Meta(ge=0, le=10**9)] = 0
    memory_mib: Annotated[int, Meta(ge=0, le=10**12)] = 0
    # On exactly so many nodes, the same on each.
    nodes: Annotated[int, Meta(ge=0, le=10_000)] = 0
    # On these nodes and no others.
    node_names: Annotated[tuple[NodeName, ...], Meta(max_length=1000)] = ()
    pool: Name | None = None


class Turn(Record, frozen=True):
    """One change of a reservation."""

    at: float
    state: ReservationState
    by: str = ""
    why: Note = ""


class Reservation(Record, frozen=True):
    """Times are wall-clock seconds since the epoch: a window is agreed upon between people."""

    name: Slug
    tenant: Slug
    start: Moment
    until: Moment
    asked: RoomAsked
    # One for each node. A node keeps what is booked on it when its agent starts anew.
    placements: tuple[Placement, ...]
    # Teams and users whose jobs may use it: the whole tenant where neither is named. Users are tokens, by name or id.
    teams: Annotated[tuple[Slug, ...], Meta(max_length=64)] = ()
    users: Annotated[tuple[Name, ...], Meta(max_length=64)] = ()
    state: ReservationState = "planned"
    created_by: str = ""
    created_at: float = 0.0
    note: Note = ""
    # Given up when no job has used it for so long since it began; 0: never.
    unused_release_s: Annotated[float, Meta(ge=0.0, le=31_536_000.0)] = 600.0
    # When a job last ran in it.
    used_at: float | None = None
    history: tuple[Turn, ...] = ()

    @property
    def gpus(self) -> int:
        return sum(len(place.gpus) for place in self.placements)

    @property
    def cpu_milli(self) -> int:
        return sum(place.cpu_milli for place in self.placements)

    @property
    def memory_mib(self) -> int:
        return sum(place.memory_mib for place in self.placements)

    def overlaps(self, start: float, until: float) -> bool:
        """Whether it keeps its room at some moment from `start` until before `until`."""
        return self.state in BOOKED and self.start < until and start < self.until
