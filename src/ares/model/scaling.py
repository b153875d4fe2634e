"""Pools that grow and shrink by themselves: what may be bought for them, and each machine that was."""

from typing import Annotated, Literal

from msgspec import Meta, field

from ares.model.base import Instant, LabelKey, LabelValue, Note, Record
from ares.model.job import GpuModel

PoolName = Annotated[str, Meta(min_length=1, max_length=48, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$(?!\n)")]
# "wanted": recorded, and not known to be there; "created": the provider has it; "ready": its agent is; "leaving":
# its node is drained, then it is deleted.
InstanceState = Literal["wanted", "created", "ready", "leaving"]
INSTANCES_MAX = 1000


class NodeShape(Record, frozen=True):
    """What each machine of a pool has."""

    cpu_milli: Annotated[int, Meta(ge=100, le=4_096_000)]
    memory_mib: Annotated[int, Meta(ge=64, le=64 * 1024 * 1024)]
    gpus: Annotated[int, Meta(ge=0, le=64)] = 0
    gpu_model: GpuModel | None = None
    gpu_memory_mib: Annotated[int, Meta(ge=0, le=16 * 1024 * 1024)] = 0
    labels: Annotated[dict[LabelKey, LabelValue], Meta(max_length=64)] = {}


class ScalingPool(Record, frozen=True):
    """How one pool may grow, and when it shrinks."""

    name: PoolName
    shape: NodeShape
    # Under which a provider is known: "process", or one that a plugin adds.
    provider: str = "process"
    nodes_min: Annotated[int, Meta(ge=0, le=INSTANCES_MAX)] = 0
    nodes_max: Annotated[int, Meta(ge=1, le=INSTANCES_MAX)] = 1
    # Machines are bought for jobs that have waited this long for room.
    after_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 30.0
    # A machine on which nothing was held for this long is given back.
    idle_s: Annotated[float, Meta(ge=1.0, le=86_400.0)] = 600.0
    # Its name in the catalogue of prices, which then says what a machine costs an hour.
    price: Annotated[str, Meta(max_length=128)] = ""
    # What one machine costs an hour, and what all of the pool may; 0: no limit.
    node_hour: Annotated[float, Meta(ge=0.0, le=1e9)] = 0.0
    budget_hour: Annotated[float, Meta(ge=0.0, le=1e12)] = 0.0
    # How long a machine usually takes until its agent is ready.
    boot_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 60.0
    # How long a provider may take to create a machine, and its agent to register.
    launch_s: Annotated[float, Meta(ge=1.0, le=86_400.0)] = 300.0
    register_s: Annotated[float, Meta(ge=1.0, le=86_400.0)] = 900.0
    # After a machine that could not be had: the first pause, which doubles up to the last.
    backoff_s: Annotated[float, Meta(ge=0.1, le=86_400.0)] = 300.0
    backoff_max_s: Annotated[float, Meta(ge=0.1, le=86_400.0)] = 1800.0
    # What its nodes give jobs beyond room, as `NodeInfo.sandbox` has it: the provider says so.
    features: tuple[str, ...] = ()


class MachinePrice(Record, frozen=True):
    """What one machine costs an hour, under the name that pools have for it."""

    name: Annotated[str, Meta(min_length=1, max_length=128)]
    node_hour: Annotated[float, Meta(ge=0.0, le=1e9)]


class EgressPrice(Record, frozen=True):
    """What it costs to bring data from one region to another, and how fast it comes; `*` is any region."""

    from_: Annotated[str, Meta(min_length=1, max_length=128)] = field(name="from")
    to: Annotated[str, Meta(min_length=1, max_length=128)]
    per_gib: Annotated[float, Meta(ge=0.0, le=1e6)]
    gib_per_s: Annotated[float, Meta(gt=0.0, le=1e6)] = 1.0


class PriceCatalogue(Record, frozen=True):
    """Prices as data: of which version, and since when they hold, in seconds since the epoch."""

    version: Annotated[str, Meta(min_length=1, max_length=128)]
    at: Instant
    currency: Annotated[str, Meta(max_length=8)] = ""
    machines: Annotated[tuple[MachinePrice, ...], Meta(max_length=10_000)] = ()
    egress: Annotated[tuple[EgressPrice, ...], Meta(max_length=10_000)] = ()


class InstanceRecord(Record, frozen=True):
    """A machine that was bought, written before its provider hears of it: `id` is the token it is created with."""

    id: str
    pool: str
    # The name its agent registers under.
    node: str
    state: InstanceState = "wanted"
    # Why it was bought; and why it is given back.
    reason: Note = ""
    ending: Note = ""
    asked_at: float = 0.0
    # Since when it is in its state.
    since: float = 0.0
    # What the provider calls it, and which it is: a pool may be gone, or have another, before its machines are.
    handle: Note = ""
    provider: str = ""


class ScalingSwitch(Record, frozen=True):
    """Whether machines are bought for a pool. Without a record they are not: what would be bought is only shown."""

    pool: str
    enabled: bool
    by: str = ""
    at: float = 0.0
