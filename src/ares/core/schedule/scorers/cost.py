"""Price: where the job costs less until it is done is better. With the discount of spot pools."""

from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Floats
from ares.core.schedule.scorers.speed import share_of_longest

_MIB_PER_GIB = 1024


def score(rows: NodeSlice) -> Floats | None:
    """1 where it costs nothing, 0 for the longest run where everything is as dear as anywhere. None without prices."""
    ask, facts = rows.ask, rows.facts
    gpus, cpus, memory = ask.gpus_milli / 1000, ask.cpu_milli / 1000, ask.memory_mib / _MIB_PER_GIB
    dearest = gpus * facts.gpu_hour_max + cpus * facts.cpu_hour_max + memory * facts.memory_gib_hour_max
    if dearest <= 0.0:
        return None
    price = gpus * rows.gpu_hour + cpus * rows.cpu_hour + memory * rows.memory_gib_hour
    return 1.0 - price * share_of_longest(rows) / dearest
