"""Every name a rule may use, with its type, and what rules are told about a job: one value for every name."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from ares.model.access import Principal
from ares.model.job import JobSpec
from ares.model.policy import Type

# ---- names


# A string that is not given is empty, a number 0, a quota without a limit infinite.
NAMES: Final[dict[str, tuple[Type, str]]] = {
    "job.name": ("string", "its name"),
    "job.command": ("list(string)", "program and arguments"),
    "job.env_keys": (
        "list(string)",
        "names of its environment variables, also of those that secrets fill; never their values",
    ),
    "job.labels": ("map(string, string)", "labels"),
    "job.selector": ("map(string, string)", "node labels it asks for"),
    "job.affinity_keys": ("list(string)", "node labels its affinity speaks of"),
    "job.tolerations": ("list(string)", "keys of the taints it puts up with"),
    "job.on_partition": ("string", "stay or move: when its cluster of a federation cannot be reached"),
    "job.residency": ("list(string)", "regions it may run in; none: anywhere"),
    "job.inputs": ("list(string)", "names of its datasets"),
    "job.input_refs": ("list(string)", "references to what it reads, datasets that are staged included"),
    "job.secrets": ("list(string)", "names of the secrets it is given"),
    "job.notify": ("list(string)", "channels that are told of its end"),
    "job.workdir": ("string", "directory it starts in"),
    "job.project": ("string", "digest of the files it starts with"),
    "job.image": ("string", "container image it runs in"),
    "job.children": ("int", "how many jobs it may submit while it runs"),
    "job.python": ("string", "directory of its Python environment, or the file it is built from"),
    "job.runtime": ("string", "what starts its processes: torch, mpi, ray or command; empty: its command"),
    "job.priority": ("string", "CRITICAL, HIGH, NORMAL, LOW or BEST_EFFORT"),
    "job.qos": ("string", "guaranteed, burstable or best-effort"),
    "job.effects": ("string", "staged, fenced, idempotent or unsafe"),
    "job.restart": ("string", "never, on-failure or always"),
    "job.team": ("string", "team it is counted for"),
    "job.sla": ("string", "class of service"),
    "job.reservation": ("string", "reservation it uses"),
    "job.topology": ("string", "level it asks its GPUs to be close on"),
    "job.isolation": ("string", "any, process or sandbox: how well it must be kept apart"),
    "job.network": ("string", "what it may reach"),
    "job.cores": ("double", "of all ranks of one task"),
    "job.memory_gib": ("double", "of all ranks of one task"),
    "job.gpus": ("int", "of all ranks of one task"),
    "job.gpu_model": ("string", "GPU model it asks for"),
    "job.gpu_share": ("double", "part of each GPU, from 0 to 1"),
    "job.devices": ("map(string, int)", "other devices, of all ranks of one task"),
    "job.licences": ("map(string, int)", "licences of one task"),
    "job.ranks": ("int", "ranks of a gang, 1 without one"),
    "job.tasks": ("int", "tasks of an array, 1 without one"),
    "job.total_cores": ("double", "of all tasks"),
    "job.total_gpus": ("double", "of all tasks, shares of GPUs as shares"),
    "job.time_limit_s": ("double", "wall-time limit"),
    "job.expected_s": ("double", "run time as the submitter expects it"),
    "job.grace_s": ("double", "from SIGTERM to SIGKILL"),
    "job.lease_s": ("double", "how long a silent node is waited for"),
    "job.retry_limit": ("int", "how often a failed attempt is repeated"),
    "job.preemptible": ("bool", "whether it may be displaced"),
    "job.is_retry": ("bool", "whether it runs a finished job again"),
    "job.cost": ("double", "what the server expects all its tasks to cost"),
    "user.name": ("string", "who submits: the user, or the id of a token that is no user's"),
    "user.role": ("string", "role"),
    "user.team": ("string", "team of the user"),
    "user.delegate": ("bool", "whether somebody of another tenant acts here"),
    "tenant.name": ("string", "whose job it is"),
    "tenant.jobs": ("double", "jobs that have not ended"),
    "tenant.cores": ("double", "cores in use"),
    "tenant.memory_gib": ("double", "memory in use"),
    "tenant.gpus": ("double", "GPUs in use"),
    "tenant.gpu_hours": ("double", "GPU-hours used this month"),
    "tenant.spent": ("double", "cost of this month so far"),
    "tenant.budget": ("double", "monthly budget"),
    "tenant.jobs_quota": ("double", "most jobs at a time"),
    "tenant.cores_quota": ("double", "most cores at a time"),
    "tenant.memory_gib_quota": ("double", "most memory at a time"),
    "tenant.gpus_quota": ("double", "most GPUs at a time"),
    "tenant.gpu_hours_quota": ("double", "most GPU-hours in a month"),
    "now": ("timestamp", "when it is submitted, UTC"),
}
# What may be called besides operators: hints are looked for here too.
FUNCTIONS: Final = (
    "all", "exists", "exists_one", "has", "size", "contains", "startsWith", "endsWith", "matches",
    "int", "uint", "double", "string", "bool", "bytes", "duration", "timestamp", "type", "getHours", "getMinutes",
    "getDayOfWeek", "getDate", "getDayOfMonth", "getDayOfYear", "getMonth", "getFullYear", "getSeconds",
    "getMilliseconds",
)  # fmt: skip
# Lists and maps: reading one again and again inside a loop would cost the product of their lengths.
MANY: Final = frozenset(name for name, (kind, _) in NAMES.items() if kind.startswith(("list", "map")))


# ---- facts


# Fields of a job that rules are not told of, and why no rule is evaded by that.
UNTOLD: Final[Mapping[str, str]] = {
    "alternatives": "the job is judged with each of them",
    "numa": "it is about where on a node, not about how much",
    "warn": "a signal to itself",
    "deadline_at": "a wish of when",
    "start_by_at": "made of the class of service",
    "deadline_strict": "only ever refuses the job",
    "gap_min_s": "only makes it wait",
    "expected_runtimes_s": "estimates; the server makes its own of the cost",
    "claimed_cost": "a claim; `job.cost` is the server's own",
    "job_affinity": "only of the tenant's own jobs",
    "begin_at": "only makes it wait",
    "checkpoint": "how often it saves its own work",
    "restore_from": "only of the tenant's own jobs",
    "held": "only makes it wait",
    "needs": "only makes it wait, for the tenant's own jobs",
    "needs_timeout": "how long it waits at most",
    "on_impossible": "what becomes of it when that was in vain",
    "finally_": "when it runs, not what",
}
_UNLIMITED: Final = float("inf")
# Numbers of a tenant that was not counted: nothing used, nothing limited.
NUMBERS: Final[dict[str, float]] = {
    name: _UNLIMITED if name.endswith(("_quota", ".budget")) else 0.0
    for name, (kind, _) in NAMES.items()
    if name.startswith("tenant.") and kind == "double"
}


def ways(spec: JobSpec) -> Iterator[JobSpec]:
    """The job with its resources, and with each of its alternatives: a rule that is true of one is true of the job."""
    yield spec
    for other in spec.alternatives:
        yield replace(spec, resources=other, alternatives=())


class PolicyJob(NamedTuple):
    """What facts are computed from. `numbers` are the tenant's, by their names in the table."""

    who: Principal
    spec: JobSpec
    now: float = 0.0
    tasks: int = 1
    cost: float = 0.0
    is_retry: bool = False
    numbers: Mapping[str, float] = {}

    @property
    def ranks(self) -> int:
        return 1 if self.spec.gang is None else self.spec.gang.ranks


Read = Callable[[PolicyJob], object]

_JOB: Final[dict[str, Read]] = {
    "name": lambda job: job.spec.name,
    "command": lambda job: list(job.spec.command),
    # However it is set: a variable that a secret fills is one like any other.
    "env_keys": lambda job: [*job.spec.env, *(secret.env for secret in job.spec.secrets if secret.env is not None)],
    "labels": lambda job: job.spec.labels,
    "selector": lambda job: job.spec.selector,
    "affinity_keys": lambda job: [term.key for term in job.spec.affinity],
    "tolerations": lambda job: [toleration.key for toleration in job.spec.tolerations],
    "on_partition": lambda job: job.spec.on_partition,
    "residency": lambda job: list(job.spec.residency),
    "inputs": lambda job: [dataset.name for dataset in job.spec.inputs],
    "input_refs": lambda job: [*job.spec.input_refs, *(given.from_ for given in job.spec.inputs if given.from_)],
    "secrets": lambda job: [secret.name for secret in job.spec.secrets],
    "notify": lambda job: [wish.partition(":")[0] for wish in job.spec.notify],
    "workdir": lambda job: job.spec.workdir or "",
    "project": lambda job: job.spec.project or "",
    "image": lambda job: "" if job.spec.image is None else job.spec.image.ref,
    "children": lambda job: job.spec.children,
    "python": lambda job: "" if job.spec.python is None else job.spec.python.path or job.spec.python.file,
    "runtime": lambda job: "" if job.spec.runtime is None else job.spec.runtime.kind,
    "priority": lambda job: job.spec.priority,
    "qos": lambda job: job.spec.qos,
    "effects": lambda job: job.spec.effects,
    "restart": lambda job: job.spec.restart,
    "team": lambda job: job.spec.team or "",
    "sla": lambda job: job.spec.sla or "",
    "reservation": lambda job: job.spec.reservation or "",
    "topology": lambda job: "" if job.spec.topology is None else job.spec.topology.level,
    "isolation": lambda job: job.spec.isolation,
    "network": lambda job: job.spec.network,
    "cores": lambda job: job.spec.resources.cpu_milli * job.ranks / 1000,
    "memory_gib": lambda job: job.spec.resources.memory_mib * job.ranks / 1024,
    "gpus": lambda job: job.spec.resources.gpus * job.ranks,
    "gpu_model": lambda job: job.spec.resources.gpu_model or "",
    "gpu_share": lambda job: job.spec.resources.gpu_milli / 1000 if job.spec.resources.gpus else 0.0,
    "devices": lambda job: {kind: count * job.ranks for kind, count in job.spec.resources.devices.items()},
    "licences": lambda job: job.spec.licences,
    "ranks": lambda job: job.ranks,
    "tasks": lambda job: job.tasks,
    "total_cores": lambda job: job.spec.resources.cpu_milli * job.ranks * job.tasks / 1000,
    "total_gpus": lambda job: job.spec.resources.gpus * job.spec.resources.gpu_milli * job.ranks * job.tasks / 1000,
    "time_limit_s": lambda job: job.spec.time_limit_s or 0.0,
    "expected_s": lambda job: job.spec.expected_runtime_s or 0.0,
    "grace_s": lambda job: job.spec.grace_s,
    "lease_s": lambda job: job.spec.lease_s,
    "retry_limit": lambda job: max((job.spec.retry.limit, *job.spec.retry.class_limits.values())),
    "preemptible": lambda job: job.spec.preemption.allowed,
    "is_retry": lambda job: job.is_retry,
    "cost": lambda job: job.cost,
}
_OTHERS: Final[dict[str, Read]] = {
    # Never the token's name: names of tokens are free, and one may be that of a user.
    "user.name": lambda job: job.who.subject,
    "user.role": lambda job: job.who.role,
    "user.team": lambda job: job.who.team or "",
    "user.delegate": lambda job: bool(job.who.home),
    "tenant.name": lambda job: job.who.tenant,
    "now": lambda job: job.now,
}


def _number(name: str, default: float) -> Read:
    return lambda job: job.numbers.get(name, default)


_READ: Final[dict[str, Read]] = {
    **{f"job.{name}": read for name, read in _JOB.items()},
    **_OTHERS,
    **{name: _number(name, default) for name, default in NUMBERS.items()},
}


def facts(job: PolicyJob, names: Iterable[str] = NAMES) -> dict[str, object]:
    """Only the facts asked for: few rules read more than a few of them."""
    return {name: _READ[name](job) for name in names}
