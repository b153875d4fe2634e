"""What a job will cost by the price list, before its place is known: the dearest that may happen."""

from collections.abc import Iterable, Mapping

from ares.core.capacity.node_table import POOL_LABEL
from ares.core.lifecycle.ranks import why_not_preemptible
from ares.core.topology.cards import words
from ares.model.job import JobSpec, Resources
from ares.model.profile import Pool

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
