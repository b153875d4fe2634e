"""What would be left of each node, as shares of what it has."""

import numpy as np

from ares.core.schedule.columns import WHOLE, Floats
from ares.core.schedule.rows import Rows


def shares_left(rows: Rows) -> tuple[Floats, Floats, Floats]:
    """Of CPU, memory and GPUs after one rank was placed. Without GPUs: as if all were in use."""
    ask = rows.ask
    cpu = (rows.cpu_free - ask.cpu_milli) / rows.cpu
    memory = (rows.memory_free - ask.memory_mib) / rows.memory
    return cpu, memory, (rows.gpu_idle_milli - ask.gpus_milli) / (WHOLE * np.maximum(rows.gpu_count, 1))
