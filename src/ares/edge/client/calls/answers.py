"""What the server answers beyond the model's own records. Unknown fields are ignored: servers may be newer."""

from ares.api.deadlines import DeadlineSeen
from ares.api.decisions import Eta
from ares.api.usage import Use
from ares.model.access import Role
from ares.model.base import Record
from ares.model.event import LedgerEvent
from ares.model.job import JobSpec, Resources
from ares.model.node import NodeInfo, Taint
from ares.model.profile import Pool
from ares.model.reservation import ReservationState
from ares.model.state import JobState, Phase, ProgressRecord, Result


class JobWarning(Record, frozen=True):
    """Why a job that was taken will not start by itself (`remedy`: `yours` to change, or the `operator`'s), or what a
    policy or a soft limit has to say to it (no remedy)."""

    code: str = ""
    message: str = ""
    remedy: str = ""


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


class Waiting(Record, frozen=True):
    """Why a pending job waits. `remedy` says who can change that: `yours`, `wait` for other jobs, the `operator`."""

    code: str = ""
    remedy: str = ""
    message: str = ""
    numbers: dict[str, int] = {}
    # When it starts, in four of five cases like it; of an array, its next task.
    eta: Eta | None = None


class JobDetail(Record, frozen=True):
    """Everything about one job, or about a whole array (then `array_counts` is set)."""

    spec: JobSpec
    state: JobState
    result: Result | None = None
    progress: ProgressRecord | None = None
    # How many jobs are ahead of it.
    queue_position: int | None = None
    waiting: Waiting | None = None
    array_counts: dict[Phase, int] | None = None
    # Of all attempts up to now; of an array, of all its tasks.
    used: Use = Use()
    # Whether it will meet its deadline, while that is open.
    deadline: DeadlineSeen | None = None


class JobPage(Record, frozen=True):
    """Some jobs, and where to go on. An empty cursor ends the list."""

    jobs: tuple[JobState, ...] = ()
    cursor: str = ""
    # By id: why pending jobs wait, and the phases of whole arrays' tasks.
    waiting: dict[str, Waiting] = {}
    array_counts: dict[str, dict[Phase, int]] = {}
    # By id: what single jobs used that have been given a place, up to now.
    used: dict[str, Use] = {}
    # Those that will miss their deadline, by the estimates.
    at_risk: tuple[str, ...] = ()


class StreamEvent(Record, frozen=True):
    """A ledger event and the cursor that resumes after it."""

    cursor: str
    event: LedgerEvent


class ClusterView(Record, frozen=True):
    """The whole cluster: what it has, who leads it and for how long, and how old that knowledge is."""

    id: str
    nodes: int = 0
    ready_nodes: int = 0
    gpus: int = 0
    gpus_free: int = 0
    pending: int = 0
    running: int = 0
    leader: str = ""
    leader_age_s: float | None = None
    revision: int = 0
    store_age_s: float = 0.0


class NodeView(Record, frozen=True):
    """A machine: what it has, what is free, and whether its agent is alive."""

    name: str
    info: NodeInfo
    incarnation: int = 0
    ready: bool = False
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    drained_by: str = ""
    lease_age_s: float | None = None
    running: int = 0
    cpu_milli_free: int = 0
    memory_mib_free: int = 0
    gpus_free: int = 0


class PoolBooking(Record, frozen=True):
    """A reservation's part of a pool; without a name when it is another tenant's."""

    name: str = ""
    state: ReservationState = "planned"
    start: float = 0.0
    until: float = 0.0
    gpus: int = 0
    cpu_milli: int = 0


class PoolPromise(Record, frozen=True):
    """Room held for a waiting job from `start` on; without its id when it is another tenant's."""

    job: str = ""
    start: float = 0.0
    until: float | None = None
    gpus: float = 0.0
    nodes: int = 0


class Shape(Record, frozen=True):
    """A size of job: the resources of one rank, and how many ranks."""

    words: str = ""
    resources: Resources = Resources()
    ranks: int = 1


class ShapeEta(Record, frozen=True):
    """When a job of that size would start. Without `starts` it can never run there, and `never` says why."""

    shape: Shape = Shape()
    starts: Eta | None = None
    never: str = ""


class PoolView(Record, frozen=True):
    """A pool of machines as one sum."""

    name: str
    nodes: int = 0
    ready_nodes: int = 0
    cordoned_nodes: int = 0
    drained_nodes: int = 0
    cpu_milli: int = 0
    cpu_milli_free: int = 0
    memory_mib: int = 0
    memory_mib_free: int = 0
    gpus: int = 0
    gpus_free: int = 0
    gpus_held: int = 0
    gpus_kept: int = 0
    gpus_reserved: int = 0
    gpu_models: dict[str, int] = {}
    running_jobs: int = 0
    pending_jobs: int = 0
    reservations: tuple[PoolBooking, ...] = ()
    promises: tuple[PoolPromise, ...] = ()
    terms: Pool = Pool()
    power_watts: float = 0.0
    shapes: tuple[ShapeEta, ...] = ()


class LeaseView(Record, frozen=True):
    """An attempt's right to run."""

    job: str
    name: str = ""
    attempt: int = 0
    fence: str = ""
    node: str = ""
    phase: Phase = "RUNNING"
    held_s: float | None = None
    expires_in_s: float | None = None


class TokenView(Record, frozen=True):
    """A token without its secret."""

    id: str
    tenant: str = ""
    role: Role = "viewer"
    name: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    revoked: bool = False
    node: str | None = None
    single_use: bool = False
    user: str = ""
    permissions: tuple[str, ...] | None = None


class NewToken(Record, frozen=True):
    """A fresh token. The secret is shown this once."""

    token: str
    record: TokenView

    def __repr__(self) -> str:
        return f"NewToken(id={self.record.id!r})"


class WhoAmI(Record, frozen=True):
    """Who the server takes this client for."""

    tenant: str
    role: Role
    name: str = ""
    token_id: str = ""
    user: str = ""
    team: str | None = None
    proof: str = "token"
    # Its own tenant, where it acts in another.
    home: str = ""
    expires_at: float | None = None
    # How far each goes.
    permissions: dict[str, str] = {}


class ErrorBody(Record, frozen=True):
    """The body of an error answer (RFC 9457)."""

    title: str = ""
    detail: str = ""
    code: str = ""
    fix: str = ""
    path: str = ""


JobRef = str | Submitted | JobState | JobDetail


def job_id(job: JobRef) -> str:
    """The id of anything that stands for a job."""
    if isinstance(job, JobDetail):
        return job.state.id
    return job if isinstance(job, str) else job.id
