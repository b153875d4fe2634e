"""Nodes that have enough devices of every kind asked for at all, whatever is free of them."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import counted


def passes(rows: NodeSlice) -> Bools | None:
    wanted = rows.ask.devices
    return np.logical_and.reduce([rows.devices(kind) >= count for kind, count in wanted]) if wanted else None


def explain(miss: Miss) -> Reason:
    wanted = miss.seen.ask.devices
    lacking = [np.maximum(count - miss.seen.devices(kind), 0) for kind, count in wanted]
    best = miss.nearest(-np.sum(lacking, axis=0))
    kind, asked = next(want for want, lack in zip(wanted, lacking, strict=True) if lack[best])
    total = int(miss.seen.devices(kind)[best])
    numbers = {"asked": asked, "total": total, "nodes": len(miss.reached)}
    if miss.seen.devices(kind)[miss.reached].any():
        has = f"the nearest that could take it, {miss.name(best)}, has {total}"
    else:
        has = "no node that could take it declares any"
    message = f"needs {counted(asked, f'{kind} device')} on one node; {has}"
    return Reason(code="INFEASIBLE_DEVICE", message=message, numbers=numbers)


FILTER = Filter(passes, of_nodes(explain), ("node joins", "node changes"), lasting=True)
