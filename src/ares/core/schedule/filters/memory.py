"""Nodes with enough memory left."""

from ares.core.queue.waiting import Shape
from ares.core.schedule.columns import Column, Nodes
from ares.core.schedule.filters.filter import Filter, Miss
from ares.core.schedule.reasons import Reason


def passes(nodes: Nodes, shape: Shape) -> Column:
    return nodes.memory_mib_free >= shape.memory_mib


def explain(miss: Miss) -> Reason:
    asked, best = miss.shape.memory_mib, miss.nearest(miss.nodes.memory_mib_free)
    free, total = int(miss.nodes.memory_mib_free[best]), int(miss.nodes.memory_mib[best])
    numbers = {"asked": asked, "free": free, "total": total, "nodes": miss.considered()}
    name, needs = miss.names[best].name, f"needs {asked:,} MiB of memory on one node"
    if miss.ever:
        message = f"{needs}; the largest that could take it, {name}, has {total:,} MiB"
        return Reason(code="INFEASIBLE_MEMORY", message=message, numbers=numbers)
    message = f"{needs}; the nearest, {name}, has {free:,} MiB free of {total:,} MiB"
    return Reason(code="INSUFFICIENT_MEMORY", message=message, numbers=numbers)


FILTER = Filter(passes, explain)
