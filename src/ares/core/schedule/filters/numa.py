"""Nodes of which one NUMA node has room for a rank, where the job requires that. One that reports none is refused."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.gpu_sets import mask_of, most_in_domain, one_domain
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools, Floats, Ints
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import counted, cpus, mib


def passes(rows: NodeSlice) -> Bools | None:
    if rows.ask.numa != "required":
        return None
    return np.logical_and.reduce([have >= asked for have, asked in _wants(rows)]).any(axis=1)


def _wants(rows: NodeSlice) -> list[tuple[Ints, int]]:
    """What each NUMA node has and what is asked of one."""
    ask = rows.ask
    wants = [(rows.numa_cpu_free, ask.cpu_milli), (rows.numa_memory_free, ask.memory_mib)]
    return [*wants, (_gpus(rows), ask.gpus)] if ask.gpus else wants


def _gpus(rows: NodeSlice) -> Ints:
    """Free GPUs of each NUMA node; where NVLink must join them, the most in one NVLink domain."""
    if not one_domain(rows.ask):
        return rows.numa_gpus_free
    numa = rows.table.gpu_numa[rows.at]
    places = range(rows.numa_cpu_free.shape[1])
    return np.stack([most_in_domain(rows, mask_of(rows.gpu_fits & (numa == place))) for place in places], axis=1)


def explain(miss: Miss) -> Reason:
    here, ask = miss.near, miss.seen.ask
    wants = _wants(here)
    joined = " joined by NVLink" if one_domain(ask) else ""
    needs = f"needs {_amounts([asked for _, asked in wants])}{joined} on one NUMA node"
    code = "INFEASIBLE_NUMA" if miss.ever else "INSUFFICIENT_NUMA"
    nodes = len(miss.reached)
    there = here.table.numa_cpu[miss.reached] > 0
    if not there.any():
        message = f"{needs}; no node that could take it reports its NUMA nodes"
        return Reason(code=code, message=message, numbers={"nodes": nodes})
    covered: Floats = np.sum([np.minimum(have, asked) / asked for have, asked in wants], axis=0)
    # A node that has nothing left is nearer than one that has no NUMA nodes.
    at, place = divmod(int(np.where(there, covered, -np.inf).argmax()), covered.shape[1])
    best = int(miss.reached[at])
    have = [int(column[at, place]) for column, _ in wants]
    free, asked = next((has, asked) for has, (_, asked) in zip(have, wants, strict=True) if has < asked)
    index = miss.record(best).info.numa[place].index
    which, left = ("largest that could take it", "") if miss.ever else ("nearest", " free")
    message = f"{needs}; the {which}, {miss.name(best)}, has {_amounts(have)}{left} on NUMA node {index}"
    return Reason(code=code, message=message, numbers={"asked": asked, "free": free, "nodes": nodes})


def _amounts(amounts: list[int]) -> str:
    """Amounts of CPU, memory and, if asked for, GPUs, in words."""
    shown = [cpus(amounts[0]), mib(amounts[1]), *(counted(gpus, "GPU") for gpus in amounts[2:])]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


FILTER = Filter(passes, of_nodes(explain), ("job ends", "node joins", "node changes"))
