"""Nodes with enough GPUs of the kind asked for left, in one NVLink domain if the job requires it."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.gpu_sets import most_in_domain, one_domain
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools, Ints
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import counted, gpus, too_little
from ares.core.topology.subset import largest_in_domain

_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def passes(rows: NodeSlice) -> Bools | None:
    ask = rows.ask
    if not ask.gpus:
        return None
    # A domain has no more free than the node, so this alone answers both questions.
    return (most_in_domain(rows, rows.gpu_fit_mask) if one_domain(ask) else rows.gpus_free) >= ask.gpus


def explain(miss: Miss) -> Reason:
    seen, ask = miss.seen, miss.seen.ask
    if one_domain(ask) and (seen.gpus_free[miss.reached] >= ask.gpus).any():
        return _apart(miss)
    if ask.gpu_milli < 1000 and not miss.ever and not seen.gpus_free[miss.reached].any():
        return _crumbs(miss)
    codes = ("INFEASIBLE_GPU", "INSUFFICIENT_GPU")
    return too_little(miss, codes, gpus(ask), ask.gpus, (seen.gpus_free, seen.gpus))


def _apart(miss: Miss) -> Reason:
    """Enough on some node, but not joined."""
    here, ask = miss.near, miss.seen.ask
    most = most_in_domain(here, here.gpu_fit_mask)
    # Among nodes with enough GPUs, the one with the most of them together.
    at = int(np.where(here.gpus_free >= ask.gpus, most, -1).argmax())
    free = int(here.gpus_free[at])
    sizes = largest_in_domain(here.table.machines[int(here.machine[at])], int(here.gpu_fit_mask[at]))
    which = "largest that could take it" if miss.ever else "nearest"
    has = f"{free}{'' if miss.ever else ' free'}"
    if max(sizes) == 1:
        has = f"{has}, none of them joined by NVLink"
    else:
        count = _COUNTS[len(sizes)] if len(sizes) < len(_COUNTS) else str(len(sizes))
        has = f"{has} = {' + '.join(map(str, sizes))} in {count} domains"
    message = f"needs {gpus(ask)} in one NVLink domain; the {which}, {miss.name(int(miss.reached[at]))}, has {has}"
    code = "INFEASIBLE_TOPOLOGY" if miss.ever else "INSUFFICIENT_TOPOLOGY"
    # `free` is what can be had together: with all of it, asked could be less than free.
    numbers = {"asked": ask.gpus, "free": int(most[at]), "total": free, "nodes": len(miss.reached)}
    return Reason(code=code, message=message, numbers=numbers)


def _crumbs(miss: Miss) -> Reason:
    """No GPU has the share left: how much of one there is says more than that none is free."""
    seen, ask = miss.seen, miss.seen.ask
    left: Ints = np.where(seen.gpu_answers, seen.gpu_left, 0).max(axis=1)
    best = miss.nearest(left)
    message = (
        f"needs {gpus(ask)} on one node; the nearest, {miss.name(best)}, "
        f"has {left[best] / 10:g} % left on the emptiest of {counted(int(seen.gpus[best]), 'GPU')}"
    )
    numbers = {"asked": ask.gpus, "free": 0, "total": int(seen.gpus[best]), "nodes": len(miss.reached)}
    numbers["left_milli"] = int(left[best])
    return Reason(code="INSUFFICIENT_GPU", message=message, numbers=numbers)


FILTER = Filter(passes, of_nodes(explain), ("job ends", "node joins", "node changes"))
