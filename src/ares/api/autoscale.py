"""Pools that grow and shrink by themselves: how they stand, their machines, and what would be bought."""

from ares.model.base import Record
from ares.model.scaling import InstanceState, ScalingPool


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
