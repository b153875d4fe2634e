"""Changes of jobs that wait or run: what is to be changed, of which jobs, and what came of it."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from ares.model.base import Instant, LabelValue, Line, Name, Note, Record, Shown, Slug
from ares.model.job import ARRAY_TASKS_MAX, DeviceKind, GpuModel, Priority, TimeLimit
from ares.model.state import Phase

BulkAction = Literal["cancel", "requeue", "update", "hold", "release"]


class ResourceUpdate(Record, frozen=True):
    """What of a job's resources is to be changed; what is left out stays."""

    cpu_milli: Annotated[int, Meta(ge=1, le=4_096_000)] | UnsetType = UNSET
    memory_mib: Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)] | UnsetType = UNSET
    gpus: Annotated[int, Meta(ge=0, le=1024)] | UnsetType = UNSET
    gpu_model: GpuModel | UnsetType | None = UNSET
    gpu_milli: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET
    gpu_memory_mib: Annotated[int, Meta(ge=0, le=16 * 1024 * 1024)] | UnsetType = UNSET
    devices: dict[DeviceKind, Annotated[int, Meta(ge=1, le=1024)]] | UnsetType = UNSET


class JobUpdate(Record, frozen=True):
    """What is to be changed; what is left out stays. `null` takes a limit, deadline, class or reservation away."""

    priority: Priority | UnsetType = UNSET
    resources: ResourceUpdate | UnsetType = UNSET
    time_limit_s: TimeLimit | UnsetType | None = UNSET
    # Wall-clock seconds since the epoch.
    deadline_at: Instant | UnsetType | None = UNSET
    sla: Slug | UnsetType | None = UNSET
    reservation: Name | UnsetType | None = UNSET
    # Of an array: how many of its tasks may hold a place at once; `null` for any number.
    throttle: Annotated[int, Meta(ge=1, le=ARRAY_TASKS_MAX)] | UnsetType | None = UNSET
    # Kept in the job's ledger.
    reason: Note = ""


class JobFilter(Record, frozen=True):
    """Which jobs: all that fit every field. Without phases, those that have not ended."""

    phases: Annotated[tuple[Phase, ...], Meta(max_length=16)] = ()
    name: Annotated[str, Meta(max_length=128)] | None = None
    labels: Annotated[dict[Annotated[str, Meta(max_length=128)], LabelValue], Meta(max_length=64)] = {}
    array: Annotated[str, Meta(max_length=32)] | None = None
    node: Annotated[str, Meta(max_length=253)] | None = None
    user: Line | None = None
    # Submitted at or after, and before: wall-clock seconds since the epoch.
    since: Instant | None = None
    until: Instant | None = None


class BulkBody(Record, frozen=True):
    """A page of the jobs that fit, to be steered together: `cursor` goes on where the page before ended. With `dryRun`
    they are only counted."""

    filter: JobFilter
    cursor: Annotated[str, Meta(max_length=512)] = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 500
    dry_run: bool = False
    reason: Note = ""


class BulkUpdateBody(BulkBody, frozen=True):
    """The same, and what is to be changed of each."""

    update: JobUpdate = JobUpdate()


class BulkRefusal(Shown, frozen=True):
    """A job that was left as it is, and why."""

    job: str
    code: str
    message: str
    fix: str = ""


class BulkAnswer(Shown, frozen=True):
    """What came of one page: so many fitted, so many were changed; the first that were not, with the reason.

    `cursor` goes on; it is empty after the last page."""

    action: BulkAction
    matched: int
    changed: int
    refused: int
    # Of those that fitted, by phase as they were before.
    phases: dict[Phase, int] = {}
    refusals: tuple[BulkRefusal, ...] = ()
    cursor: str = ""
