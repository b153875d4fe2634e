"""Pools of nodes as one sum, and when a job of some size would start there."""

from ares.api.decisions import Eta
from ares.model.base import Record
from ares.model.job import Resources
from ares.model.profile import Pool
from ares.model.reservation import ReservationState
from ares.model.scaling import InstanceState, ScalingPool


class Shape(Record, frozen=True):
    """A size of job. Resources are those of one rank; `words` name it."""

    words: str
    resources: Resources
    ranks: int = 1


class ShapeEta(Record, frozen=True):
    """Without `starts` it can never run there, and `never` says why."""

    shape: Shape
    starts: Eta | None = None
    never: str = ""


class PoolBooking(Record, frozen=True):
    """A reservation's part of the pool. Of other tenants' only that there is one."""

    name: str
    state: ReservationState
    start: float
    until: float
    gpus: int
    cpu_milli: int


class PoolPromise(Record, frozen=True):
    """Room that the latest plan holds for a waiting job from `start` on. Of other tenants' jobs without a name."""

    job: str
    start: float
    until: float | None
    gpus: float
    nodes: int


class PoolView(Record, frozen=True):
    """Nodes of one pool, summed."""

    name: str
    nodes: int
    ready_nodes: int
    cordoned_nodes: int
    drained_nodes: int
    cpu_milli: int
    cpu_milli_free: int
    memory_mib: int
    memory_mib_free: int
    gpus: int
    gpus_free: int
    # Held by attempts; kept for jobs that others are leaving for; booked by reservations that have begun.
    gpus_held: int
    gpus_kept: int
    gpus_reserved: int
    gpu_models: dict[str, int]
    running_jobs: int
    # Waiting jobs that could run here.
    pending_jobs: int
    # Now and next.
    reservations: tuple[PoolBooking, ...]
    promises: tuple[PoolPromise, ...]
    # Price, spot and power, as the profile sets them.
    terms: Pool
    # What it draws now, by the power model.
    power_watts: float
    # When a job of such a size would start if it were submitted now.
    shapes: tuple[ShapeEta, ...]
    # How many of its GPUs are mock ones: numbers without a device.
    mock_gpus: int = 0


# ---- pools that grow and shrink by themselves


class InstanceView(Record, frozen=True):
    """A machine that was bought, why, and why it is given back."""

    id: str
    node: str
    state: InstanceState
    reason: str
    ending: str
    asked_at: float
    since: float
    handle: str = ""


class PriceView(Record, frozen=True):
    """Where a pool's price comes from, and how old it is."""

    name: str
    catalogue: str
    version: str
    age_s: float
    currency: str = ""
    # Why the catalogue could not be read of late: the price is of the last one that could.
    trouble: str = ""


class ScalingView(Record, frozen=True):
    """A pool. While it is not `enabled`, what it would buy is only shown."""

    pool: ScalingPool
    enabled: bool
    enabled_by: str
    instances: tuple[InstanceView, ...]
    # An hour, of the machines it has.
    cost_hour: float
    # Machines more that its bound and its budget allow.
    room: int
    # Until when it pauses after machines that could not be had, and why.
    paused_until: float | None = None
    trouble: str = ""
    price: PriceView | None = None


class ScalingList(Record, frozen=True):
    pools: tuple[ScalingView, ...]


class PurchaseView(Record, frozen=True):
    """Machines worth buying now, for jobs that would start on them."""

    pool: str
    count: int
    jobs: tuple[str, ...]
    cost_hour: float
    # Whether the pool's switch lets them be bought.
    enabled: bool
    message: str


class ScalingPlan(Record, frozen=True):
    """What would be bought as things are. Of other tenants' jobs only how many there are."""

    purchases: tuple[PurchaseView, ...]
    # Jobs that wait for room, and machines on their way.
    waiting: int
    coming: int
    message: str
