"""What the server answers beyond the model's own records. Unknown fields are ignored: servers may be newer."""

from ares.api.deadlines import DeadlineSeen
from ares.api.jobs import JobDetail, JobWarning
from ares.model.base import Record
from ares.model.state import JobState


class Submitted(Record, frozen=True):
    """A job the server keeps. `replayed`: this request id had made it before."""

    id: str
    replayed: bool = False
    tasks: int = 1
    warnings: tuple[JobWarning, ...] = ()
    # Whether it will meet its deadline, by the estimates.
    deadline: DeadlineSeen | None = None


class RefusedJob(Record, frozen=True):
    """Why one job of a batch was not taken."""

    code: str = "invalid"
    title: str = ""
    detail: str = ""
    fix: str = ""
    path: str = ""


class BatchItem(Record, frozen=True):
    """One answer of a batch: an id, or why not."""

    id: str = ""
    replayed: bool = False
    tasks: int = 1
    error: RefusedJob | None = None
    warnings: tuple[JobWarning, ...] = ()
    deadline: DeadlineSeen | None = None

    def outcome(self) -> Submitted | RefusedJob:
        return self.error or Submitted(
            id=self.id, replayed=self.replayed, tasks=self.tasks, warnings=self.warnings, deadline=self.deadline
        )


class ErrorBody(Record, frozen=True):
    """The body of an error answer (RFC 9457)."""

    title: str = ""
    detail: str = ""
    code: str = ""
    fix: str = ""
    path: str = ""


class Readiness(Record, frozen=True):
    """What a replica says about itself, whether it can serve or not."""

    checks: dict[str, str] = {}


JobRef = str | Submitted | JobState | JobDetail


def job_id(job: JobRef) -> str:
    """The id of anything that stands for a job."""
    if isinstance(job, JobDetail):
        return job.state.id
    return job if isinstance(job, str) else job.id
