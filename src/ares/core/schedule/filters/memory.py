"""Nodes with enough memory left."""

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import mib, too_little


def passes(rows: NodeSlice) -> Bools:
    return rows.memory_free >= rows.ask.memory_mib


def explain(miss: Miss) -> Reason:
    asked, seen = miss.seen.ask.memory_mib, miss.seen
    codes = ("INFEASIBLE_MEMORY", "INSUFFICIENT_MEMORY")
    return too_little(miss, codes, f"{mib(asked)} of memory", asked, (seen.memory_free, seen.memory), mib)


FILTER = Filter(passes, of_nodes(explain), ("job ends", "node joins", "node changes", "profile changes"))
