"""Bin packing: the fuller a node would be, the better, so that whole nodes stay free for large jobs."""

from ares.core.schedule.columns import Floats
from ares.core.schedule.rows import Rows


def score(rows: Rows) -> Floats:
    """Mean of the used shares after placing one rank, in 0..1. Idle GPUs keep jobs without GPUs away."""
    cpu, memory, gpus = rows.shares_left
    return 1.0 - (cpu + memory + gpus) / 3.0
