"""Nodes with enough devices of every kind asked for left."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import counted, too_little


def passes(rows: NodeSlice) -> Bools | None:
    wanted = rows.ask.devices
    return np.logical_and.reduce([rows.devices_free(kind) >= count for kind, count in wanted]) if wanted else None


def explain(miss: Miss) -> Reason:
    wanted, seen = miss.seen.ask.devices, miss.seen
    lacking = [np.maximum(count - seen.devices_free(kind), 0) for kind, count in wanted]
    best = miss.nearest(-np.sum(lacking, axis=0))
    kind, asked = next(want for want, lack in zip(wanted, lacking, strict=True) if lack[best])
    columns = (seen.devices_free(kind), seen.devices(kind))
    codes = ("INFEASIBLE_DEVICE", "INSUFFICIENT_DEVICE")
    # The nearest node alone: another may have more of this kind and less of the rest.
    nearest = miss._replace(reached=np.array([best]))
    said = too_little(nearest, codes, counted(asked, f"{kind} device"), asked, columns)
    return Reason(code=said.code, message=said.message, numbers={**said.numbers, "nodes": len(miss.reached)})


FILTER = Filter(passes, of_nodes(explain), ("job ends", "node joins", "node changes"))
