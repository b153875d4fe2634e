"""Nodes whose agent is alive and that are neither cordoned nor drained."""

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import none_of


def passes(rows: NodeSlice) -> Bools:
    return rows.healthy


def explain(miss: Miss) -> Reason:
    records = [miss.record(int(row)) for row in miss.reached]
    drained = sum(bool(record.drained_by) for record in records)
    # Every drained node is cordoned as well.
    cordoned = sum(record.cordoned and not record.drained_by for record in records)
    counts = {"drained": drained, "cordoned": cordoned, "silent": len(records) - drained - cordoned}
    why = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    message = f"{none_of(miss, ' that could take it')} is ready: {why}"
    return Reason(code="NO_READY_NODES", message=message, numbers={"nodes": len(records), **counts})


FILTER = Filter(passes, of_nodes(explain), ("node ready", "node joins", "node changes"))
