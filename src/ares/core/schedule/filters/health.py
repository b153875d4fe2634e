"""Nodes whose agent is alive and that are not cordoned."""

from ares.core.queue.waiting import Shape
from ares.core.schedule.columns import Column, Nodes
from ares.core.schedule.filters.filter import Filter, Miss
from ares.core.schedule.reasons import Reason


def passes(nodes: Nodes, shape: Shape) -> Column:
    return nodes.healthy


def explain(miss: Miss) -> Reason:
    count = miss.considered()
    if count == 0:
        return Reason(code="NO_NODES", message="no node is registered", numbers={"nodes": 0})
    matching = " that match its selector" if miss.shape.selector else ""
    message = f"none of the {count} nodes{matching} is ready: they are silent or cordoned"
    return Reason(code="NO_READY_NODES", message=message, numbers={"nodes": count})


FILTER = Filter(passes, explain)
