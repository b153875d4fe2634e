"""What the server says about decisions: why a job waits, what a new one would meet, a decision made again."""

from typing import Any

from ares.edge.client.calls.deadlines import DeadlineSeen
from ares.model.base import Record
from ares.model.state import Phase, Placement


class Reason(Record, frozen=True):
    """`code` is one of a closed list, see docs/concepts/reasons.md."""

    code: str = ""
    message: str = ""
    numbers: dict[str, int] = {}


class Step(Record, frozen=True):
    """One filter, and how many nodes were left after it."""

    filter: str
    nodes: int = 0


class NearMiss(Record, frozen=True):
    """A node that came far, and what it lacks."""

    node: str
    refused_by: str = ""
    message: str = ""
    numbers: dict[str, int] = {}


class AskExplained(Record, frozen=True):
    """One alternative of the job. Without a reason it would fit now."""

    reason: Reason | None = None
    funnel: tuple[Step, ...] = ()
    nearest: tuple[NearMiss, ...] = ()
    wakes: tuple[str, ...] = ()


class Holder(Record, frozen=True):
    """Somebody on the nodes that come nearest; without a name when it is another tenant's."""

    node: str
    job: str = ""
    tenant: str = ""
    gpus: float = 0.0
    cpus: float = 0.0
    since: float = 0.0
    ends_at: float | None = None
    reserved: bool = False


class GpuSeen(Record, frozen=True):
    """One GPU of a node that comes near."""

    node: str
    index: int = 0
    model: str = ""
    memory_mib: int = 0
    free_milli: int = 0
    numa_node: int = 0
    jobs: tuple[str, ...] = ()
    mig: bool = False


class Factor(Record, frozen=True):
    """One term of a rank: `value` times `weight`."""

    name: str
    value: float = 0.0
    weight: float = 0.0
    product: float = 0.0
    sum: str = "primary"


class Standing(Record, frozen=True):
    """One limit of a tenant, team or user. CPUs and GPUs in thousandths, memory in MiB."""

    path: str
    resource: str = ""
    asked: int = 0
    used: int = 0
    limit: int | None = None
    soft: int | None = None


class Eta(Record, frozen=True):
    """When it could start, in seconds since the epoch. Without `latest` nobody can say."""

    earliest: float
    latest: float | None = None
    basis: str = ""
    computed_at: float = 0.0


class Change(Record, frozen=True):
    """The smallest change that would start the job now: dotted names of fields and what to write there."""

    fields: dict[str, Any] = {}
    message: str = ""
    cost: float = 0.0


class Promise(Record, frozen=True):
    """Room is held for the job from `start` on; `until` is when it will have ended, None when nobody can say."""

    job: str
    start: float
    until: float | None = None
    placements: tuple[Placement, ...] = ()
    first_start: float = 0.0
    made_at: float = 0.0


class Explanation(Record, frozen=True):
    """Why a job waits, and what would start it. Of a job that does not wait only `phase` is set."""

    job: str
    phase: Phase = "PENDING"
    at: float = 0.0
    reason: Reason | None = None
    remedy: str | None = None
    alternatives: tuple[AskExplained, ...] = ()
    holders: tuple[Holder, ...] = ()
    gpus: tuple[GpuSeen, ...] = ()
    ahead: int | None = None
    ahead_in_tenant: int | None = None
    rank: float | None = None
    factors: tuple[Factor, ...] = ()
    limits: tuple[Standing, ...] = ()
    starts: Eta | None = None
    # When it starts, in four of five cases like it.
    eta: Eta | None = None
    # A start that the latest plan holds room for.
    promise: Promise | None = None
    # Why nobody is displaced for it.
    no_eviction: str = ""
    change: Change | None = None


class PrioRow(Record, frozen=True):
    """One waiting job and the factors that sum to its rank."""

    job: str
    tenant: str = ""
    name: str = ""
    priority: str = ""
    rank: float = 0.0
    secondary: float = 0.0
    factors: tuple[Factor, ...] = ()


class Offer(Record, frozen=True):
    """One way to run the job."""

    asked: str
    starts: Eta
    price_hour: float | None = None
    placements: tuple[Placement, ...] = ()


class PlanAnswer(Record, frozen=True):
    """What would happen if the job were submitted now. Nothing was changed."""

    starts_now: bool
    revision: int = 0
    profile_version: int = 0
    reason: Reason | None = None
    remedy: str | None = None
    offers: tuple[Offer, ...] = ()
    # Whom it would displace, or why nobody.
    eviction: dict[str, Any] | None = None
    no_eviction: str = ""
    change: Change | None = None
    ahead: int = 0
    # Whether it would meet its deadline.
    deadline: DeadlineSeen | None = None
    # What policies would say to it.
    warnings: tuple[str, ...] = ()


class Ranked(Record, frozen=True):
    """One node under some weights."""

    node: str
    score: float = 0.0
    parts: dict[str, float] = {}
    ranks: int = 0


class Weight(Record, frozen=True):
    name: str
    weight: float = 0.0


class ReplayAnswer(Record, frozen=True):
    """A past decision, made again with other weights."""

    decision: str
    job: str = ""
    at: float = 0.0
    profile_version: int = 0
    weights: tuple[Weight, ...] = ()
    chosen: tuple[str, ...] = ()
    chosen_again: tuple[str, ...] = ()
    same: bool = True
    nodes: tuple[Ranked, ...] = ()
    passing: int = 0
    kept: int = 0
