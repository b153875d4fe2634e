"""What the control plane knows about a job: its state of record, attempts and result."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from ares.model.base import Fence, Instant, Line, Name, Number, OutputFile, Record, Slug, Words
from ares.model.checkpoint import CheckpointId, CheckpointPointer
from ares.model.cluster import Owner
from ares.model.job import DataInput, FailureClass, JobSpec, Priority, Resources, TimeLimit

Phase = Literal[
    "WAITING", "PENDING", "STAGING", "RUNNING", "RETRYING", "PREEMPTED",
    "SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN", "SKIPPED",
]  # fmt: skip
TERMINAL: frozenset[Phase] = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN", "SKIPPED"})
# Phases in which an attempt holds a valid fence and resources.
BOUND: frozenset[Phase] = frozenset({"STAGING", "RUNNING"})


class Placement(Record, frozen=True):
    """Where one rank of an attempt runs, and what it holds there."""

    node: str
    # The agent's incarnation that the grant was made to: a restarted agent never inherits it.
    incarnation: int
    cpu_milli: int
    memory_mib: int
    gpus: tuple[int, ...] = ()
    rank: int = 0
    # The share of each of its GPUs.
    gpu_milli: int = 1000
    # Ids of other devices, by kind.
    devices: dict[str, tuple[str, ...]] = {}
    # The NUMA node its CPUs and memory come from, when it is aligned to one.
    numa: int | None = None


class Rate(Record, frozen=True):
    """What one rank draws and costs while it holds its place, as of the grant."""

    pool: str = ""
    # Empty for a rank without GPUs.
    gpu_model: str = ""
    watts: float = 0.0
    # In the currency of the profile.
    per_hour: float = 0.0


class Spent(Record, frozen=True):
    """What a job used in one pool on one GPU model."""

    pool: str = ""
    gpu_model: str = ""
    gpu_s: float = 0.0
    cpu_s: float = 0.0
    energy_j: float = 0.0
    cost: float = 0.0
    # "lost": by attempts that failed or were taken away. "open": by the attempt that still runs, before it was resized.
    fate: Literal["kept", "lost", "open"] = "kept"


class Unsaved(Record, frozen=True):
    """What an attempt that was taken away used since its newest checkpoint. It may still save one."""

    since: float
    until: float
    spent: tuple[Spent, ...] = ()


class ExitInfo(Record, frozen=True):
    """How an attempt ended. `failure` is None for success."""

    code: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    signal: Line | None = None
    failure: FailureClass | None = None
    message: Words = ""
    max_rss_mib: Number | None = None
    cpu_s: Instant | None = None
    # Another attempt would end in the same way, wherever it runs.
    lasting: bool = False


class RankEnd(Record, frozen=True):
    """How a rank of a gang failed, kept until it is known which rank made the others fail."""

    rank: int
    exit: ExitInfo
    # By its agent's clock, as far as that is believed.
    at: float
    # The rank that failed before it, by the word of its runtime.
    blames: int | None = None


class SpecUpdate(Record, frozen=True):
    """What a job asks for instead of what its specification says. A field that is left out stays as it was."""

    priority: Priority | UnsetType = UNSET
    resources: Resources | UnsetType = UNSET
    time_limit_s: TimeLimit | UnsetType | None = UNSET
    deadline_at: Instant | UnsetType | None = UNSET
    start_by_at: Instant | UnsetType | None = UNSET
    sla: Slug | UnsetType | None = UNSET
    reservation: Name | UnsetType | None = UNSET
    # Of a job that waited for data: the versions that it was given when it was released.
    inputs: tuple[DataInput, ...] | UnsetType = UNSET


class ChildOf(Record, frozen=True):
    """The job whose attempt submitted a job, by which of its calls. `depth`: 1 for a child of a job that a person
    submitted. A detached one goes on when its parent is cancelled."""

    job: str
    call: int
    fence: Fence
    depth: int = 1
    detached: bool = False


class JobState(Record, frozen=True):
    """The mutable record of a job, replaced whole by compare-and-swap."""

    id: str
    tenant: str
    name: str
    phase: Phase = "PENDING"
    # Number of transitions so far: also the number of the latest ledger event.
    seq: int = 0
    # What it asks for by now, other than its specification says, and how often that was changed: a grant names the
    # number it was decided by.
    update: SpecUpdate | None = None
    updates: int = 0
    fence: Fence = Fence()
    attempt: int = 0
    # Where the current attempt runs; of a finished job, where its last attempt ran.
    placements: tuple[Placement, ...] = ()
    # Revoked, but the processes are not confirmed dead: the placements are still in use.
    lingering: bool = False
    # For an attempt with several ranks: the ranks that have started, and the ranks whose processes are all gone.
    started_ranks: tuple[int, ...] = ()
    ended_ranks: tuple[int, ...] = ()
    # Ranks that a running gang let go and that are not confirmed to be gone. A rank's number is used once per attempt.
    leaving: tuple[Placement, ...] = ()
    # Grows whenever a running gang gains or loses ranks.
    generation: int = 0
    # The result that the gang's first rank gave while other ranks still run.
    value: Any = None
    # Files that ended ranks handed over while other ranks still run. They become visible with the result, or never.
    outputs: tuple[OutputFile, ...] = ()
    # Ranks of the attempt that have failed, while its end is not decided.
    failing: tuple[RankEnd, ...] = ()
    # Where the ranks of a gang meet, on the node of its first placement.
    master_port: int = 0
    # The number of the alternative the attempt was given: 0 is what the job asked for first.
    alternative: int = 0
    # A pending or preempted job that room is kept for: where, and the victims it waits for.
    hold: tuple[Placement, ...] = ()
    evicting: tuple[str, ...] = ()
    preemptions: int = 0
    preempted_at: float | None = None
    # How many of these preemptions were for jobs that had had less service: they leave no job alone for good.
    rotations: int = 0
    # How often a person sent it back to the queue while it ran.
    requeues: int = 0
    # How long its attempt was to run when it was granted: every replica plans by the same.
    planned_s: float | None = None
    # The attempt makes use of a gap, and is asked to leave so that its place is free by then.
    leaves_at: float | None = None
    # Use of earlier attempts, in all: what the job has used of its tenant's share.
    gpu_s: float = 0.0
    cpu_s: float = 0.0
    # From when on its use is not in them yet: since the grant, or since the gang last changed.
    metered_at: float | None = None
    # Rates of the current attempt: one for each placement in their order, or a single one when all are alike.
    rates: tuple[Rate, ...] = ()
    # As `gpu_s` and `cpu_s`, by where it was used; without what was used before rates were known.
    spent: tuple[Spent, ...] = ()
    # What it was expected to cost and, with GPUs, how long it was expected to run, when it was admitted.
    cost_estimate: float = 0.0
    estimated_s: float = 0.0
    # Its newest checkpoint. Invariant: (fence, seq) only grows.
    checkpoint: CheckpointPointer | None = None
    # The newest of its checkpoints that turned out not to be what was saved.
    damaged: tuple[CheckpointId, ...] = ()
    unsaved: Unsaved | None = None
    # Bytes of the files that belong to its result.
    output_bytes: int = 0
    reason: str = ""
    exit: ExitInfo | None = None
    retries: dict[FailureClass, int] = {}
    restarts: int = 0
    # Restarts in a row after attempts that did not run for long: they decide the delay of the next.
    quick_restarts: int = 0
    # Nodes that failed its latest attempts, the newest last: other nodes are tried first.
    avoid: tuple[str, ...] = ()
    manual_retries: int = 0
    # Delay drawn for the current RETRYING phase; timers run on monotonic clocks from when it is seen.
    retry_delay_s: float = 0.0
    array: str | None = None
    index: int | None = None
    retry_of: str | None = None
    request_id: str | None = None
    submitted_by: str = ""
    # The id of that user's record, where it was a user: another user with the same name later did not submit it.
    submitter_id: str = ""
    # The part of the tenant its use is counted for.
    team: str | None = None
    trace: str = ""
    # When it should have ended or started, and the class of service that says so.
    deadline_at: float | None = None
    start_by_at: float | None = None
    sla: str | None = None
    # The person by whom a waiting job is held; empty when it is not.
    held_by: str = ""
    # What it needs is met: that is decided once, whatever becomes of the jobs that met it.
    needs_met: bool = False
    # It has waited for them as long as it was to: what has not happened by now does not count any more.
    needs_overdue: bool = False
    # The workflow it belongs to, and whether it runs when the others of it have ended.
    flow: str | None = None
    is_finally: bool = False
    # The running job that submitted it; None: a person or a program outside did.
    child_of: ChildOf | None = None
    # On a global plane: the cluster that it is with, and how far the job's ledger there is known here.
    owner: Owner | None = None
    owner_seq: int = 0
    # When it first started: of a job that should have by some time, and of one that was bound again after it ran.
    first_started_at: float | None = None
    # Wall-clock seconds since the epoch: shown to people, never used to decide.
    submitted_at: float = 0.0
    queued_at: float = 0.0
    bound_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    # The day whose book counts its end, where that is not the day of `ended_at`: that one was closed already.
    book_day: str = ""
    retry_at: float | None = None


class Job(Record, frozen=True):
    """Specification and state side by side, as services and reports want them."""

    spec: JobSpec
    state: JobState


class Result(Record, frozen=True):
    """The one committed result of a job."""

    job: str
    fence: Fence
    attempt: int
    exit: ExitInfo
    committed_at: float
    # What the job wrote to ARES_RESULT_FILE, None when it wrote nothing.
    value: Any = None
    # The files that belong to it, by path. Nothing else makes a file visible.
    outputs: tuple[OutputFile, ...] = ()


class RequestRecord(Record, frozen=True):
    """The truth of "seen before": written in the transaction that creates the job."""

    job: str
    payload_sha256: str
    # The digest of the job as it is kept, where policies or the submitter's team changed it.
    kept_sha256: str = ""


class RetryBudget(Record, frozen=True):
    """Manual retries of a finished job's lineage: by whom, why, and which job each became."""

    root: str
    jobs: tuple[str, ...] = ()
    # The request that asked for each retry; "" where it gave no id.
    requests: tuple[str, ...] = ()
    # The newest requests that made a waiting job go on at once, each as "id job".
    hurried: tuple[str, ...] = ()


class ArrayRecord(Record, frozen=True):
    """An array of tasks. Its tasks exist once `expanded`; until then any replica may finish the work."""

    id: str
    tenant: str
    name: str
    indices: str
    tasks: int
    submitted_by: str = ""
    submitter_id: str = ""
    trace: str = ""
    submitted_at: float = 0.0
    request_id: str | None = None
    expanded: bool = False
    # The estimate of one task, as in its state.
    cost_estimate: float = 0.0
    estimated_s: float = 0.0
    # How many of its tasks may hold a place at once; None: as many as there is room for.
    throttle: int | None = None
    # The workflow it belongs to.
    flow: str | None = None


class FlowRecord(Record, frozen=True):
    """A workflow. None of its jobs is released before it is `whole`: then it is accepted.

    Invariant: never both `whole` and `abandoned`, and neither is ever taken back."""

    id: str
    tenant: str
    name: str
    # Jobs and arrays, and how many jobs that is with arrays' tasks.
    jobs: int
    tasks: int
    submitted_by: str = ""
    submitter_id: str = ""
    trace: str = ""
    submitted_at: float = 0.0
    request_id: str | None = None
    # Of what the client sent.
    payload_sha256: str = ""
    team: str | None = None
    # What all of it asks for together, by the measures of quotas: kept free while the jobs are written.
    asked: dict[str, int] = {}
    whole: bool = False
    # Its submission broke off: what exists of it is skipped.
    abandoned: bool = False
    # The workflow of which it repeats a part.
    retry_of: str | None = None


class ProgressRecord(Record, frozen=True):
    """The newest progress a running job reported about itself."""

    job: str
    fence: Fence
    fraction: float | None = None
    message: str = ""
    at: float = 0.0


class StoreProof(Record, frozen=True):
    """Proof that the store took a write, and of which replica."""

    replica: str
    at: float = 0.0


class ReplicaRecord(Record, frozen=True):
    """A replica, as it wrote of itself last. Others judge it by when they saw that change, not by its clock."""

    replica: str
    version: str = ""
    began_at: float = 0.0
    at: float = 0.0


class LeaderRecord(Record, frozen=True):
    """Which replica runs the loops that only one may run."""

    replica: str
    elected_at: float = 0.0


# ---- the ledger: an entry for every transition, written in the transition's own transaction

EventKind = Literal[
    "submitted", "bound", "started", "succeeded", "failed", "retrying", "requeued",
    "lease-lost", "cancelled", "released", "retry-requested", "unknown", "restarted", "preempted",
    "preempting", "rank-started", "rank-exited", "resized", "held", "unheld", "ready", "overdue",
    "unmet", "updated", "requeue-requested", "checkpointed", "checkpoint-damaged",
    "offered", "offer-over", "confirmed", "taken-back", "imported",
]  # fmt: skip


class LedgerEvent(Record, frozen=True):
    """What happened to a job, when, why, and by whom."""

    job: str
    tenant: str
    seq: int
    kind: EventKind
    phase: Phase
    at: float
    attempt: int = 0
    fence: str = ""
    by: str = ""
    reason: str = ""
    data: dict[str, Any] = {}
