"""Messages on the stream between a cluster and its global plane.

As on the agents' link: frames of several messages both ways, derived from records, safe to repeat at any time. What a
cluster sends is bounded in every field, and decoding is where that is checked: a cluster may be in the hands of an
attacker. It speaks for itself alone, by its certificate, and only of jobs that it owns.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from ares.model.base import Fence, Instant, Line, Number, OutputFile, Record, RequestId, Sha256, Slug, Words
from ares.model.books.told import ToldBook, ToldDay
from ares.model.cluster import ClusterCode, EscrowAmounts
from ares.model.state import EventKind, ExitInfo, Phase, RequestRecord, Spent
from ares.model.uplink import ClusterReport, JobId, OfferedJob

# Messages of one frame, entries of one report, bytes of a log's end. All entries are written in one transaction.
MESSAGES_MAX = 2_000
ENTRIES_MAX = 50
TAIL_BYTES_MAX = 64 * 1024
BUCKETS = 256
# Words about one job or entry, and what else an entry or a result says, as JSON.
REASON_MAX = 4_000
DATA_BYTES_MAX = 16 * 1024
VALUE_BYTES_MAX = 1024 * 1024
_Hash = Annotated[int, Meta(ge=0)]
_Reason = Annotated[str, Meta(max_length=REASON_MAX)]
_Amount = Annotated[float, Meta(ge=0.0, le=1e15)]
# Empty where the receiver knows the job's tenant.
_Tenant = Annotated[str, Meta(max_length=63, pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$(?!\n)")]


# ---- cluster -> global plane


class ClusterHello(Record, frozen=True, tag="hello"):
    """First message of a session."""

    name: Slug
    incarnation: Number
    # Of the cluster's own store: another epoch or id than before says that it was restored.
    store_epoch: Number
    # As the global plane said at its first welcome; 0: the cluster has joined just now.
    generation: Number = 0
    # The code that the global plane gave then: its local jobs carry it.
    code: Annotated[str, Meta(max_length=3, pattern=r"^([0-9a-hjkmnp-tv-z]{3})?$(?!\n)")] = ""
    version: Line = ""
    region: Line = ""
    # The cluster's clock: a certificate is good by the clock that judges it.
    wall: Instant = 0.0
    # A hash for each of 256 buckets over all jobs of the global plane that it holds.
    buckets: Annotated[tuple[_Hash, ...], Meta(min_length=BUCKETS, max_length=BUCKETS)] = (0,) * BUCKETS
    # Nothing from before a restore of its store can still run there.
    settled: bool = True
    # It tells its books when it is said how far they are known.
    books: bool = False


class Reported(Record, frozen=True, tag="report"):
    report: ClusterReport
    # Sent back, to measure how long the link takes.
    nonce: Number = 0


class Accepted(Record, frozen=True, tag="accepted"):
    job: JobId
    epoch: Number


class Declined(Record, frozen=True, tag="declined"):
    job: JobId
    epoch: Number
    code: Line = ""
    why: Words = ""


class Withdrawn(Record, frozen=True, tag="withdrawn"):
    job: JobId
    epoch: Number


class GivenBack(Record, frozen=True, tag="released"):
    """The cluster gives a job back that never ran there."""

    job: JobId
    epoch: Number


class LedgerLine(Record, frozen=True):
    """An entry of a job's ledger in its cluster."""

    seq: Number
    kind: EventKind
    phase: Phase
    at: Instant
    attempt: Number = 0
    fence: Line = ""
    by: Line = ""
    reason: _Reason = ""
    data: dict[str, Any] = {}


class OwnedEnd(Record, frozen=True):
    """The result of a job, with the last bytes of its log; its files stay in the cluster."""

    exit: ExitInfo
    committed_at: Instant
    value: Any = None
    outputs: Annotated[tuple[OutputFile, ...], Meta(max_length=10_000)] = ()


class SpentThere(Spent, frozen=True):
    """What a job used, as its cluster says: each amount within bounds, and never less than nothing."""

    pool: Line = ""
    gpu_model: Line = ""
    gpu_s: _Amount = 0.0
    cpu_s: _Amount = 0.0
    energy_j: _Amount = 0.0
    cost: _Amount = 0.0


class OwnedStanding(Record, frozen=True, tag="standing"):
    """How far a job has come in its cluster, with what its ledger has after `since`."""

    job: JobId
    epoch: Number
    fence: Fence
    seq: Number
    since: Number
    phase: Phase
    entries: Annotated[tuple[LedgerLine, ...], Meta(max_length=ENTRIES_MAX)] = ()
    attempt: Number = 0
    restarts: Number = 0
    preemptions: Number = 0
    reason: _Reason = ""
    exit: ExitInfo | None = None
    bound_at: Instant | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    gpu_s: Instant = 0.0
    cpu_s: Instant = 0.0
    spent: Annotated[tuple[SpentThere, ...], Meta(max_length=1000)] = ()
    output_bytes: Number = 0
    # Its processes may still be there.
    lingering: bool = False
    nodes: Annotated[tuple[Line, ...], Meta(max_length=1000)] = ()
    ended: OwnedEnd | None = None
    tail: Annotated[bytes, Meta(max_length=TAIL_BYTES_MAX)] = b""


class LocalJob(Record, frozen=True, tag="local"):
    """A job that was submitted in the cluster itself, and how far it has come."""

    offer: OfferedJob
    standing: OwnedStanding
    request_id: RequestId | None = None
    request: RequestRecord | None = None


class HeldJob(Record, frozen=True):
    """One job in a bucket that differs."""

    job: JobId
    says: Literal["confirmed", "accepted", "stopping", "ended", "refused"]
    epoch: Number
    fence: Fence = Fence()
    seq: Number = 0


class ListedBucket(Record, frozen=True, tag="bucket"):
    """All that the cluster holds in one bucket; `last`: of all buckets that were asked for."""

    number: Annotated[int, Meta(ge=0, lt=BUCKETS)]
    jobs: Annotated[tuple[HeldJob, ...], Meta(max_length=20_000)] = ()
    last: bool = False


class BookTold(Record, frozen=True, tag="book"):
    """A tenant's day as it is now; closed when its `closed_at` says so."""

    book: ToldBook


class DayTold(Record, frozen=True, tag="day"):
    """After the books of the day that changed: what pools had, and which tenants have one. `closed`: none of it changes
    any more."""

    day: ToldDay
    closed: bool = False
    # The first day of which there are books at all.
    first_day: Annotated[str, Meta(max_length=10)] = ""


class AllowanceHeld(Record, frozen=True, tag="allowance"):
    """All that the cluster was ever lent of a tenant's quota, and gave back, as it knows."""

    tenant: Slug
    granted: EscrowAmounts = {}
    released: EscrowAmounts = {}


ClusterMessage = (
    ClusterHello | Reported | Accepted | Declined | Withdrawn | GivenBack | OwnedStanding | LocalJob | ListedBucket
    | BookTold | DayTold
    | AllowanceHeld
)  # fmt: skip


class ClusterFrame(Record, frozen=True):
    messages: Annotated[tuple[ClusterMessage, ...], Meta(max_length=MESSAGES_MAX)]


# ---- global plane -> cluster


class ClusterWelcome(Record, frozen=True, tag="welcome"):
    """`differing`: the buckets to list. FEDERATED when all that they hold is settled. `rebuild`: the store was restored
    since the two last settled what they know, so ends that were known there may be forgotten."""

    code: ClusterCode
    generation: Number
    store_epoch: Number
    differing: Annotated[tuple[Annotated[int, Meta(ge=0, lt=BUCKETS)], ...], Meta(max_length=BUCKETS)] = ()
    rebuild: bool = False


class Pong(Record, frozen=True, tag="pong"):
    nonce: Number
    # The report is kept: what the cluster owns is its own for another lease.
    kept: bool = False


class Offered(Record, frozen=True, tag="offer"):
    epoch: Number
    spec_sha256: Sha256
    offer: OfferedJob


class Confirmed(Record, frozen=True, tag="confirm"):
    job: JobId
    tenant: _Tenant
    epoch: Number


class Withdraw(Record, frozen=True, tag="withdraw"):
    job: JobId
    tenant: _Tenant
    epoch: Number
    reason: Words = ""


class Judged(Record, frozen=True, tag="judged"):
    """How healing settled a job: go on, stop and end it, or forget it, for its end is known."""

    job: JobId
    tenant: _Tenant
    epoch: Number
    do: Literal["keep", "stop", "ended"]
    reason: Words = ""


class StandingNoted(Record, frozen=True, tag="noted"):
    """Durable at the global plane: the job's ledger up to `seq`."""

    job: JobId
    epoch: Number
    seq: Number


class Tell(Record, frozen=True, tag="tell"):
    """The global plane does not know the job: it is to be told all of it."""

    job: JobId
    tenant: _Tenant


class AllSettled(Record, frozen=True, tag="healed"):
    """Every verdict is durable."""


class Draining(Record, frozen=True, tag="draining"):
    """Whether what has not begun is to be given back."""

    on: bool


class BooksKnown(Record, frozen=True, tag="books"):
    """Durable at the global plane: the cluster's books up to this day, which is closed. Empty: none yet."""

    day: Annotated[str, Meta(max_length=10)] = ""


class AllowanceGiven(Record, frozen=True, tag="lent"):
    """All that the cluster was ever lent of a tenant's quota, and gave back, as the global plane knows; what it is good
    for, until when, and what the cluster may keep that no job uses."""

    tenant: Slug
    granted: EscrowAmounts
    released: EscrowAmounts
    until: Instant
    measures: Annotated[tuple[Line, ...], Meta(max_length=64)] = ()
    keep: EscrowAmounts = {}


GlobalMessage = (
    ClusterWelcome | Pong | Offered | Confirmed | Withdraw | Judged | StandingNoted | Tell | AllSettled | Draining
    | BooksKnown
    | AllowanceGiven
)  # fmt: skip


class GlobalFrame(Record, frozen=True):
    messages: tuple[GlobalMessage, ...]


# ---- requests that are read through to the owner of a job


class ReadAsk(Record, frozen=True, tag="ask"):
    """A request of a person, which the global plane let in, for the cluster that owns the job it is about."""

    id: Number
    operation: Line
    path: dict[str, str]
    query: bytes
    headers: dict[str, str]
    body: bytes
    # The person as the global plane knows them: a Principal, as JSON.
    who: bytes


class AskOver(Record, frozen=True, tag="over"):
    """The person does not wait any more."""

    id: Number


class AskTook(Record, frozen=True, tag="took"):
    """So many bytes of the answer were handed on."""

    id: Number
    size: Number


class AskInput(Record, frozen=True, tag="input"):
    """A message of the person, in a conversation."""

    id: Number
    data: Annotated[bytes, Meta(max_length=1024 * 1024)]


class AskStart(Record, frozen=True, tag="start"):
    id: Number
    status: Annotated[int, Meta(ge=200, le=599)]
    headers: Annotated[dict[Line, Line], Meta(max_length=32)] = {}


class AskBody(Record, frozen=True, tag="body"):
    id: Number
    data: Annotated[bytes, Meta(max_length=1024 * 1024)]
    more: bool = True


class AskFed(Record, frozen=True, tag="fed"):
    """So many bytes of the person's messages were taken."""

    id: Number
    size: Number


class AskClosed(Record, frozen=True, tag="closed"):
    """The conversation is over, and why: a close code of WebSocket."""

    id: Number
    code: Annotated[int, Meta(ge=1000, le=4999)] = 1000
    reason: Annotated[str, Meta(max_length=120)] = ""


AskCommand = ReadAsk | AskOver | AskTook | AskInput
AskMessage = AskStart | AskBody | AskFed | AskClosed
