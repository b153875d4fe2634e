"""Bin packing: the fuller a node would be, the better, so that whole nodes stay free for large jobs."""

from ares.core.queue.waiting import Shape
from ares.core.schedule.columns import Column, Nodes


def score(nodes: Nodes, shape: Shape) -> Column:
    """Mean of the used shares after placing the job, in 0..1. Idle GPUs keep jobs without GPUs away."""
    cpu = (nodes.cpu_milli_free - shape.cpu_milli) / nodes.cpu_milli
    memory = (nodes.memory_mib_free - shape.memory_mib) / nodes.memory_mib
    # A node without GPUs counts as one whose GPUs are all in use.
    gpus = (nodes.gpus_free - shape.gpus) / (nodes.gpus + (nodes.gpus == 0))
    return 1.0 - (cpu + memory + gpus) / 3.0
