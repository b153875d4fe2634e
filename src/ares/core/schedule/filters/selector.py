"""Nodes that carry every label the job selects by."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import none_of, pairs


def passes(rows: NodeSlice) -> Bools | None:
    return np.logical_and.reduce(_carried(rows)) if rows.ask.selector else None


def _carried(rows: NodeSlice) -> list[Bools]:
    return [rows.label_is(key, value) for key, value in rows.ask.selector]


def explain(miss: Miss) -> Reason:
    carried, selector = _carried(miss.seen), miss.seen.ask.selector
    message = f"{none_of(miss)} has the labels {pairs(selector)}"
    if len(selector) > 1:
        best = miss.nearest(np.sum(carried, axis=0))
        lacking = tuple(label for label, has in zip(selector, carried, strict=True) if not has[best])
        message = f"{message}; the nearest, {miss.name(best)}, lacks {pairs(lacking)}"
    return Reason(code="SELECTOR_MISMATCH", message=message, numbers={"nodes": len(miss.reached)})


FILTER = Filter(passes, of_nodes(explain), ("node joins", "node changes"), lasting=True)
