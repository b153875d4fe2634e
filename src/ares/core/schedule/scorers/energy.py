"""Power: GPUs that draw less are better."""

from ares.core.schedule.columns import Floats
from ares.core.schedule.rows import Rows


def score(rows: Rows) -> Floats | None:
    """1 for no power at all, 0 for the thirstiest pool. None without GPUs, or when no pool says what it draws."""
    thirstiest = rows.facts.gpu_watts_max
    if not rows.ask.gpus or thirstiest <= 0.0:
        return None
    return 1.0 - rows.gpu_watts / thirstiest
