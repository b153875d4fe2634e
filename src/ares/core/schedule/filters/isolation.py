"""Nodes that keep a job apart as well as it or its tenant asks for. In force under every profile."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.model.isolation import LEVELS


def passes(rows: NodeSlice) -> Bools | None:
    ask = rows.ask
    if not (ask.isolation or ask.offline or ask.image):
        return None
    well: Bools = rows.table.isolation[rows.at] >= ask.isolation
    if ask.offline:
        well = well & (rows.table.netless[rows.at] > 0)
    return well & (rows.table.images[rows.at] > 0) if ask.image else well


def explain(miss: Miss) -> Reason:
    ask, table, count = miss.seen.ask, miss.seen.table, len(miss.reached)
    weak = int(np.count_nonzero(table.isolation[miss.reached] < ask.isolation))
    numbers = {"asked": ask.isolation, "nodes": count, "weaker": weak}
    if not weak and ask.image and not table.images[miss.reached].any():
        message = f"{_all(count)} cannot run container images"
    elif not weak:
        message = f"{_all(count)} cannot give a job a network of its own, which network: none needs"
        message += ", or cannot run container images" if ask.image else ""
    else:
        best = miss.nearest(table.isolation)
        offers = miss.record(best).info.isolation_level
        which = _all(count) if weak == count else f"{weak:,} of {count:,} nodes"
        message = f"{which} offer{'s' if count == 1 else ''} less than isolation '{LEVELS[ask.isolation]}'"
        message += f"; the best, {miss.name(best)}, offers '{offers}'" if weak == count else ", the others no network"
    return Reason(code="ISOLATION_UNMET", message=message, numbers=numbers)


def _all(count: int) -> str:
    return "the one node" if count == 1 else f"all {count:,} nodes"


FILTER = Filter(passes, of_nodes(explain), ("node joins", "node changes"), lasting=True)
