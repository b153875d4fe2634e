"""Rules about what a job asks for, where it may run, and how well it is kept apart."""

import math
from collections.abc import Callable

from msgspec.structs import replace

from ares.core.lifecycle.ranks import why_not_preemptible
from ares.core.refusal import Refusal
from ares.model.isolation import Isolation, stronger
from ares.model.job import JobSpec, NodeTerm, Resources

# The taint that gives a tenant machines of its own.
TENANT_TAINT = "tenant"
# How many values each kind of condition compares with: at least, at most.
_VALUES: dict[str, tuple[int, int]] = {
    "in": (1, 64), "not-in": (1, 64), "exists": (0, 0), "absent": (0, 0), "gt": (1, 1), "lt": (1, 1),
}  # fmt: skip


def _resources(spec: JobSpec) -> Refusal | None:
    wishes = {"resources": spec.resources} | {
        f"alternatives[{n}]": resources for n, resources in enumerate(spec.alternatives)
    }
    return next((found for path, wants in wishes.items() if (found := _gpu_wishes(path, wants)) is not None), None)


def _gpu_wishes(path: str, wants: Resources) -> Refusal | None:
    """Wishes about GPUs need GPUs."""
    if wants.gpus > 0:
        return None
    fix = f"set {path}.gpus to 1 or more"
    if wants.gpu_model is not None:
        message = f"{path} names GPU model {wants.gpu_model!r} but asks for no GPUs"
        return Refusal(code="gpu-model-without-gpus", message=message, fix=fix)
    if wants.gpu_milli < 1000:
        message = f"{path} asks for {wants.gpu_milli} thousandths of each GPU but for no GPUs"
        return Refusal(code="gpu-share-without-gpus", message=message, fix=fix)
    if wants.gpu_memory_mib > 0:
        message = f"{path} asks for {wants.gpu_memory_mib:,} MiB on each GPU but for no GPUs"
        return Refusal(code="gpu-memory-without-gpus", message=message, fix=fix)
    return None


def _gang(spec: JobSpec) -> Refusal | None:
    gang = spec.gang
    if gang is None:
        return None
    if gang.min_ranks is not None and gang.min_ranks > gang.ranks:
        message = f"the gang needs at least {gang.min_ranks} ranks and has at most {gang.ranks}"
        return Refusal(code="gang-min-above-ranks", message=message, fix=f"choose gang.minRanks up to {gang.ranks}")
    if gang.resize_signal is not None and gang.min_ranks is None:
        message = f"the gang wants {gang.resize_signal} when it is resized, and has a fixed size"
        return Refusal(code="gang-not-elastic", message=message, fix="set gang.minRanks, or remove gang.resizeSignal")
    return None


def _topology(spec: JobSpec) -> Refusal | None:
    wish = spec.topology
    if (
        wish is None
        or wish.level != "nvlink"
        or all(resources.gpus > 0 for resources in (spec.resources, *spec.alternatives))
    ):
        return None
    message = "topology level nvlink is about GPUs, and the job can be given none"
    return Refusal(code="nvlink-without-gpus", message=message, fix="ask for GPUs, or choose level node")


def _together(spec: JobSpec) -> Refusal | None:
    """A gang that must be on one machine cannot be spread over several."""
    gang, wish = spec.gang, spec.topology
    if (
        gang is None
        or gang.per_node is None
        or wish is None
        or not wish.required
        or wish.level not in ("nvlink", "node")
    ):
        return None
    least = gang.min_ranks or gang.ranks
    if least <= gang.per_node:
        return None
    message = f"the gang's {least} ranks must share one node, and only {gang.per_node} may be on one"
    return Refusal(code="gang-spread-and-together", message=message, fix="drop gang.perNode, or choose level rack")


def _affinity(spec: JobSpec) -> Refusal | None:
    return next((found for n, term in enumerate(spec.affinity) if (found := _term(n, term)) is not None), None)


def _term(n: int, term: NodeTerm) -> Refusal | None:
    least, most = _VALUES[term.op]
    count, path = len(term.values), f"affinity[{n}]"
    if not least <= count <= most:
        wanted = "no values" if most == 0 else "exactly 1 value" if most == 1 else "1 value or more"
        message = f"{path}: {term.op} takes {wanted}, {count} are given"
        return Refusal(code="affinity-values", message=message, fix=f"give {path}.values {wanted}")
    if term.op in ("gt", "lt") and not _number(term.values[0]):
        message = f"{path}: {term.op} compares numbers, {term.values[0]!r} is none"
        return Refusal(code="affinity-not-a-number", message=message, fix="write a number, such as 80")
    return None


def not_tolerable(tenant: str, spec: JobSpec) -> Refusal | None:
    """A taint of the key `tenant` keeps machines for the tenant it names: no other tenant's job may tolerate it, nor
    all of these taints at once. Other taints are wishes of operators, and no border."""
    for toleration in spec.tolerations:
        if toleration.key == TENANT_TAINT and toleration.value != tenant:
            whose = "every tenant" if toleration.value is None else f"tenant {toleration.value}"
            message = f"the job tolerates the taint of machines that are {whose}'s, and is {tenant}'s"
            return Refusal(
                code="toleration-not-yours", message=message, fix=f"tolerate {TENANT_TAINT}={tenant}, or none"
            )
    return None


def _number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _job_affinity(spec: JobSpec) -> Refusal | None:
    empty = next((n for n, term in enumerate(spec.job_affinity) if not term.labels), None)
    if empty is None:
        return None
    message = f"jobAffinity[{empty}] names no labels, so it means every job of the tenant"
    return Refusal(code="job-affinity-empty", message=message, fix="name the labels of the jobs that are meant")


def _gap(spec: JobSpec) -> Refusal | None:
    """A job that makes use of gaps is asked to leave, and has to be able to."""
    why = why_not_preemptible(spec) if spec.gap_min_s is not None else ""
    if not why:
        return None
    message = f"the job wants to make use of gaps, and cannot be asked to leave: {why}"
    return Refusal(code="gap-not-preemptible", message=message, fix="remove gapMinS, or let it be preempted")


CHECKS: tuple[Callable[[JobSpec], Refusal | None], ...] = (
    _resources, _gang, _topology, _together, _affinity, _job_affinity, _gap,
)  # fmt: skip


def at_least(spec: JobSpec, least: Isolation) -> JobSpec:
    wanted = stronger(spec.isolation, least)
    return spec if wanted == spec.isolation else replace(spec, isolation=wanted)


def network(spec: JobSpec) -> Refusal | None:
    """The ranks of a gang meet over the network."""
    if spec.network == "host" or spec.gang is None or spec.gang.ranks == 1:
        return None
    message = f"the {spec.gang.ranks} ranks of the gang could not reach each other with network: none"
    return Refusal(code="gang-without-network", message=message, fix="choose network: host, or remove the gang")
