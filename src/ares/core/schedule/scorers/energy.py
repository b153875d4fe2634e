"""Energy: GPUs on which the job takes less of it are better. A thirstier one that is done sooner may take less."""

from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Floats
from ares.core.schedule.scorers.speed import share_of_longest


def score(rows: NodeSlice) -> Floats | None:
    """1 for no energy at all, 0 for the longest run on the thirstiest GPU there is. None without GPUs."""
    thirstiest = rows.facts.gpu_watts_max
    if not rows.ask.gpus or thirstiest <= 0.0:
        return None
    return 1.0 - rows.gpu_watts * share_of_longest(rows) / thirstiest
