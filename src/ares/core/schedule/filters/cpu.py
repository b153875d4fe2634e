"""Nodes with enough CPU left."""

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import cpus, too_little


def passes(rows: NodeSlice) -> Bools:
    return rows.cpu_free >= rows.ask.cpu_milli


def explain(miss: Miss) -> Reason:
    asked, seen = miss.seen.ask.cpu_milli, miss.seen
    codes = ("INFEASIBLE_CPU", "INSUFFICIENT_CPU")
    return too_little(miss, codes, cpus(asked), asked, (seen.cpu_free, seen.cpu), lambda milli: f"{milli / 1000:g}")


FILTER = Filter(passes, of_nodes(explain), ("job ends", "node joins", "node changes", "profile changes"))
