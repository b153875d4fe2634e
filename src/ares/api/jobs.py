"""Jobs: what is asked for, what became of it, and why it waits."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.api.deadlines import DeadlineSeen
from ares.api.decisions import Eta
from ares.api.reasons import ReasonCode, Remedy
from ares.api.usage import Use
from ares.model.base import Record, RequestId, Shown, Slug
from ares.model.cron import CronFiring, CronText, MissedRuns, Overlap, ZoneName
from ares.model.job import Cost, InputRef, JobSpec, Priority
from ares.model.state import Fence, JobState, LedgerEvent, OutputFile, Phase, ProgressRecord, Result


class JobWarning(Shown, frozen=True):
    """What is to be said about a job that was taken. That it will not start by itself: `remedy` says whose it is to
    change that. Without a remedy: what a policy warns of, or a soft limit that it passes."""

    code: ReasonCode | Literal["policy", "soft-limit"]
    message: str
    remedy: Remedy | Literal[""] = ""


class Waiting(Record, frozen=True):
    """Why a pending job waits, and whose it is to change that: `yours`, others' whose end to `wait` for, `operator`."""

    code: ReasonCode
    remedy: Remedy
    message: str
    numbers: dict[str, int] = {}
    # When it starts, in four of five cases like it; of an array, its next task.
    eta: Eta | None = None


class JobPage(Record, frozen=True):
    """`cursor` continues the list; it is empty at the end."""

    jobs: tuple[JobState, ...]
    cursor: str = ""
    # By id: why pending ones wait, and the phases of whole arrays' tasks.
    waiting: dict[str, Waiting] = {}
    array_counts: dict[str, dict[Phase, int]] = {}
    # By id: what single jobs used that have been given a place, up to now.
    used: dict[str, Use] = {}
    # Those that will miss their deadline, by the estimates.
    at_risk: tuple[str, ...] = ()
    # Those whose GPUs are mock ones: numbers without a device.
    mock_gpus: tuple[str, ...] = ()


class ChildJob(Record, frozen=True):
    """A job that a job submitted, by the number of its call."""

    id: str
    name: str
    phase: Phase
    call: int


class JobDetail(Record, frozen=True):
    """One job as its owner sees it."""

    spec: JobSpec
    state: JobState
    result: Result | None = None
    progress: ProgressRecord | None = None
    queue_position: int | None = None
    # Why a pending job waits.
    waiting: Waiting | None = None
    array_counts: dict[Phase, int] | None = None
    # How many tasks of an array may hold a place at once; None: as many as there is room for.
    array_throttle: int | None = None
    # Of all attempts up to now; of an array, of all its tasks.
    used: Use = Use()
    # Whether it will meet its deadline, while that is open.
    deadline: DeadlineSeen | None = None
    # The GPUs it holds or held are mock ones: numbers without a device.
    mock_gpus: bool = False
    # How many jobs it submitted while it ran, by phase, and the newest of them.
    child_counts: dict[Phase, int] | None = None
    children: tuple[ChildJob, ...] = ()


class OutputList(Record, frozen=True, omit_defaults=False):
    """The files of a job's committed result, by path. Without a result there are none."""

    job: str
    committed: bool = False
    attempt: int = 0
    fence: Fence | None = None
    files: tuple[OutputFile, ...] = ()


class StreamedEvent(Record, frozen=True):
    """A WebSocket message: resume after `cursor`."""

    cursor: str
    event: LedgerEvent


YEAR_S = 31_536_000.0


class SubmitBody(Record, frozen=True):
    """A job to submit. Fields beside `spec` fill it where it says nothing itself."""

    spec: JobSpec
    # The same id with the same payload gives the same job.
    request_id: RequestId | None = None
    # Only to be sure: must be the credential's own.
    tenant_id: Slug | None = None
    # A name, or its number: 0 is CRITICAL, 4 is BEST_EFFORT.
    priority: Priority | Annotated[int, Meta(ge=0, le=4)] | None = None
    # What the job reads: becomes the specification's `inputRefs`.
    input_refs: Annotated[tuple[InputRef, ...], Meta(max_length=1000)] | None = None
    # Seconds.
    expected_runtime: Annotated[float, Meta(ge=0.0, le=YEAR_S)] | None = None
    estimate_cores: Annotated[float, Meta(ge=0.001, le=4096.0)] | None = None
    # Recorded as the caller's claim (`spec.claimedCost`) and shown: what a job will cost is for the server to say.
    cost_estimate: Cost | None = None


# ---- schedules


class CronBody(Record, frozen=True):
    """A job and when it is made: five fields, minute hour day-of-month month day-of-week, in a time zone."""

    schedule: CronText
    spec: JobSpec
    zone: ZoneName = "UTC"
    missed: MissedRuns = "skip"
    overlap: Overlap = "forbid"


class CronView(Record, frozen=True):
    """A schedule, its next moments and what came of the last ones, the newest first."""

    name: str
    schedule: str
    zone: str
    missed: MissedRuns
    overlap: Overlap
    # Why it does not fire; empty while it does.
    paused: str
    created_at: float
    created_by: str
    spec: JobSpec
    next_at: tuple[float, ...] = ()
    history: tuple[CronFiring, ...] = ()


class CronList(Record, frozen=True):
    """By name."""

    crons: tuple[CronView, ...]


# ---- output

LogStream = Literal["stdout", "stderr"]


class StreamedLog(Shown, frozen=True):
    """A piece of output: bytes (base64) at an offset; resume at `next`. The last one is `complete`. `stderr`: begin and
    end of what in `data` was written to stderr."""

    attempt: int
    rank: int
    offset: int
    next: int
    data: bytes
    complete: bool
    stderr: tuple[tuple[int, int], ...] = ()


# ---- lines of output that were searched for


class LogLine(Shown, frozen=True):
    """A line, and the byte of the log it begins at."""

    offset: int
    text: str
    stream: LogStream = "stdout"


class LogMatches(Shown, frozen=True):
    """Lines of one attempt and rank that contain a text. The search goes on at `next`; `complete`: there is no more."""

    attempt: int
    rank: int
    lines: tuple[LogLine, ...]
    next: int
    size: int
    complete: bool


# ---- checkpoints


class CheckpointView(Shown, frozen=True):
    """One checkpoint that is kept. `number` names it in `ares resume JOB --from`."""

    number: int
    fence: Fence
    step: int
    bytes: int
    ranks: int
    manifest: str
    # Wall-clock seconds since the epoch.
    taken_at: float
    stall_s: float
    upload_s: float
    metrics: dict[str, float]
    newest: bool = False
    # An attempt found that it is not what was saved.
    damaged: bool = False
    # The job and checkpoint that it was taken over from.
    origin: str = ""


class CheckpointList(Shown, frozen=True):
    """The newest first."""

    job: str
    checkpoints: tuple[CheckpointView, ...] = ()
