"""What goes over a simulated link beside the messages of `core/federation`, and the stores of both sides."""

from dataclasses import dataclass, field, replace
from typing import Any

from ares.core.federation.epochs import LOCAL_EPOCH
from ares.core.federation.healing import ClusterJob
from ares.core.federation.merge import Version
from ares.core.federation.messages import Downward, JobOffer, JobVerdict, Upward
from ares.model.base import Fence
from ares.model.cluster import ClusterRecord, ClusterState, EscrowRecord, Owner, Possession


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """What a person asked for; it travels with the job."""

    id: str
    tenant: str
    run_s: float
    residency: tuple[str, ...] = ()
    may_move: bool = False
    # The cluster that a local job was submitted to.
    place: str = ""
    request: str = ""


# ---- up


@dataclass(frozen=True, slots=True)
class HelloLetter:
    store_epoch: int
    settled: bool
    hashes: list[int]
    allowance: dict[str, EscrowRecord]


@dataclass(frozen=True, slots=True)
class ReportLetter:
    version: Version
    # By the cluster's own clocks: the first is what a lease is renewed by, the second is wrong on purpose.
    sent_at: float
    wall: float
    free: int
    waiting: int
    # Jobs that it has, or has had without the global plane knowing of their end.
    jobs: int
    released: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class ListedJob:
    entry: ClusterJob
    job: SimulatedJob
    outcome: str = ""
    started: bool = False


@dataclass(frozen=True, slots=True)
class ListingLetter:
    number: int
    store_epoch: int
    settled: bool
    jobs: dict[str, ListedJob]


@dataclass(frozen=True, slots=True)
class StateLetter:
    job: str
    epoch: int
    fence: int
    seq: int
    outcome: str = ""


# ---- down


@dataclass(frozen=True, slots=True)
class WelcomeLetter:
    """The hello is accepted; these buckets are to be listed."""

    number: int
    buckets: tuple[int, ...]
    escrow: dict[str, EscrowRecord]


@dataclass(frozen=True, slots=True)
class HealedLetter:
    number: int
    verdicts: tuple[JobVerdict, ...]


@dataclass(frozen=True, slots=True)
class AnswerLetter:
    """To a report. `lease`: when the report was sent that renews it, None while the global plane rebuilds itself."""

    lease: float | None
    state: ClusterState
    grants: dict[str, EscrowRecord]


@dataclass(frozen=True, slots=True)
class OfferLetter:
    offer: JobOffer
    job: SimulatedJob


@dataclass(frozen=True, slots=True)
class CancelLetter:
    job: str
    epoch: int


@dataclass(frozen=True, slots=True)
class EndKnownLetter:
    """The end of a job is durable at the global plane."""

    job: str
    epoch: int


@dataclass(frozen=True, slots=True)
class HelloPlease:
    """There is no session: say hello."""


@dataclass(frozen=True, slots=True)
class RefusedLetter:
    """The cluster has left or was declared dead."""


UpLetter = HelloLetter | ReportLetter | ListingLetter | StateLetter | Upward
DownLetter = (
    WelcomeLetter | HealedLetter | AnswerLetter | OfferLetter | CancelLetter | EndKnownLetter | HelloPlease
    | RefusedLetter | Downward
)  # fmt: skip


# ---- stores


@dataclass(slots=True)
class GlobalRecord:
    """A job in the global plane's store."""

    job: SimulatedJob
    owner: Owner
    outcome: str = ""
    cancel: bool = False
    fence: int = 0
    seq: int = 0
    # The store epoch of its cluster when it was confirmed.
    confirmed_in: int = 0


@dataclass(slots=True)
class PlaneStore:
    store_epoch: int = 1
    # Up to which store epoch every cluster has healed since the restore that began it.
    rebuilt_in: int = 1
    revision: int = 0
    codes: int = 0
    jobs: dict[str, GlobalRecord] = field(default_factory=dict)
    clusters: dict[str, ClusterRecord] = field(default_factory=dict)
    escrow: dict[tuple[str, str], EscrowRecord] = field(default_factory=dict)

    def backup(self) -> "PlaneStore":
        jobs = {job: replace(record) for job, record in self.jobs.items()}
        return replace(self, jobs=jobs, clusters=dict(self.clusters), escrow=dict(self.escrow))


@dataclass(slots=True)
class JobHere:
    """A job in a cluster's store."""

    job: SimulatedJob
    held: Possession = field(default_factory=Possession)
    fence: int = 0
    seq: int = 0
    outcome: str = ""
    # Its end is durable at the global plane.
    known: bool = False
    cancel: bool = False


@dataclass(slots=True)
class ClusterStore:
    store_epoch: int = 1
    jobs: dict[str, JobHere] = field(default_factory=dict)
    allowance: dict[str, EscrowRecord] = field(default_factory=dict)

    def backup(self) -> "ClusterStore":
        jobs = {job: replace(here) for job, here in self.jobs.items()}
        return replace(self, jobs=jobs, allowance=dict(self.allowance))


def listed_job(here: JobHere) -> ListedJob:
    """A job as its cluster lists it."""
    taken = here.held.taken
    if taken is None:
        return ListedJob(ClusterJob("refused", here.held.refused), here.job)
    says: Any = "local" if here.job.place and taken.epoch == LOCAL_EPOCH else taken.stage.lower()
    if taken.stage == "CONFIRMED" and here.outcome:
        says = "ended"
    fence = Fence(epoch=1, counter=here.fence)
    return ListedJob(ClusterJob(says, taken.epoch, fence, here.seq), here.job, here.outcome, bool(here.fence))
