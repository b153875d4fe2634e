"""A few nodes as columns, said in few words."""

from typing import Any, NamedTuple

import numpy as np

from ares.api.reasons import Reason
from ares.core.ask import Ask
from ares.core.capacity.node_slice import ClusterFacts, Matching, NodeSlice
from ares.core.capacity.node_table import NodeTable
from ares.core.capacity.rule import Miss
from ares.core.schedule.filters import FILTERS
from ares.model.node import Gpu, NodeInfo, NodeRecord, NumaNode, Taint
from ares.model.profile import Pool

A100 = "NVIDIA A100-SXM4-80GB"


class Node(NamedTuple):
    """A node, and what of it is in use."""

    record: NodeRecord
    pool: Pool = Pool()
    cpu_used: int = 0
    memory_used: int = 0
    # Thousandths taken of GPUs, by index.
    gpus_used: dict[int, int] = {}
    devices_used: dict[str, int] = {}
    # CPU and memory by place.
    numa_used: dict[int, tuple[int, int]] = {}
    ready: bool = True


def links(*sizes: int) -> tuple[tuple[str, ...], ...]:
    """NVLink domains of these sizes, with the GPUs in order."""
    domain = [number for number, size in enumerate(sizes) for _ in range(size)]
    return tuple(
        tuple("X" if a == b else "NV4" if domain[a] == domain[b] else "SYS" for b in range(len(domain)))
        for a in range(len(domain))
    )


def node(
    name: str, *, cpu: int = 8, memory: int = 1024, gpus: int = 0, model: str = A100, gpu_memory: int = 80_000,
    numa: int = 0, taints: tuple[Taint, ...] = (), cordoned: bool = False, drained_by: str = "",
    cached: tuple[str, ...] = (), info: dict[str, Any] | None = None, **used: Any,
) -> Node:  # fmt: skip
    """With `numa` NUMA nodes that share CPUs, memory and GPUs evenly, in order."""
    places = max(1, numa)
    found = tuple(
        Gpu(index=at, uuid=f"{name}-{at}", model=model, memory_mib=gpu_memory, numa_node=at * places // max(gpus, 1))
        for at in range(gpus)
    )
    each = cpu // places
    domains = tuple(
        NumaNode(index=at, cpus=tuple(range(at * each, (at + 1) * each)), memory_mib=memory // places)
        for at in range(numa)
    )
    made = NodeInfo(name=name, cpu_milli=cpu * 1000, memory_mib=memory, gpus=found, numa=domains, **(info or {}))
    record = NodeRecord(
        info=made, incarnation=1, registered_at=0.0, cordoned=cordoned, taints=taints, drained_by=drained_by,
        cached=cached,
    )  # fmt: skip
    return Node(record, **used)


def table(*nodes: Node) -> NodeTable:
    made = NodeTable()
    for row, one in enumerate(nodes):
        info = one.record.info
        made.put(row, one.record, one.pool)
        made.healthy[row] = one.ready and not one.record.cordoned
        made.cpu_free[row] = info.cpu_milli - one.cpu_used
        made.memory_free[row] = info.memory_mib - one.memory_used
        for gpu in info.gpus:
            made.set_gpus_left(row, (gpu.index,), (-1 if gpu.mig else 1000 - one.gpus_used.get(gpu.index, 0),))
        for kind in info.devices:
            made.set_devices_taken(row, kind, (1 << one.devices_used.get(kind, 0)) - 1)
        for place, _ in enumerate(info.numa):
            cpu, memory = one.numa_used.get(place, (0, 0))
            made.numa_cpu_free[row, place] = made.numa_cpu[row, place] - cpu
            made.numa_memory_free[row, place] = made.numa_memory[row, place] - memory
    return made


def facts(*nodes: Node) -> ClusterFacts:
    return ClusterFacts(
        gpu_hour_max=max(one.pool.gpu_hour for one in nodes),
        cpu_hour_max=max(one.pool.cpu_hour for one in nodes),
        gpu_watts_max=float(table(*nodes).gpu_watts.max()),
        network_gbps_max=max(one.record.info.network_gbps for one in nodes),
        memory_gib_hour_max=max(one.pool.memory_gib_hour for one in nodes),
    )


def matching(*carriers: tuple[str, dict[str, str], tuple[int, ...]]) -> Matching:
    """(tenant, labels, rows) of each running job."""
    made = Matching()
    for number, (tenant, labels, rows) in enumerate(carriers):
        made.put(f"j{number}", tenant, labels, rows)
    return made


def rows(nodes: list[Node], ask: Ask, *, jobs: Matching | None = None, emptied: bool = False) -> NodeSlice:
    return NodeSlice(table(*nodes), ask, slice(0, len(nodes)), facts(*nodes), jobs or Matching(), emptied)


def passing(name: str, nodes: list[Node], ask: Ask, **more: Any) -> list[str] | None:
    """Names of the nodes that pass; None when the filter has nothing to ask."""
    passes = FILTERS[name].passes(rows(nodes, ask, **more))
    return None if passes is None else [nodes[row].record.info.name for row in np.flatnonzero(passes)]


def refusal(name: str, nodes: list[Node], ask: Ask, *, jobs: Matching | None = None, ever: bool = False) -> Reason:
    """What the filter says when it was asked of all nodes and none passed."""
    seen = NodeSlice(table(*nodes), ask, slice(None), ClusterFacts(), jobs or Matching(), ever)
    passes = FILTERS[name].passes(seen)
    assert passes is None or not (passes & seen.exists).any(), f"{name} refuses nothing"
    return FILTERS[name].explain(Miss(seen, np.flatnonzero(seen.exists), ever))
