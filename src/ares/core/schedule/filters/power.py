"""Nodes of pools that may draw as much more as the job would. In force whenever a pool has a cap, in every profile."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.power import UNLIMITED, needed
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.energy import MICRO


def passes(rows: NodeSlice) -> Bools | None:
    power = rows.table.power
    if power is None or power.paused:
        return None
    return needed(rows) <= power.left_on(rows.table.pool[rows.at], emptied=rows.emptied)


def explain(miss: Miss) -> Reason:
    return _too_thirsty(miss, 1)


def gang_too_thirsty(miss: Miss) -> Reason:
    """For a gang that would fit but for the caps: what its ranks need together, in the pool that comes nearest."""
    return _too_thirsty(miss, miss.seen.ask.min_ranks)


def _too_thirsty(miss: Miss, ranks: int) -> Reason:
    here = miss.near
    power, pools = here.table.power, here.table.pool[here.at]
    assert power is not None, "refused by a cap"
    need, lefts = ranks * needed(here), power.left_on(pools, emptied=miss.ever)
    # Some rows of a gang may be in pools without a cap: these rows are not what is in the way.
    at = int(np.where(np.isin(pools, power.capped), lefts - need, -UNLIMITED).argmax())
    pool = miss.record(int(miss.reached[at])).info.pool
    cap, left = power.cap(pool), int(lefts[at])
    # Up and down, so that what is asked for is never what is left.
    asked, free, total = -(-int(need[at]) // MICRO), max(0, left // MICRO), cap // MICRO
    numbers = {"asked": asked, "free": free, "total": total, "nodes": len(miss.reached)}
    needs = f"needs {asked:,} W" + (f" for {ranks:,} ranks at once" if ranks > 1 else "")
    used = f"{(cap - left) / MICRO:,.0f}"
    if miss.ever:
        idle = f", of which {used} W go to idle GPUs" if left < cap else ""
        message = f"{needs}; pool {pool} may never draw more than {total:,} W{idle}"
        return Reason(code="INFEASIBLE_POWER", message=message, numbers=numbers)
    message = f"{needs}; pool {pool} draws {used} of the {total:,} W it may"
    return Reason(code="POWER_CAP", message=message, numbers=numbers)


FILTER = Filter(passes, of_nodes(explain), ("job ends", "node changes", "profile changes"))
