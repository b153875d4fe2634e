"""Sessions in running jobs, and what jobs use at the moment."""

from ares.model.base import Record, Shown
from ares.model.job_session import GpuReading, SessionId, SessionSpec, SessionView


class SessionBody(SessionSpec, frozen=True, kw_only=True):
    """A session to open. Asking again with the same id opens no second one."""

    id: SessionId


class SessionList(Record, frozen=True):
    """The sessions of a running job that have not ended."""

    sessions: tuple[SessionView, ...]


class RankUse(Shown, frozen=True):
    """What one rank of a running job uses now, beside what it asked for."""

    job: str
    name: str
    tenant: str
    user: str
    node: str
    rank: int
    # CPUs in use, over the time between the two latest looks.
    cpus: float
    cpus_asked: float
    memory_bytes: int
    memory_asked_bytes: int
    processes: int
    gpus: tuple[int, ...] = ()
    # GPUs in use, and bytes of their memory, by the driver; None where that is not known, or a GPU is shared.
    gpus_busy: float | None = None
    gpu_memory_bytes: int | None = None
    # Each of them by itself, with what it draws and how hot it is where its driver tells.
    devices: tuple[GpuReading, ...] = ()
    # Its GPUs are mock ones: numbers without a device.
    mock_gpus: bool = False


class LiveUse(Shown, frozen=True):
    """What running jobs use now. `unasked` are nodes that this replica could not ask."""

    ranks: tuple[RankUse, ...]
    unasked: tuple[str, ...] = ()
