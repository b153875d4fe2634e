"""Bin packing: the fuller a node would be, the better, so that whole nodes stay free for large jobs."""

from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Floats


def score(rows: NodeSlice) -> Floats:
    """Mean of the used shares after placing one rank, in 0..1. Idle GPUs keep jobs without GPUs away."""
    cpu, memory, gpus = rows.shares_left
    return 1.0 - (cpu + memory + gpus) / 3.0
