"""What rules are told about a job: one value for every name of the table."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from ares.core.policy.names import NAMES
from ares.model.access import Principal
from ares.model.job import JobSpec, Resources

# Fields of a job that rules are not told of, and why that lets nothing past them.
UNTOLD: Final[Mapping[str, str]] = {
    "alternatives": "the job is judged with each of them",
    "numa": "it is about where on a node, not about how much",
    "warn": "a signal to itself",
    "deadline_at": "a wish of when",
    "start_by_at": "made of the class of service",
    "deadline_strict": "only ever refuses the job",
    "gap_min_s": "only makes it wait",
    "expected_runtimes_s": "estimates; the server makes its own of the cost",
    "job_affinity": "only of the tenant's own jobs",
}
_UNLIMITED: Final = float("inf")
# Numbers of a tenant nobody counted: nothing used, nothing limited.
_TENANT: Final[dict[str, float]] = {
    name: _UNLIMITED if name.endswith(("_quota", ".budget")) else 0.0
    for name, (kind, _) in NAMES.items()
    if name.startswith("tenant.") and kind == "double"
}


def ways(spec: JobSpec) -> Iterator[JobSpec]:
    """The job with its resources, and with each of its alternatives: a rule that is true of one is true of it."""
    yield spec
    for other in spec.alternatives:
        yield replace(spec, resources=other, alternatives=())


def facts(
    who: Principal, spec: JobSpec, now: float, *, tasks: int = 1, cost: float = 0.0, is_retry: bool = False,
    tenant: Mapping[str, float] | None = None,
) -> dict[str, object]:  # fmt: skip
    """`tenant` has numbers by their names in the table, such as "tenant.gpus"."""
    return {
        **_TENANT,
        **(tenant or {}),
        **_amounts(spec.resources, 1 if spec.gang is None else spec.gang.ranks, tasks),
        "job.name": spec.name,
        "job.command": list(spec.command),
        "job.env_keys": list(spec.env),
        "job.labels": spec.labels,
        "job.selector": spec.selector,
        "job.affinity_keys": [term.key for term in spec.affinity],
        "job.tolerations": [one.key for one in spec.tolerations],
        "job.residency": list(spec.residency),
        "job.inputs": [one.name for one in spec.inputs],
        "job.secrets": [one.name for one in spec.secrets],
        "job.workdir": spec.workdir or "",
        "job.priority": spec.priority,
        "job.qos": spec.qos,
        "job.effects": spec.effects,
        "job.restart": spec.restart,
        "job.team": spec.team or "",
        "job.sla": spec.sla or "",
        "job.reservation": spec.reservation or "",
        "job.topology": "" if spec.topology is None else spec.topology.level,
        "job.isolation": spec.isolation,
        "job.network": spec.network,
        "job.licences": spec.licences,
        "job.time_limit_s": spec.time_limit_s or 0.0,
        "job.expected_s": spec.expected_runtime_s or 0.0,
        "job.grace_s": spec.grace_s,
        "job.lease_s": spec.lease_s,
        "job.retry_limit": max((spec.retry.limit, *spec.retry.class_limits.values())),
        "job.preemptible": spec.preemption.allowed,
        "job.is_retry": is_retry,
        "job.cost": cost,
        "user.name": who.user or who.name or who.token_id,
        "user.role": who.role,
        "user.team": who.team or "",
        "user.delegate": bool(who.home),
        "tenant.name": who.tenant,
        "now": now,
    }


def _amounts(wants: Resources, ranks: int, tasks: int) -> dict[str, object]:
    cores, gpus, share = wants.cpu_milli * ranks / 1000, wants.gpus * ranks, wants.gpu_milli / 1000
    return {
        "job.cores": cores,
        "job.memory_gib": wants.memory_mib * ranks / 1024,
        "job.gpus": gpus,
        "job.gpu_model": wants.gpu_model or "",
        "job.gpu_share": share if wants.gpus else 0.0,
        "job.devices": {kind: count * ranks for kind, count in wants.devices.items()},
        "job.ranks": ranks,
        "job.tasks": tasks,
        "job.total_cores": cores * tasks,
        "job.total_gpus": gpus * share * tasks,
    }
