"""Every name a rule may use, with its type: one table for the compiler, the facts and the documents."""

from typing import Final, Literal

Type = Literal[
    "bool", "int", "double", "string", "timestamp", "list(string)", "map(string, string)", "map(string, int)"
]

# A string that is not given is empty, a number 0, a quota without a limit infinite.
NAMES: Final[dict[str, tuple[Type, str]]] = {
    "job.name": ("string", "its name"),
    "job.command": ("list(string)", "program and arguments"),
    "job.env_keys": ("list(string)", "names of its environment variables, never their values"),
    "job.labels": ("map(string, string)", "labels"),
    "job.selector": ("map(string, string)", "node labels it asks for"),
    "job.affinity_keys": ("list(string)", "node labels its affinity speaks of"),
    "job.tolerations": ("list(string)", "keys of the taints it puts up with"),
    "job.residency": ("list(string)", "regions it may run in; none: anywhere"),
    "job.inputs": ("list(string)", "names of its datasets"),
    "job.secrets": ("list(string)", "names of the secrets it is given"),
    "job.workdir": ("string", "directory it starts in"),
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
    "user.name": ("string", "who submits: the user, or the token's name"),
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
# Values that hold several: reading one again and again inside a loop would cost their product.
MANY: Final = frozenset(name for name, (kind, _) in NAMES.items() if kind.startswith(("list", "map")))
