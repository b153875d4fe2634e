"""Nodes that carry every label the job selects by."""

from ares.core.queue.waiting import Shape
from ares.core.schedule.columns import Column, Nodes
from ares.core.schedule.filters.filter import Filter, Miss
from ares.core.schedule.reasons import Reason


def passes(nodes: Nodes, shape: Shape) -> Column:
    return nodes.selected


def explain(miss: Miss) -> Reason:
    count = miss.considered()
    if count == 0:
        return Reason(code="NO_NODES", message="no node is registered", numbers={"nodes": 0})
    wanted = ", ".join(f"{key}={value}" for key, value in miss.shape.selector)
    message = f"none of the {count} nodes has the labels {wanted}"
    return Reason(code="SELECTOR_MISMATCH", message=message, numbers={"nodes": count})


FILTER = Filter(passes, explain)
