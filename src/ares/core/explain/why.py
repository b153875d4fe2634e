"""Why a job waits, from what the cycle itself computed: the filter that refused each node.

The funnel counts nodes left after every filter; the nearest misses are the nodes that came furthest.
"""

from typing import NamedTuple

import numpy as np

from ares.api.decisions import AskExplained, NearMiss, Step
from ares.api.reasons import Reason
from ares.core.ask import Ask
from ares.core.capacity.fit import Evaluations, room
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Ints
from ares.core.capacity.rule import Miss
from ares.core.capacity.transaction import Transaction
from ares.core.queue.waiting import ClassKey
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.filters.power import gang_too_thirsty
from ares.core.schedule.gang import below_caps, by_domain, free_by_domain, place_gang, widest_allowed
from ares.core.schedule.trial import Trial

_NEAREST = 5
_NO_NODES = Reason(code="NO_NODES", message="no node is registered", numbers={"nodes": 0})


class _Stages(NamedTuple):
    """The filter that refuses each row, and the rows that are nodes."""

    stage: Ints
    rows: Ints


def reason(cluster: Cluster, key: ClassKey, ask: Ask, now: float) -> Reason | None:
    """Why the ask has no place, for good if not even empty nodes would do, else for now; None when it has one."""
    cluster.prepare()
    gate = Trial.what_if(cluster, now).gate(key, ask)
    never = _never(cluster.evaluations, ask)
    if never is not None or gate is not None:
        return never or gate
    return _not_now(cluster.evaluations, ask)


def why_waiting(cluster: Cluster, key: ClassKey, now: float) -> Reason | None:
    """Why the job waits: of its alternatives the first that could ever run speaks; None when one has a place now."""
    reasons = [reason(cluster, key, ask, now) for ask in key.asks]
    if None in reasons:
        return None
    return next((why for why in reasons if why is not None and why.remedy != "yours"), reasons[0])


def infeasible(cluster: Cluster, key: ClassKey, now: float) -> Reason | None:
    """Why no alternative of the job could run even if everything were free and ready: the reason of the first."""
    cluster.prepare()
    # Only licences and limits stand in the way of a job besides nodes: without them there is nothing to try.
    trial = Trial.what_if(cluster, now) if key.licences or cluster.profile.shares else None
    found: list[Reason] = []
    for ask in key.asks:
        never = _never(cluster.evaluations, ask)
        if never is None and trial is not None and (gate := trial.gate(key, ask)) is not None:
            never = gate if gate.code.startswith("INFEASIBLE") else None
        if never is None:
            return None
        found.append(never)
    return found[0]


def explain_ask(cluster: Cluster, key: ClassKey, ask: Ask, now: float) -> AskExplained:
    why = reason(cluster, key, ask, now)
    evaluations = cluster.evaluations
    stages = _stages_now(evaluations, ask)
    names = [name for name, _ in evaluations.rules.filters]
    funnel = [Step(filter="nodes", nodes=len(stages.rows))]
    for number, name in enumerate(names):
        funnel.append(Step(filter=name, nodes=int(np.count_nonzero(stages.stage > number))))
    if why is None:
        return AskExplained(reason=None, funnel=tuple(funnel))
    nearest = _nearest(evaluations, ask, stages)
    wakes = dict.fromkeys(wake for miss in nearest for wake in _wakes(evaluations, miss.refused_by))
    return AskExplained(reason=why, funnel=tuple(funnel), nearest=nearest, wakes=tuple(wakes))


def _wakes(evaluations: Evaluations, name: str) -> tuple[str, ...]:
    return next((filter_.wakes for filter_name, filter_ in evaluations.rules.filters if filter_name == name), ())


def _stages_now(evaluations: Evaluations, ask: Ask) -> _Stages:
    rows = np.flatnonzero(evaluations.table.exists)
    return _Stages(evaluations.stage(ask)[rows].astype(np.int64), rows)


def _never(evaluations: Evaluations, ask: Ask) -> Reason | None:
    """Why not even empty, ready nodes would be enough."""
    if not evaluations.table.used or not evaluations.table.exists.any():
        return _NO_NODES
    if ask.ranks == 1 and not ask.near and evaluations.ever(ask):
        return None
    rows = np.flatnonzero(evaluations.table.exists)
    seen = evaluations.rows(ask, emptied=True)
    stages = _Stages(evaluations.stages(seen)[rows].astype(np.int64), rows)
    missed = _first_miss(evaluations, seen, stages, ever=True)
    if missed is not None or ask.ranks == 1:
        return missed
    passing = rows[stages.stage == len(evaluations.rules.filters)]
    return _gang_never(evaluations, ask, passing)


def _not_now(evaluations: Evaluations, ask: Ask) -> Reason | None:
    stages = _stages_now(evaluations, ask)
    missed = _first_miss(evaluations, evaluations.rows(ask), stages, ever=False)
    if missed is not None or ask.ranks == 1:
        return missed
    return _gang_not_now(evaluations, ask)


def _first_miss(evaluations: Evaluations, seen: NodeSlice, stages: _Stages, *, ever: bool) -> Reason | None:
    """The reason of the last filter that any node reached; None when some node passes them all."""
    filters = evaluations.rules.filters
    if not len(stages.rows):
        return _NO_NODES
    furthest = int(stages.stage.max())
    if furthest == len(filters):
        return None
    reached = stages.rows[stages.stage == furthest]
    return filters[furthest][1].explain(Miss(seen, reached, ever))


def _nearest(evaluations: Evaluations, ask: Ask, stages: _Stages) -> tuple[NearMiss, ...]:
    """The nodes that came furthest, by the last filter's own measure of how much is missing."""
    filters = evaluations.rules.filters
    refused = np.flatnonzero(stages.stage < len(filters))
    seen = evaluations.rows(ask)
    misses: list[tuple[int, int, int, NearMiss]] = []
    # The few that came furthest are enough to be exact about.
    for at in refused[np.argsort(-stages.stage[refused], kind="stable")][: 8 * _NEAREST].tolist():
        row, number = int(stages.rows[at]), int(stages.stage[at])
        name, filter_ = filters[number]
        why = filter_.explain(Miss(seen, np.array([row]), False))
        # Where no node ever has enough, only the total is told.
        lacks = why.numbers.get("asked", 0) - why.numbers.get("free", why.numbers.get("total", 0))
        record = evaluations.table.records[row]
        node = record.info.name if record is not None else ""
        near = NearMiss(node=node, refused_by=name, message=why.message, numbers=why.numbers)
        misses.append((-number, lacks, row, near))
    return tuple(near for *_, near in sorted(misses, key=lambda miss: miss[:3])[:_NEAREST])


def _gang_never(evaluations: Evaluations, ask: Ask, passing: Ints) -> Reason | None:
    fits = room(evaluations.rows(ask, passing, emptied=True))
    level = widest_allowed(ask)
    if ask.level == "nvlink" and ask.level_required:
        level = "node"
    best = _roomiest(evaluations, level, passing, fits)
    if best >= ask.min_ranks:
        capped = below_caps(evaluations, ask, level, passing, fits, emptied=True)
        if _roomiest(evaluations, level, passing, capped) >= ask.min_ranks:
            return None
        return gang_too_thirsty(Miss(evaluations.rows(ask, emptied=True), passing, True))
    return _gang_reason(ask, level, best, int(fits.sum()), ever=True, parts=[])


def _gang_not_now(evaluations: Evaluations, ask: Ask) -> Reason | None:
    txn = Transaction(evaluations)
    placed = place_gang(evaluations, txn, ask)
    txn.rollback(0)
    if placed is not None:
        return None
    found = evaluations.of(ask)
    assert found.room is not None, "a gang's evaluation counts ranks"
    level, total = widest_allowed(ask), int(found.room.sum())
    if ask.level == "nvlink" and ask.level_required:
        level = "node"
    if evaluations.table.power is not None:
        # Rows that only a power cap refuses, and rows that nothing refuses.
        rows = np.flatnonzero((evaluations.stage(ask) >= len(evaluations.rules.filters) - 1) & evaluations.table.exists)
        if _roomiest(evaluations, level, rows, room(evaluations.rows(ask, rows))) >= ask.min_ranks:
            return gang_too_thirsty(Miss(evaluations.rows(ask), rows, False))
    parts = [] if level == "cluster" else free_by_domain(evaluations, found, level)
    best = total if level == "cluster" else max(parts, default=0)
    return _gang_reason(ask, level, min(best, ask.min_ranks - 1), total, ever=False, parts=parts)


def _roomiest(evaluations: Evaluations, level: str, rows: Ints, ranks: Ints) -> int:
    """The ranks of the domain that has most of them."""
    return int(ranks.sum()) if level == "cluster" else max(by_domain(evaluations.table, level, rows, ranks), default=0)


def _gang_reason(ask: Ask, level: str, best: int, total: int, *, ever: bool, parts: list[int]) -> Reason:
    numbers = {"asked": ask.min_ranks, "free": best, "total": total}
    needs = f"needs room for {ask.min_ranks} ranks at once"
    kind = "INFEASIBLE" if ever else "INSUFFICIENT"
    have = "even if all were free there is room for" if ever else "now there is room for"
    if level == "cluster":
        message = f"{needs}; {have} {total}"
        return Reason(code="INFEASIBLE_GANG" if ever else "INSUFFICIENT_GANG", message=message, numbers=numbers)
    more = " + …" if len(parts) > 8 else ""
    split = f" ({total} free = {' + '.join(map(str, parts[:8]))}{more})" if len(parts) > 1 else ""
    where = "NVLink domain" if ask.level == "nvlink" else level
    message = f"{needs} in one {where}; {have} {best} in the roomiest{split}"
    code = "INFEASIBLE_TOPOLOGY" if kind == "INFEASIBLE" else "INSUFFICIENT_TOPOLOGY"
    return Reason(code=code, message=message, numbers=numbers)
