"""Spot nodes may be taken away at any time: only for jobs that may be. In force whenever a pool is spot."""

import numpy as np

from ares.core.schedule.columns import Bools
from ares.core.schedule.filters.filter import Filter, Miss, of_nodes
from ares.core.schedule.reasons import Reason
from ares.core.schedule.rows import Rows


def passes(rows: Rows) -> Bools | None:
    return rows.table.spot[rows.at] == 0 if rows.ask.firm else None


def explain(miss: Miss) -> Reason:
    count = len(miss.reached)
    _, first = np.unique(miss.seen.table.pool[miss.reached], return_index=True)
    pools = sorted(miss.record(int(row)).info.pool for row in miss.reached[first])
    which = "the one node is" if count == 1 else f"all {count:,} nodes are"
    message = (
        f"may not be taken away, by its preemption, effects or restart; {which} in spot pools ({', '.join(pools)}), "
        "which may be at any time"
    )
    return Reason(code="SPOT_ONLY", message=message, numbers={"nodes": count})


FILTER = Filter(passes, of_nodes(explain), ("node joins", "node changes", "profile changes"))
