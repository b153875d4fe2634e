"""Evenness: CPU, memory and GPUs of a node should run out together, or the rest of one is stranded."""

import numpy as np

from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Floats


def score(rows: NodeSlice) -> Floats:
    """1 when the same share of everything would be left, 0 at the widest gap."""
    cpu, memory, gpus = rows.shares_left
    # What a node does not have cannot be stranded.
    gpus = np.where(rows.gpu_count > 0, gpus, cpu)
    most = np.maximum(np.maximum(cpu, memory), gpus)
    least = np.minimum(np.minimum(cpu, memory), gpus)
    return 1.0 - (most - least)
