"""Clusters of a federation: their records, the owner of a job, what a cluster keeps of jobs that it was offered, and
which cluster a job goes to, as it is kept and told."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import Instant, LabelValue, Line, Note, Number, Record, Slug
from ares.model.job import Priority

# A cluster's share of all job ids, given once and never to another cluster: letters and digits that cannot be misread.
ClusterCode = Annotated[str, Meta(min_length=3, max_length=3, pattern=r"^[0-9a-hjkmnp-tv-z]{3}$(?!\n)")]
ClusterState = Literal["JOINING", "ACTIVE", "DRAINING", "LEFT", "DEAD"]
ClusterKind = Literal["nodes", "kubernetes"]
# Whole units of measures, as quotas are counted in.
EscrowAmounts = Annotated[dict[Line, Number], Meta(max_length=64)]


class ClusterRecord(Record, frozen=True):
    """A cluster as the global plane knows it, replaced whole by compare-and-swap."""

    name: Slug
    code: ClusterCode
    kind: ClusterKind = "nodes"
    state: ClusterState = "JOINING"
    # Grows each time the name joins: what an earlier cluster of this name says does not count any more.
    generation: Number = 1
    # The newest epoch of its own store that it has shown: it grows when the cluster is restored from a backup.
    epoch: Number = 0
    # The epoch of the global plane's own store in which all that the two knew of each other was last settled.
    healed_in: Number = 0
    # Where its nodes are: what residency is judged by. Empty: not said, so no job with a residency goes there.
    region: LabelValue = ""
    # Why it drains, left or was declared dead, and since when, for people.
    note: Note = ""
    since: Instant = 0.0


OwnerStage = Literal["HELD", "OFFERED", "CONFIRMED"]


class Owner(Record, frozen=True):
    """Which cluster has a job, inside the job's state: one compare guards both.

    Invariant: `epoch` never falls; a HELD job has no cluster."""

    cluster: str = ""
    epoch: Number = 0
    stage: OwnerStage = "HELD"


TakenStage = Literal["ACCEPTED", "CONFIRMED", "STOPPING"]


class Taken(Record, frozen=True):
    """A job that a cluster accepted, written in the transaction that writes the job. It starts only when CONFIRMED;
    STOPPING: the global plane has given it away, and something of it may still run."""

    epoch: Number
    stage: TakenStage = "ACCEPTED"
    # Empty for a job that was submitted in the cluster itself.
    spec_sha256: Annotated[str, Meta(max_length=64, pattern=r"^[0-9a-f]*$(?!\n)")] = ""
    # STOPPING by the cluster's own decision, because its ownership lease is over: its end is no end of the job.
    fenced: bool = False


class Possession(Record, frozen=True):
    """All a cluster keeps of who owns one job. Invariant: nothing at or below `refused` is ever accepted."""

    taken: Taken | None = None
    # The highest epoch that was declined, withdrawn or released.
    refused: Number = 0


class EscrowRecord(Record, frozen=True):
    """What of a tenant's quota a cluster may spend alone. Both amounts only grow, and each has one writer: `granted`
    the global plane, `released` the cluster. What one side has not heard yet is too little there, never too much."""

    granted: EscrowAmounts = {}
    released: EscrowAmounts = {}
    # By wall clock. Past it the cluster admits nothing new; the amounts stay spoken for.
    until: Instant = 0.0


class LentQuota(Record, frozen=True):
    """What of a tenant's quota one cluster was lent, as the global plane keeps it."""

    cluster: Slug
    tenant: Slug
    escrow: EscrowRecord = EscrowRecord()


class Allowance(Record, frozen=True):
    """What a cluster was lent of a tenant's quota, as the cluster keeps it. Of what is not among `measures` the tenant
    may have as much as it likes, as far as the global plane is concerned."""

    tenant: Slug
    escrow: EscrowRecord = EscrowRecord()
    measures: Annotated[tuple[Line, ...], Meta(max_length=64)] = ()
    # What it need not give back although no job of its own uses it.
    keep: EscrowAmounts = {}


# ---- which cluster a job goes to

RouteCode = Literal[
    "not-active", "silent", "declined", "residency", "policy", "architecture", "selector", "too-large", "budget",
    "deadline",
]  # fmt: skip
_Weight = Annotated[float, Meta(ge=0.0, le=1e9)]


class RouteTerms(Record, frozen=True):
    """In seconds and in money. A test and a judge recompute the score from them; a term that is left out is 0."""

    wait_s: float = 0.0
    boot_s: float = 0.0
    data_s: float = 0.0
    image_s: float = 0.0
    run_s: float = 0.0
    run_cost: float = 0.0
    egress_cost: float = 0.0
    interruption_cost: float = 0.0
    rtt_s: float = 0.0
    age_s: float = 0.0


class RouteWeights(Record, frozen=True, omit_defaults=False):
    """What makes one sum of all terms: seconds for a unit of money, for a second of round trip, for one of a report's
    age. The first is the tenant's or the priority's."""

    money_s: float = 60.0
    rtt: float = 1.0
    age: float = 0.5


class RoutingPolicy(Record, frozen=True):
    """How clusters are weighed against each other, at a global plane."""

    # Seconds that a job may end later for each unit of money that it costs less.
    money_s: _Weight = 60.0
    rtt: _Weight = 1.0
    age: _Weight = 0.5
    # Instead of `money_s`: for a tenant's jobs, else for those of a priority.
    tenant_money_s: Annotated[dict[Slug, _Weight], Meta(max_length=1000)] = {}
    priority_money_s: dict[Priority, _Weight] = {}


class RouteRefusal(Record, frozen=True):
    """Why a cluster gets no offer of this job, with numbers."""

    cluster: str
    code: RouteCode
    message: str


class RoutedCluster(Record, frozen=True, omit_defaults=False):
    """One cluster in a decision: its terms and their sum, the machines they are for, and the report they are from."""

    cluster: str
    terms: RouteTerms
    score: float
    incarnation: int = 0
    seq: int = 0
    # As people know the machines: "8 x A100, 64 cores in pool default".
    machines: str = ""
    # Ranks that fit there by the report, and that offers since have taken.
    free: int = 0
    offered: int = 0


class RouteDecision(Record, frozen=True, omit_defaults=False):
    """Kept with the job. `ranked` has the best first; the first is the choice. Of many clusters the last are left out,
    and counted in `more`."""

    ranked: tuple[RoutedCluster, ...] = ()
    refused: tuple[RouteRefusal, ...] = ()
    weights: RouteWeights = RouteWeights()
    more: int = 0
    # The version of the catalogue of prices that was gone by, and how old that was; empty without one.
    catalogue: str = ""
    catalogue_age_s: float = 0.0

    @property
    def chosen(self) -> str:
        return self.ranked[0].cluster if self.ranked else ""


class RouteFlip(Record, frozen=True, omit_defaults=False):
    """The one term whose change makes the runner-up the winner: in its own unit, what it is and what it would be."""

    cluster: str
    term: str
    now: float
    flips_at: float
