"""The jobs that hold the nodes where a waiting job almost fits. Names of other tenants' jobs are left out."""

from typing import NamedTuple

from ares.api.decisions import AskExplained, GpuSeen, Holder
from ares.control.state.view import View
from ares.core.schedule.cluster import Cluster
from ares.model.state import Placement

_HOLDERS_MAX = 20
# Filters whose question a look at each GPU answers.
_ABOUT_GPUS = frozenset({"gpus", "gpus-declared", "numa"})


class _Taken(NamedTuple):
    """What one job has on one node. Kept for it: then since 0.0."""

    job: str
    tenant: str
    places: tuple[Placement, ...]
    since: float = 0.0
    ends_at: float | None = None
    reserved: bool = False


def holders(cluster: Cluster, view: View, tenant: str, asks: tuple[AskExplained, ...]) -> tuple[Holder, ...]:
    nodes = dict.fromkeys(miss.node for ask in asks for miss in ask.nearest)
    found = [
        Holder(
            node=node,
            job=taken.job if taken.tenant == tenant else "",
            tenant=tenant if taken.tenant == tenant else "",
            gpus=sum(len(place.gpus) * place.gpu_milli for place in taken.places) / 1000,
            cpus=sum(place.cpu_milli for place in taken.places) / 1000,
            since=taken.since,
            ends_at=taken.ends_at,
            reserved=taken.reserved,
        )
        for node in nodes
        for taken in _taken(cluster, view, node)
    ]
    return tuple(found[:_HOLDERS_MAX])


def gpus(cluster: Cluster, view: View, tenant: str, asks: tuple[AskExplained, ...]) -> tuple[GpuSeen, ...]:
    """GPU by GPU, the nearest nodes that lack some."""
    nodes = dict.fromkeys(miss.node for ask in asks for miss in ask.nearest if miss.refused_by in _ABOUT_GPUS)
    return tuple(gpu for node in nodes for gpu in _gpus_of(cluster, view, tenant, node))


def _gpus_of(cluster: Cluster, view: View, tenant: str, node: str) -> list[GpuSeen]:
    record = cluster.table.records[cluster.rows[node]]
    taken = _taken(cluster, view, node)
    found: list[GpuSeen] = []
    for gpu in () if record is None else record.info.gpus:
        here = [(holder, place.gpu_milli) for holder in taken for place in holder.places if gpu.index in place.gpus]
        found.append(
            GpuSeen(
                node=node,
                index=gpu.index,
                model=gpu.model,
                memory_mib=gpu.memory_mib,
                free_milli=max(0, 1000 - sum(milli for _, milli in here)),
                numa_node=gpu.numa_node,
                jobs=tuple(holder.job for holder, _ in here if holder.tenant == tenant),
                mig=gpu.mig,
            )
        )
    return found


def _taken(cluster: Cluster, view: View, node: str) -> list[_Taken]:
    """Running jobs first, then those that room is kept for."""
    held = [cluster.holdings[job] for job in cluster.on_node.get(node, ())]
    found = [
        _Taken(holding.job, holding.tenant, _on(node, holding.placements), holding.since, holding.ends_at)
        for holding in held
    ]
    for job, kept in cluster.reserved.items():
        places = _on(node, kept.placements)
        entry = view.entries.get(job)
        if places:
            found.append(_Taken(job, "" if entry is None else entry.state.tenant, places, reserved=True))
    return found


def _on(node: str, placements: tuple[Placement, ...]) -> tuple[Placement, ...]:
    return tuple(place for place in placements if place.node == node)
