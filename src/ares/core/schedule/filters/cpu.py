"""Nodes with enough CPU left."""

from ares.core.queue.waiting import Shape
from ares.core.schedule.columns import Column, Nodes
from ares.core.schedule.filters.filter import Filter, Miss
from ares.core.schedule.reasons import Reason


def passes(nodes: Nodes, shape: Shape) -> Column:
    return nodes.cpu_milli_free >= shape.cpu_milli


def explain(miss: Miss) -> Reason:
    asked, best = miss.shape.cpu_milli, miss.nearest(miss.nodes.cpu_milli_free)
    free, total = int(miss.nodes.cpu_milli_free[best]), int(miss.nodes.cpu_milli[best])
    numbers = {"asked": asked, "free": free, "total": total, "nodes": miss.considered()}
    name, needs = miss.names[best].name, f"needs {asked / 1000:g} CPU{'' if asked == 1000 else 's'} on one node"
    if miss.ever:
        message = f"{needs}; the largest that could take it, {name}, has {total / 1000:g}"
        return Reason(code="INFEASIBLE_CPU", message=message, numbers=numbers)
    message = f"{needs}; the nearest, {name}, has {free / 1000:g} free of {total / 1000:g}"
    return Reason(code="INSUFFICIENT_CPU", message=message, numbers=numbers)


FILTER = Filter(passes, explain)
