"""What can happen to a job, as values for `lifecycle.step`."""

from typing import Any

from ares.core.federation.owners import OwnerInput
from ares.model.base import Record
from ares.model.checkpoint import CheckpointId, CheckpointRecord
from ares.model.cluster_link import OwnedStanding
from ares.model.job import DataInput, JobSpec, Unmet
from ares.model.state import ExitInfo, Fence, JobState, LedgerEvent, OutputFile, Placement, Rate, Result, SpecUpdate


class Context(Record, frozen=True):
    """Time, chance and the store's epoch, handed in by the caller."""

    now: float
    # Uniform in [0, 1): decides the backoff.
    jitter: float
    epoch: int = 1


class Bind(Record, frozen=True, tag="bind"):
    """The scheduler grants a new attempt: one placement for each rank, in the order of ranks."""

    placements: tuple[Placement, ...]
    alternative: int = 0
    master_port: int = 0
    # The decision it comes from, for `ares replay`.
    decision: str = ""
    # What the placements draw and cost now, as `JobState.rates` has them.
    rates: tuple[Rate, ...] = ()
    # How long the attempt will run, as far as is known.
    planned_s: float | None = None
    # The gap it makes use of ends then.
    leaves_at: float | None = None
    # How often the job was updated until this was decided.
    updates: int = 0


class RankStarted(Record, frozen=True, tag="start"):
    """The agent reports that a rank's process runs."""

    fence: Fence
    rank: int = 0
    at: float = 0.0
    # The versions of the secrets it was given.
    secrets: dict[str, int] = {}
    # What is not as the job asked for.
    note: str = ""


class Exit(Record, frozen=True, tag="exit"):
    """The agent reports that a rank ended, with all its processes."""

    fence: Fence
    exit: ExitInfo
    rank: int = 0
    value: Any = None
    # Files it handed over; each is sealed before this is asked for.
    outputs: tuple[OutputFile, ...] = ()
    # When it ended, by its agent's clock, and the rank that failed before it, by its runtime's word.
    at: float = 0.0
    blames: int | None = None


class VerdictDue(Record, frozen=True, tag="verdict"):
    """Every rank of a gang that failed has had the time to say how it ended."""

    fence: Fence


class LeaseLost(Record, frozen=True, tag="lease-lost"):
    """A node of the attempt fell silent, restarted, or fenced itself: its `ranks` are gone, all when empty."""

    fence: Fence
    reason: str
    ranks: tuple[int, ...] = ()


class AssemblyOver(Record, frozen=True, tag="assembly-over"):
    """The gang's ranks did not all start within its limit."""

    fence: Fence
    reason: str


class Preempt(Record, frozen=True, tag="preempt"):
    """Takes the attempt away for another job, or to move it. `record` is what both sides are told."""

    fence: Fence
    by: str
    reason: str
    record: dict[str, Any] = {}
    # Where it goes on, free and kept for it from now on; the alternative stays the same.
    hold: tuple[Placement, ...] = ()
    # For a job that has had less service.
    rotates: bool = False


class Nominate(Record, frozen=True, tag="nominate"):
    """Room is being made for a pending job: it is held for it until it gets it or no longer needs it."""

    hold: tuple[Placement, ...]
    evicting: tuple[str, ...]
    reason: str
    record: dict[str, Any] = {}
    alternative: int = 0
    updates: int = 0


class RanksResized(Record, frozen=True, tag="resize"):
    """A running elastic gang goes on with these placements: the ones that stay, and new ones."""

    fence: Fence
    placements: tuple[Placement, ...]
    reason: str
    by: str = "scheduler"
    # Rates of all placements.
    rates: tuple[Rate, ...] = ()


class Cancel(Record, frozen=True, tag="cancel"):
    by: str
    reason: str = ""


class Update(Record, frozen=True, tag="update"):
    """The job asks for something else from now on, which was judged as a submission is."""

    by: str
    # What it asks for, whole, and what of that is to be kept beside its specification.
    spec: JobSpec
    update: SpecUpdate | None
    # How often it had been updated when this was judged.
    updates: int
    reason: str = ""
    cost_estimate: float = 0.0
    estimated_s: float = 0.0


class SendBack(Record, frozen=True, tag="requeue"):
    """A person sends a running job back to the queue."""

    by: str
    reason: str = ""


class RetryDue(Record, frozen=True, tag="retry-due"):
    """The backoff is over that began with the job's `seq`. `note` is what there is to say to that."""

    seq: int
    note: str = ""


class RetryNow(Record, frozen=True, tag="retry-now"):
    """A person does not want to wait for the backoff. `note` is what there is to say to that."""

    by: str
    reason: str = ""
    note: str = ""


class Release(Record, frozen=True, tag="release"):
    """The processes of a revoked attempt are gone: of `ranks`, or of all when it is empty."""

    fence: Fence
    ranks: tuple[int, ...] = ()


class HoldBack(Record, frozen=True, tag="hold"):
    """A person keeps the job from being queued."""

    by: str
    reason: str = ""


class LetGo(Record, frozen=True, tag="unhold"):
    """A person lets a held job go on."""

    by: str
    reason: str = ""


class BeginDue(Record, frozen=True, tag="begin-due"):
    """The time has come before which the job must not begin."""


class NeedsMet(Record, frozen=True, tag="needs-met"):
    """All that the job needs has happened. `inputs`: with the versions of the data it waited for."""

    reason: str
    inputs: tuple[DataInput, ...] = ()


class NeedsOverdue(Record, frozen=True, tag="needs-overdue"):
    """The job has waited for its needs as long as it was to. What happened before this is written counts still."""

    reason: str


class NeedsUnmet(Record, frozen=True, tag="needs-unmet"):
    """What the job needs cannot happen any more, or did not in time. `then` says what becomes of the job."""

    reason: str
    then: Unmet


class CheckpointSealed(Record, frozen=True, tag="checkpoint"):
    """An attempt saved a checkpoint, and all its files are kept. Of a gang `rank` is the last that saved its part."""

    fence: Fence
    rank: int
    record: CheckpointRecord


class CheckpointDamaged(Record, frozen=True, tag="checkpoint-damaged"):
    """An attempt was to go on from a checkpoint that is not what was saved."""

    fence: Fence
    rank: int
    checkpoint: CheckpointId
    reason: str


class OwnerMoved(Record, frozen=True, tag="owner"):
    """The job is offered to a cluster, confirmed, or comes back. `record` is why that cluster, for its ledger."""

    asked: OwnerInput
    reason: str
    record: dict[str, Any] = {}


class OwnerFound(Record, frozen=True, tag="rebuilt"):
    """A restored global plane hears of the owner that it had given the job to after its backup was made."""

    cluster: str
    epoch: int
    reason: str


class OwnerTold(Record, frozen=True, tag="told"):
    """What the cluster that has the job says of it."""

    cluster: str
    standing: OwnedStanding


Input = (
    Bind
    | RankStarted
    | Exit
    | VerdictDue
    | LeaseLost
    | AssemblyOver
    | Preempt
    | Nominate
    | RanksResized
    | Cancel
    | Update
    | SendBack
    | RetryDue
    | RetryNow
    | Release
    | HoldBack
    | LetGo
    | BeginDue
    | NeedsMet
    | NeedsOverdue
    | NeedsUnmet
    | CheckpointSealed
    | CheckpointDamaged
    | OwnerMoved
    | OwnerFound
    | OwnerTold
)


class Stepped(Record, frozen=True):
    """The transition to write, whole: new state, its ledger entries, and the result or checkpoint if it commits one."""

    state: JobState
    events: tuple[LedgerEvent, ...]
    result: Result | None = None
    checkpoint: CheckpointRecord | None = None
