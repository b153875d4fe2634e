"""Room that is booked ahead."""

from ares.model.base import Record
from ares.model.reservation import ReservationState, RoomAsked, Turn
from ares.model.state import Placement


class ReservationView(Record, frozen=True):
    """A reservation as one may see it: of other tenants only that there is one, where and when."""

    name: str
    tenant: str
    state: ReservationState
    start: float
    until: float
    gpus: int
    cpu_milli: int
    memory_mib: int
    placements: tuple[Placement, ...]
    asked: RoomAsked
    teams: tuple[str, ...]
    users: tuple[str, ...]
    created_by: str
    created_at: float
    note: str
    unused_release_s: float
    used_at: float | None
    # Jobs that run in it, and those that wait for it.
    running: int
    waiting: int
    # How many jobs that do not belong there hold some of its room now.
    strangers: int
    # Nodes of it that are gone, cordoned or silent.
    missing: tuple[str, ...]
    history: tuple[Turn, ...]
