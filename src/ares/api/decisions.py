"""Decisions as they are told: why a job waits, what a new one would meet, a decision made again."""

from typing import Any, Literal

from ares.api.deadlines import DeadlineSeen
from ares.api.reasons import Reason, Remedy
from ares.model.base import Record
from ares.model.cluster import RouteDecision, RouteFlip
from ares.model.profile import Weight
from ares.model.state import Phase, Placement


class Step(Record, frozen=True):
    """One filter, and how many nodes were left after it."""

    filter: str
    nodes: int


class NearMiss(Record, frozen=True):
    """A node that came far, and what it lacks."""

    node: str
    refused_by: str
    message: str
    numbers: dict[str, int] = {}


class AskExplained(Record, frozen=True):
    """One alternative of the job. Without a reason it would fit now."""

    reason: Reason | None
    funnel: tuple[Step, ...] = ()
    nearest: tuple[NearMiss, ...] = ()
    # What would have to happen before it is worth another look.
    wakes: tuple[str, ...] = ()


class Holder(Record, frozen=True):
    """Somebody on the nodes that come nearest. Of other tenants' jobs only what they hold is told."""

    node: str
    job: str = ""
    tenant: str = ""
    gpus: float = 0.0
    cpus: float = 0.0
    since: float = 0.0
    ends_at: float | None = None
    # Kept for a waiting job, not held by a running one.
    reserved: bool = False


class GpuSeen(Record, frozen=True):
    """One GPU of a node that comes near, when GPUs are what it lacks."""

    node: str
    index: int
    model: str
    memory_mib: int
    free_milli: int
    numa_node: int = 0
    # Those of the asker's tenant that have a part of it.
    jobs: tuple[str, ...] = ()
    mig: bool = False


class FactorShown(Record, frozen=True):
    """One term of a rank. The products of one sum add up to it exactly, by `math.fsum`."""

    name: str
    value: float
    weight: float
    product: float
    sum: Literal["primary", "secondary"]


class Standing(Record, frozen=True):
    """One level of the tenant tree: what is asked for, used, allowed and free of one resource."""

    path: str
    resource: str
    asked: int
    used: int
    limit: int | None
    soft: int | None


class Eta(Record, frozen=True):
    """Seconds since the epoch. Without `latest` nobody can say; `basis` says what it rests on."""

    earliest: float
    latest: float | None
    basis: str
    computed_at: float


class Change(Record, frozen=True):
    """What to write instead. `cost` orders changes: the part of the job that is given up."""

    fields: dict[str, Any]
    message: str
    cost: float


class Promise(Record, frozen=True):
    """Seconds since the epoch; `until` is when it will have ended, None when nobody can say."""

    job: str
    start: float
    until: float | None
    placements: tuple[Placement, ...]
    # What it was promised first: some strategies let it slip, but only so far.
    first_start: float
    made_at: float
    # From when on no other job may be in its place, None: from its start. When a start slips, that stays what it was:
    # the room is kept as it comes free, and no job enters that would not have ended by then.
    held_from: float | None = None

    @property
    def slipped(self) -> bool:
        """Whether it starts later than the room is held for it: what holds the room runs longer than was thought."""
        return self.held_from is not None and self.held_from < self.start


class Explanation(Record, frozen=True):
    job: str
    phase: Phase
    at: float
    reason: Reason | None = None
    remedy: Remedy | None = None
    # One for each alternative, in the job's order of preference.
    alternatives: tuple[AskExplained, ...] = ()
    holders: tuple[Holder, ...] = ()
    gpus: tuple[GpuSeen, ...] = ()
    ahead: int | None = None
    ahead_in_tenant: int | None = None
    rank: float | None = None
    factors: tuple[FactorShown, ...] = ()
    limits: tuple[Standing, ...] = ()
    # By the one estimate that plan, pools and deadlines answer from.
    starts: Eta | None = None
    # In four of five cases like it.
    eta: Eta | None = None
    # A start that the latest plan holds room for.
    promise: Promise | None = None
    # Why no job is evicted for it.
    no_eviction: str = ""
    change: Change | None = None


class PrioRow(Record, frozen=True):
    """One waiting job and the factors that sum to its rank."""

    job: str
    tenant: str
    name: str
    priority: str
    rank: float
    secondary: float
    factors: tuple[FactorShown, ...]


class Offer(Record, frozen=True):
    """One way to run the job. `asked` says what differs from what was asked for first."""

    asked: str
    starts: Eta
    # Per hour for all ranks, in the currency of the pools; None when it has no place now to price.
    price_hour: float | None = None
    placements: tuple[Placement, ...] = ()


class RouteSeen(Record, frozen=True):
    """Which cluster a job goes to, and what that was decided by. Without a decision, the message says why there is
    none."""

    message: str
    decision: RouteDecision | None = None
    # When it was decided; None: it would be decided so now.
    at: float | None = None
    # What would make the next best cluster the winner.
    flip: RouteFlip | None = None


class PlanAnswer(Record, frozen=True):
    """What would happen if the job were submitted now. Nothing was changed."""

    starts_now: bool
    # To be compared with a later answer: the world was like this.
    revision: int
    profile_version: int
    reason: Reason | None = None
    remedy: Remedy | None = None
    offers: tuple[Offer, ...] = ()
    # Whom it would displace.
    eviction: dict[str, Any] | None = None
    # Why it would displace no job.
    no_eviction: str = ""
    change: Change | None = None
    ahead: int = 0
    # Whether it would meet its deadline.
    deadline: DeadlineSeen | None = None
    # What policies would say to it.
    warnings: tuple[str, ...] = ()
    # Of a global plane: which of its clusters it would go to.
    routing: RouteSeen | None = None
    # The memory it would get because it does not say.
    default_memory_mib: int | None = None


class Ranked(Record, frozen=True):
    """One node under some weights."""

    node: str
    score: float
    parts: dict[str, float]
    ranks: int = 0


class ReplayAnswer(Record, frozen=True):
    """A past decision, made again with other weights."""

    decision: str
    job: str
    at: float
    profile_version: int
    weights: tuple[Weight, ...]
    chosen: tuple[str, ...]
    chosen_again: tuple[str, ...]
    same: bool
    nodes: tuple[Ranked, ...]
    # How many could have taken it, and how many of those were kept.
    passing: int
    kept: int
