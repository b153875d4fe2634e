"""Nodes whose agent is alive and that are not cordoned."""

from ares.core.schedule.columns import Bools
from ares.core.schedule.filters.filter import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import none_of
from ares.core.schedule.reasons import Reason
from ares.core.schedule.rows import Rows


def passes(rows: Rows) -> Bools:
    return rows.healthy


def explain(miss: Miss) -> Reason:
    cordoned = sum(miss.record(int(row)).cordoned for row in miss.reached)
    count = len(miss.reached)
    message = f"{none_of(miss, ' that could take it')} is ready: {cordoned} cordoned, {count - cordoned} silent"
    return Reason(code="NO_READY_NODES", message=message, numbers={"nodes": count, "cordoned": cordoned})


FILTER = Filter(passes, of_nodes(explain), ("node ready", "node joins", "node changes"))
