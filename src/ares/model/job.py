"""What a person asks for: the job's specification, immutable once admitted."""

from typing import Annotated, Literal

from msgspec import Meta, field

from ares.model.base import LabelKey, LabelValue, Name, Record, Sha256, Slug
from ares.model.checkpoint import CheckpointPolicy, RestoreFrom
from ares.model.isolation import Isolation, Network
from ares.model.secret import SECRETS_PER_JOB_MAX, SecretRef

Priority = Literal["CRITICAL", "HIGH", "NORMAL", "LOW", "BEST_EFFORT"]
CHILDREN_MAX = 10_000
PRIORITIES: tuple[Priority, ...] = ("CRITICAL", "HIGH", "NORMAL", "LOW", "BEST_EFFORT")
Effects = Literal["staged", "fenced", "idempotent", "unsafe"]
OnPartition = Literal["stay", "move"]
Restart = Literal["never", "on-failure", "always"]
FailureClass = Literal["exit", "signal", "oom", "time-limit", "node-lost", "staging"]
FAILURE_CLASSES: tuple[FailureClass, ...] = ("exit", "signal", "oom", "time-limit", "node-lost", "staging")
WarnSignal = Literal["SIGUSR1", "SIGUSR2", "SIGINT", "SIGTERM", "SIGHUP"]
# How firmly a job holds what it asked for: with limits, with a right to more when idle, or only what is left over.
Qos = Literal["guaranteed", "burstable", "best-effort"]
# How many times the memory it asked for a job may use at most, where the node has it: that much counts for quotas.
MEMORY_BURST: dict[Qos, int] = {"guaranteed": 1, "burstable": 2, "best-effort": 4}
NumaPolicy = Literal["none", "preferred", "required"]
# From the tightest to the widest: GPUs joined by NVLink, one machine, one rack, one zone, one region.
TopologyLevel = Literal["nvlink", "node", "rack", "zone", "region"]
TOPOLOGY_LEVELS: tuple[TopologyLevel, ...] = ("nvlink", "node", "rack", "zone", "region")
InputMode = Literal["cache", "copy", "stream"]
TermOp = Literal["in", "not-in", "exists", "absent", "gt", "lt"]

Arg = Annotated[str, Meta(max_length=131_072, pattern=r"^[^\x00]*$(?!\n)")]
EnvKey = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)")]
EnvValue = Annotated[str, Meta(max_length=65_536, pattern=r"^[^\x00]*$(?!\n)")]

ARGV_BYTES_MAX = 128 * 1024
ENV_BYTES_MAX = 64 * 1024
ARRAY_TASKS_MAX = 100_000
RANKS_MAX = 4096

# Any kind of device a node declares: "tpu-v4", "fpga", "mig-1g.10gb".
DeviceKind = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$(?!\n)")]

GpuModel = Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9 ._-]+$(?!\n)")]
TimeLimit = Annotated[float, Meta(ge=0.1, le=31_536_000.0)]
Runtime = Annotated[float, Meta(ge=0.0, le=31_536_000.0)]
# Data by where it is: "s3://bucket/key", "sha256:...", or the name of a dataset.
InputRef = Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^[\x21-\x7e]+$(?!\n)")]
# Money, in whatever unit the pools' prices have.
Cost = Annotated[float, Meta(ge=0.0, le=1e12)]


class Resources(Record, frozen=True):
    """Integers only: shares are in thousandths, memory in MiB."""

    cpu_milli: Annotated[int, Meta(ge=1, le=4_096_000)] = 1000
    # 0: as much as the cluster has for its CPUs or GPUs. It is filled in when the job is admitted.
    memory_mib: Annotated[int, Meta(ge=0, le=64 * 1024 * 1024)] = 256
    gpus: Annotated[int, Meta(ge=0, le=1024)] = 0
    gpu_model: GpuModel | None = None
    # The share of each GPU: below 1000 the GPU is shared with other jobs.
    gpu_milli: Annotated[int, Meta(ge=1, le=1000)] = 1000
    # The least memory each GPU must have.
    gpu_memory_mib: Annotated[int, Meta(ge=0, le=16 * 1024 * 1024)] = 0
    # Other accelerators by kind, and MIG slices as "mig-<profile>".
    devices: dict[DeviceKind, Annotated[int, Meta(ge=1, le=1024)]] = {}


class RetryPolicy(Record, frozen=True):
    """How often and how patiently a failed attempt is repeated. Delays use full jitter."""

    limit: Annotated[int, Meta(ge=0, le=100)] = 3
    base_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = 1.0
    multiplier: Annotated[float, Meta(ge=1.0, le=10.0)] = 2.0
    max_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 300.0
    # Overrides of `limit` for single failure classes.
    class_limits: dict[FailureClass, Annotated[int, Meta(ge=0, le=100)]] = {}
    # Exit codes that are never worth repeating.
    final_exit_codes: tuple[Annotated[int, Meta(ge=1, le=255)], ...] = ()
    # After each end for want of memory the next attempt asks for so many times as much, up to the most; 1: as before.
    oom_memory_factor: Annotated[float, Meta(ge=1.0, le=8.0)] = 1.0
    oom_memory_max_mib: Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)] | None = None


class Warn(Record, frozen=True):
    """A signal sent to the job ahead of its wall-time limit."""

    signal: WarnSignal = "SIGUSR1"
    before_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 60.0


class Gang(Record, frozen=True):
    """One attempt of several ranks, started together or not at all. The job's resources are those of one rank."""

    ranks: Annotated[int, Meta(ge=1, le=RANKS_MAX)]
    # Fewer ranks are enough: the gang starts with what fits and grows up to `ranks` while it runs.
    min_ranks: Annotated[int, Meta(ge=1, le=RANKS_MAX)] | None = None
    # At most this many ranks on one node; 1 spreads them.
    per_node: Annotated[int, Meta(ge=1, le=RANKS_MAX)] | None = None
    # How long after its grant every rank must have started.
    assembly_s: Annotated[float, Meta(ge=1.0, le=86_400.0)] = 300.0
    # Sent to every rank that stays when the gang grew or shrank; the new world is in ARES_WORLD_FILE.
    resize_signal: WarnSignal | None = None


class RuntimeWish(Record, frozen=True):
    """What starts the processes of each rank: the launcher of a framework, or one that a plugin adds."""

    kind: Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$(?!\n)")]
    # Processes of each rank; left out: one for each of its GPUs, or one.
    procs: Annotated[int, Meta(ge=1, le=RANKS_MAX)] | Literal["gpus"] | None = None
    # The program goes on with other ranks when the gang grows or shrinks.
    elastic: bool = False
    # Of MPI: whose launcher the nodes have.
    flavour: Annotated[str, Meta(max_length=63)] = ""
    # Of Ray: CPUs of the first rank that tasks may use; left out: all that it has.
    head_cpus: Annotated[int, Meta(ge=0, le=4096)] | None = None


class TopologyWish(Record, frozen=True):
    """How close together a job's GPUs and ranks must be, or should be."""

    level: TopologyLevel
    required: bool = False


class NodeTerm(Record, frozen=True):
    """A condition on a node's labels: without it no node, or with `weight` a better one."""

    key: LabelKey
    op: TermOp = "in"
    values: Annotated[tuple[LabelValue, ...], Meta(max_length=64)] = ()
    required: bool = True
    weight: Annotated[int, Meta(ge=1, le=100)] = 1


class JobTerm(Record, frozen=True):
    """Near to, or away from, the tenant's own jobs that carry all these labels."""

    labels: dict[LabelKey, LabelValue]
    level: Literal["node", "rack", "zone", "region"] = "node"
    away: bool = False
    required: bool = True
    weight: Annotated[int, Meta(ge=1, le=100)] = 1


class Toleration(Record, frozen=True):
    """Taints the job puts up with: of one key, and of one value unless it is left out."""

    key: LabelKey
    value: LabelValue | None = None


class DataInput(Record, frozen=True):
    """Data the job reads: being near it counts by its size. With `from` it is staged on the node before the job starts,
    and its directory is in $ARES_INPUT_<NAME>."""

    name: Name
    size_mib: Annotated[int, Meta(ge=1, le=1 << 40)] = 1
    # "ares://datasets/NAME", its newest version at submission, or "ares://datasets/NAME@sha256:DIGEST".
    from_: InputRef | None = field(name="from", default=None)
    # From the node's cache, read-only; or a copy of the attempt's own, which it may change.
    mode: InputMode = "cache"


class Preemption(Record, frozen=True):
    """What happens to the job when a more important one needs its place."""

    allowed: bool = True
    # Sent first, with `wait_s` to save a checkpoint; then the usual SIGTERM, grace and SIGKILL.
    checkpoint_signal: WarnSignal | None = None
    wait_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = 30.0


class Image(Record, frozen=True):
    """The container image that the job runs in."""

    # "docker://host/name:tag", "dir:/directory/of/the/node"; or, of the submitter's machine, "oci-archive:FILE",
    # "docker-archive:FILE" or "oci:DIRECTORY", whose files are then shipped.
    ref: Annotated[str, Meta(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$(?!\n)")]
    # The digest of the manifest of its files, where they were shipped.
    project: Sha256 | None = None


class PythonEnvironment(Record, frozen=True):
    """Where the job's `python` comes from: an environment that its node has at `path`, or one that the node builds,
    once, from `file` of the files in `project`."""

    # The directory of a virtualenv or of a conda environment.
    path: Annotated[str, Meta(max_length=4096, pattern=r"^/[^\x00-\x1f\x7f:]*$(?!\n)")] | None = None
    # Where the node lacks it, the job does not start; otherwise it starts with the node's own programs, and is told so.
    required: bool = True
    # The digest of a manifest, as of projects, and the file in it that says what to install: uv.lock, pyproject.toml,
    # or a list of requirements under any other name.
    project: Sha256 | None = None
    file: Annotated[str, Meta(max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")] = ""


# ---- what a job waits for before it may be queued: other jobs, and how they have to end

# When a named job has succeeded, failed, ended in any way, begun to run, or saved a checkpoint.
NeedCondition = Literal["success", "failure", "end", "start", "checkpoint"]
# What becomes of a job whose needs cannot be met any more, or not in time.
Unmet = Literal["skip", "fail", "run"]

# Jobs that one job may wait for: its release looks at all of them.
PARENTS_MAX = 1000
# Of those, jobs that exist already: the transaction that creates the job compares each of them.
PARENTS_OUTSIDE_MAX = 50

# The id of a job, an array or a task; in a workflow, the name that the workflow gives the job.
ParentName = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)")]


class Parent(Record, frozen=True):
    """One job of several."""

    job: ParentName


class Need(Record, frozen=True):
    """One condition: on `job`, or on `k` of the jobs in `of`, all of them when `k` is left out."""

    job: ParentName | None = None
    of: Annotated[tuple[Parent, ...], Meta(max_length=PARENTS_MAX)] = ()
    k: Annotated[int, Meta(ge=1, le=PARENTS_MAX)] | None = None
    on: NeedCondition = "success"
    # Between two arrays: each task waits for the task with its own index.
    each: bool = False
    # The step that a checkpoint must have reached.
    at_step: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    # Data that must have been published.
    data: Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^[\x21-\x7e]+$(?!\n)")] | None = None

    @property
    def parents(self) -> tuple[str, ...]:
        return (self.job,) if self.job is not None else tuple(parent.job for parent in self.of)

    @property
    def enough(self) -> int:
        """How many of its jobs have to meet the condition."""
        return self.k if self.k is not None else len(self.parents)


class NeedsTimeout(Record, frozen=True):
    """How long a job waits for its needs, and what becomes of it then."""

    after_s: Annotated[float, Meta(ge=0.1, le=31_536_000.0)]
    then: Unmet = "fail"


# ---- the whole
# A channel of the tenant that is told of the job's end, always or only of such ends: ops, ops:fail, ops:success.
NotifyWish = Annotated[str, Meta(max_length=80, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(:(end|fail|success))?$(?!\n)")]


class JobSpec(Record, frozen=True):
    """The job as asked for. Every field is bounded; `core.admit` checks what spans fields."""

    # Empty only with an image, which has a command of its own then.
    command: Annotated[tuple[Arg, ...], Meta(max_length=4096)]
    name: Name = "job"
    env: dict[EnvKey, EnvValue] = {}
    # Absolute directory to start in; the default is the attempt's private directory.
    workdir: Annotated[str, Meta(max_length=4096, pattern=r"^/[^\x00-\x1f\x7f]*$(?!\n)")] | None = None
    resources: Resources = Resources()
    priority: Priority = "NORMAL"
    effects: Effects = "staged"
    restart: Restart = "on-failure"
    retry: RetryPolicy = RetryPolicy()
    time_limit_s: TimeLimit | None = None
    # Sent to the processes that have a handler for it.
    warn: Warn | None = None
    # Seconds between SIGTERM and SIGKILL.
    grace_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = 30.0
    # How long the control plane waits for a silent node before it takes the job away; never less than it is set to.
    lease_s: Annotated[float, Meta(ge=0.5, le=86_400.0)] = 9.0
    expected_runtime_s: Runtime | None = None
    labels: dict[LabelKey, LabelValue] = {}
    # Node labels that must be equal.
    selector: dict[LabelKey, LabelValue] = {}
    # "0-999", "1,5,7-20", "0-100:10": one task per index, at most ARRAY_TASKS_MAX; "0-199%8" lets 8 run at once.
    array: Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"^[0-9,:-]+(%[0-9]{1,6})?$(?!\n)")] | None = None
    # Used instead of `resources` when these cannot be had, in this order.
    alternatives: Annotated[tuple[Resources, ...], Meta(max_length=8)] = ()
    gang: Gang | None = None
    topology: TopologyWish | None = None
    numa: NumaPolicy = "none"
    qos: Qos = "guaranteed"
    # Cluster-wide resources, for the job as a whole.
    licences: dict[Name, Annotated[int, Meta(ge=1, le=1_000_000)]] = {}
    # The part of the tenant that shares are counted for; below it, every user has a share.
    team: Slug | None = None
    affinity: Annotated[tuple[NodeTerm, ...], Meta(max_length=32)] = ()
    job_affinity: Annotated[tuple[JobTerm, ...], Meta(max_length=16)] = ()
    tolerations: Annotated[tuple[Toleration, ...], Meta(max_length=32)] = ()
    # Regions the job may run in; none named means anywhere.
    residency: Annotated[tuple[LabelValue, ...], Meta(max_length=64)] = ()
    # What becomes of it when its cluster of a federation cannot be reached: it stays there, or runs anew in another one
    # after its cluster has ended it.
    on_partition: OnPartition = "stay"
    inputs: Annotated[tuple[DataInput, ...], Meta(max_length=64)] = ()
    # Wall-clock seconds since the epoch by which the job should have ended.
    deadline_at: Annotated[float, Meta(ge=0.0, le=1e11)] | None = None
    preemption: Preemption = Preemption()
    # Run times by GPU model, where they differ.
    expected_runtimes_s: Annotated[dict[GpuModel, Runtime], Meta(max_length=32)] = {}
    # The job uses a gap of at least this length before claimed room is needed, and is asked to leave at its end.
    gap_min_s: Annotated[float, Meta(ge=1.0, le=31_536_000.0)] | None = None
    # The reservation whose room the job uses.
    reservation: Name | None = None
    # A class of service that the profile defines: how soon the job must start or end.
    sla: Slug | None = None
    # Wall-clock seconds since the epoch by which it should have started: what such a class makes of it.
    start_by_at: Annotated[float, Meta(ge=0.0, le=1e11)] | None = None
    # The job is refused at submission if by the estimates it would miss its deadline.
    deadline_strict: bool = False
    # Secrets of the tenant, by name: their values are read when an attempt starts.
    secrets: Annotated[tuple[SecretRef, ...], Meta(max_length=SECRETS_PER_JOB_MAX)] = ()
    # How well the job must be isolated from everything else on its node; its tenant may ask for more.
    isolation: Isolation = "any"
    network: Network = "host"
    # Data that the job reads, by reference: recorded, and a reason to run near it. Ares does not fetch it.
    input_refs: Annotated[tuple[InputRef, ...], Meta(max_length=1000)] = ()
    # The cost that the submitter states: shown beside the server's own estimate, and never used.
    claimed_cost: Cost | None = None
    # Wall-clock seconds since the epoch before which the job does not begin.
    begin_at: Annotated[float, Meta(ge=0.0, le=1e11)] | None = None
    # It waits until a person releases it.
    held: bool = False
    # It waits until all of them are met.
    needs: Annotated[tuple[Need, ...], Meta(max_length=PARENTS_MAX)] = ()
    needs_timeout: NeedsTimeout | None = None
    on_impossible: Unmet = "skip"
    # In a workflow: it runs when all other jobs have ended, however they did.
    finally_: bool = field(name="finally", default=False)
    # Channels that are told how the job ended.
    notify: Annotated[tuple[NotifyWish, ...], Meta(max_length=4)] = ()
    # The files that the job starts with: the digest of the manifest of a project that the tenant shipped.
    project: Sha256 | None = None
    # The container image that the job runs in. None: with the programs of the node.
    image: Image | None = None
    # How many jobs it may submit while it runs; 0: it has no way to do so.
    children: Annotated[int, Meta(ge=0, le=CHILDREN_MAX)] = 0
    # None: the programs of the node.
    python: PythonEnvironment | None = None
    # None: the command is started on every rank as it is.
    runtime: RuntimeWish | None = None
    # The job saves checkpoints. None: none are looked for.
    checkpoint: CheckpointPolicy | None = None
    # Its first attempt goes on from there.
    restore_from: RestoreFrom | None = None


def projects_of(spec: JobSpec) -> tuple[Sha256, ...]:
    """Digests of all shipped files that the job needs."""
    image = None if spec.image is None else spec.image.project
    built = None if spec.python is None else spec.python.project
    found = tuple(project for project in (spec.project, image, built) if project is not None)
    return (*found, *staged_of(spec).values()) if spec.inputs else found


# Between a dataset's name and the digest of one of its versions.
VERSION_MARK = "@sha256:"


def staged_of(spec: JobSpec) -> dict[str, Sha256]:
    """Digests of the manifests of the datasets that are staged for the job, by the input's name."""
    named = ((given.name, given.from_.partition(VERSION_MARK)[2]) for given in spec.inputs if given.from_ is not None)
    return {name: digest for name, digest in named if digest}
