"""What a job takes of its tenant's limits from its admission to its end, and what it will cost: functions of its
specification alone, so that only admissions can make a tenant use more."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import ceil

from ares.core.capacity.node_table import POOL_LABEL
from ares.core.energy import known
from ares.core.lifecycle.ranks import why_not_preemptible
from ares.core.quota.measures import ANY_MODEL, MODEL_PREFIX, Amounts
from ares.core.topology.cards import words
from ares.model.job import MEMORY_BURST, JobSpec, Resources
from ares.model.profile import Pool

_WHOLE_GPU = 1000
# Compute slices of a GPU that MIG can hand out.
_MIG_SLICES = 7
_MIG = re.compile(r"mig-(\d)g\b")


def asked_by(spec: JobSpec) -> dict[str, int]:
    """For one job or one task, all its ranks together; of its alternatives, the most of each measure."""
    ranks = 1 if spec.gang is None else spec.gang.ranks
    most = _of(spec.resources)
    for other in spec.alternatives:
        for measure, units in _of(other).items():
            most[measure] = max(units, most.get(measure, 0))
    # What the job may use, not what it asks for: memory in use is gone for other jobs.
    most["memory"] *= MEMORY_BURST[spec.qos]
    if ranks > 1:
        most = {measure: ranks * units for measure, units in most.items()}
    most["jobs"] = 1
    return most


def _of(wants: Resources) -> dict[str, int]:
    found = {"cpu": wants.cpu_milli, "memory": wants.memory_mib}
    named = wants.gpus * wants.gpu_milli
    slices = sum(count * _slice(kind) for kind, count in wants.devices.items()) if wants.devices else 0
    if named or slices:
        found["gpus"] = named + slices
        model = ANY_MODEL if wants.gpu_model is None else MODEL_PREFIX + wants.gpu_model
        for key, units in ((model, named), (ANY_MODEL, slices)):
            if units:
                found[key] = found.get(key, 0) + units
    return found


def _slice(kind: str) -> int:
    """Thousandths of a GPU in a MIG slice; other devices are no GPUs."""
    found = _MIG.match(kind)
    return ceil(_WHOLE_GPU * int(found[1]) / _MIG_SLICES) if found else 0


def units_of(amounts: Amounts, measure: str) -> int:
    """The units of a measure; for one GPU model, all GPUs that may turn out to be of that model."""
    if not measure.startswith(MODEL_PREFIX):
        return amounts.get(measure, 0)
    model = measure.removeprefix(MODEL_PREFIX)
    return sum(
        units
        for key, units in amounts.items()
        if key.startswith(MODEL_PREFIX) and may_be(key.removeprefix(MODEL_PREFIX), model)
    )


@lru_cache(4096)
def may_be(named: str, model: str) -> bool:
    """Whether a job that names one model may get the other: not when it names a different card."""
    wanted, limited = words(named), words(model)
    return wanted <= limited or limited <= wanted or known(named) is None


# ---- the price, before the place is known: the dearest that may happen

_MIB_PER_GIB = 1024
# GPU models that nodes of a pool have, by pool.
Models = Mapping[str, frozenset[str]]


def per_hour(spec: JobSpec, pools: Mapping[str, Pool], models: Models) -> float:
    """The price of all ranks of one job or task, in the dearest pool that it may go to."""
    if not pools:
        return 0.0
    ranks = 1 if spec.gang is None else spec.gang.ranks
    asks = (spec.resources, *spec.alternatives)
    return ranks * max(_dearest(spec, wants, pools, models) for wants in asks)


def _dearest(spec: JobSpec, wants: Resources, pools: Mapping[str, Pool], models: Models) -> float:
    named = spec.selector.get(POOL_LABEL)
    if named is not None:
        return _price(wants, pools.get(named, Pool()))
    fitting = [name for name in pools if _has(models.get(name), wants)]
    # No known node has what the job wants: a node of any pool may come to have it.
    return max(_price(wants, pools[name]) for name in _allowed(spec, fitting or pools, pools))


def _allowed(spec: JobSpec, names: Iterable[str], pools: Mapping[str, Pool]) -> list[str]:
    """Without spot pools, for a job that may not be preempted."""
    every = list(names)
    firm = [name for name in every if not pools[name].spot]
    return firm if firm and why_not_preemptible(spec) else every


def _has(models: frozenset[str] | None, wants: Resources) -> bool:
    if models is None:
        return False
    if not wants.gpus:
        return True
    named = words(wants.gpu_model or "")
    return any(named <= words(model) for model in models)


def _price(wants: Resources, pool: Pool) -> float:
    gpus, cpus = wants.gpus * wants.gpu_milli / 1000, wants.cpu_milli / 1000
    price = gpus * pool.gpu_hour + cpus * pool.cpu_hour + wants.memory_mib / _MIB_PER_GIB * pool.memory_gib_hour
    return price * pool.spot_factor if pool.spot else price
