"""Evenness: CPU, memory and GPUs of a node should run out together, or the rest of one is stranded."""

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.node_slice import ClusterFacts, NodeSlice
from ares.core.capacity.node_table import Floats, NodeTable
from ares.core.capacity.rule import SingleRow


def score(rows: NodeSlice) -> Floats:
    """1 when the same share of everything would be left, 0 at the widest gap."""
    cpu, memory, gpus = rows.shares_left
    # What a node does not have cannot be stranded.
    gpus = np.where(rows.gpu_count > 0, gpus, cpu)
    most = np.maximum(np.maximum(cpu, memory), gpus)
    least = np.minimum(np.minimum(cpu, memory), gpus)
    return 1.0 - (most - least)


def of_row(_table: NodeTable, _facts: ClusterFacts, _ask: Ask, seen: SingleRow) -> float:
    cpu, memory = seen.cpu_left, seen.memory_left
    gpus = seen.gpus_left if seen.gpu_count > 0 else cpu
    return 1.0 - (max(cpu, memory, gpus) - min(cpu, memory, gpus))
