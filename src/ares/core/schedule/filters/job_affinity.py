"""Nodes near to the jobs that a job must be near to, and away from the jobs that it must be away from."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.ask import Near
from ares.core.capacity.affinity import keeps
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import counted, none_of, pairs


def passes(rows: NodeSlice) -> Bools | None:
    # Which jobs run where will change: it is no reason why a job could never start.
    required = [] if rows.emptied else _required(rows)
    return np.logical_and.reduce([keeps(rows, near) for near in required]) if required else None


def _required(rows: NodeSlice) -> list[Near]:
    return [near for near in rows.ask.near if near.required]


def explain(miss: Miss) -> Reason:
    required = _required(miss.seen)
    here = miss.near
    kept = [keeps(here, near) for near in required]
    # Terms that no node keeps are to blame; if each is kept somewhere, it is all of them together.
    broken = [near for near, rows in zip(required, kept, strict=True) if not rows.any()] or required
    message = "; ".join(_text(miss, near) for near in broken)
    if len(broken) > 1:
        message = f"{message}; {none_of(miss, ' that could take it')} is right for all of these"
    return Reason(code="JOB_AFFINITY_UNMET", message=message, numbers={"nodes": len(miss.reached)})


def _text(miss: Miss, near: Near) -> str:
    jobs = f"jobs that carry {pairs(near.labels)}"
    rows = sorted(set(miss.seen.matching.rows(near, miss.seen.ask.tenant)))
    if near.theirs:
        where = f" (on {_names(miss, rows)})" if rows else ""
        return f"carries {pairs(near.labels)}, and jobs{where} must not share a {near.level} with jobs that do"
    if not rows:
        return f"must share a {near.level} with {jobs}, and no running job of its tenant carries these labels"
    if near.away:
        return f"must not share a {near.level} with {jobs}, which run on {_names(miss, rows)}"
    return f"must share a {near.level} with {jobs}, which run on {_names(miss, rows)} only"


def _names(miss: Miss, rows: list[int]) -> str:
    """The first, and how many more."""
    more = f" and {counted(len(rows) - 1, 'other node')}" if len(rows) > 1 else ""
    return f"{miss.name(rows[0])}{more}"


FILTER = Filter(passes, of_nodes(explain), ("job starts", "job ends", "node joins", "node changes"), across=True)
