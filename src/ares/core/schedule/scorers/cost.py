"""Price: the cheaper the pool, the better."""

from ares.core.schedule.columns import Floats
from ares.core.schedule.rows import Rows


def score(rows: Rows) -> Floats | None:
    """1 where it costs nothing, 0 where everything costs as much as anywhere. None when nothing has a price."""
    ask, facts = rows.ask, rows.facts
    dearest = ask.gpus_milli * facts.gpu_hour_max + ask.cpu_milli * facts.cpu_hour_max
    if dearest <= 0.0:
        return None
    return 1.0 - (ask.gpus_milli * rows.gpu_hour + ask.cpu_milli * rows.cpu_hour) / dearest
