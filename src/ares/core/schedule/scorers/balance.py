"""Evenness: CPU and memory of a node should run out together, or the rest of one is stranded."""

from ares.core.queue.waiting import Shape
from ares.core.schedule.columns import Column, Nodes


def score(nodes: Nodes, shape: Shape) -> Column:
    """1 when the same share of CPU and of memory would be left, 0 at the widest gap."""
    cpu = (nodes.cpu_milli_free - shape.cpu_milli) / nodes.cpu_milli
    memory = (nodes.memory_mib_free - shape.memory_mib) / nodes.memory_mib
    return 1.0 - abs(cpu - memory)
