"""Spot nodes may be taken away at any time: only for jobs that may be. In force whenever a pool is spot."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes


def passes(rows: NodeSlice) -> Bools | None:
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


FILTER = Filter(passes, of_nodes(explain), ("node joins", "node changes", "profile changes"), lasting=True)
