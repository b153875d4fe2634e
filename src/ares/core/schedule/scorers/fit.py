"""Bin packing: the fuller a node would be, the better, so that whole nodes stay free for large jobs."""

from ares.core.ask import Ask
from ares.core.capacity.node_slice import ClusterFacts, NodeSlice
from ares.core.capacity.node_table import Floats, NodeTable
from ares.core.capacity.rule import SingleRow


def score(rows: NodeSlice) -> Floats:
    """Mean of the used shares after placing one rank, in 0..1. Idle GPUs keep jobs without GPUs away."""
    cpu, memory, gpus = rows.shares_left
    return 1.0 - (cpu + memory + gpus) / 3.0


def of_row(_table: NodeTable, _facts: ClusterFacts, _ask: Ask, seen: SingleRow) -> float:
    return 1.0 - (seen.cpu_left + seen.memory_left + seen.gpus_left) / 3.0
