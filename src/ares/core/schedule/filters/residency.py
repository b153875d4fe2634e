"""Nodes in a region the job may run in. A node that does not say where it is may be anywhere, so it is refused."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.affinity import among
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import none_of


def passes(rows: NodeSlice) -> Bools | None:
    allowed = [rows.table.domains.known(region) for region in rows.ask.residency]
    return among(rows.region, allowed) if allowed else None


def explain(miss: Miss) -> Reason:
    _, first, counts = np.unique(miss.seen.region[miss.reached], return_index=True, return_counts=True)
    found = [
        f"{miss.record(int(miss.reached[at])).info.region or 'undeclared'} ({count})"
        for at, count in zip(first.tolist(), counts.tolist(), strict=True)
    ]
    allowed = ", ".join(miss.seen.ask.residency)
    message = f"may run only in {allowed}; {none_of(miss)} is there, by region: {', '.join(found)}"
    return Reason(code="RESIDENCY_UNMET", message=message, numbers={"nodes": len(miss.reached)})


FILTER = Filter(passes, of_nodes(explain), ("node joins", "node changes"), lasting=True)
