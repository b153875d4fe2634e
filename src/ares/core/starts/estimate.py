"""When a waiting job could start, as far as the jobs in its place say how long they run."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ares.api.decisions import Eta
from ares.api.reasons import Reason
from ares.core.ask import Ask
from ares.core.capacity.holding import Holding
from ares.core.capacity.transaction import taken_by
from ares.core.queue.drf import RESOURCES, Amounts
from ares.core.queue.tree import levels
from ares.core.queue.waiting import ClassKey
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.trial import Trial, asked

# Nodes looked at, the nearest to having room first.
_NODES_MAX = 16


class _Opens(NamedTuple):
    """When the limit or licence in the way is free again, by the end of which jobs, and that in words."""

    at: float
    ended: tuple[Holding, ...]
    words: str


def start_estimate(trial: Trial, key: ClassKey, ask: Ask, position: int) -> Eta:
    """Assumes that no later job takes the place; a job ahead may."""
    now = trial.now
    gate = trial.gate(key, ask)
    opens = _Opens(now, (), "") if gate is None else _opens(trial, key, ask, gate)
    if isinstance(opens, str):
        return Eta(earliest=now, latest=None, basis=opens + _queue(position), computed_at=now)
    if _fits(trial, ask, opens.ended):
        if gate is None:
            return Eta(earliest=now, latest=now + 2.0, basis="it fits now", computed_at=now)
        return _ended(now, opens.at, opens.words, position)
    rows = trial.rows_held_back(ask)
    stages = trial.evaluations.stage(ask)[rows]
    nearest = rows[np.argsort(-stages.astype(np.int64), kind="stable")][:_NODES_MAX]
    ends = _ends(trial.cluster, [int(row) for row in nearest])
    for at in sorted({max(at, opens.at) for _, at in ends if at is not None and at > now}):
        ended = [holding for holding, end in ends if end is not None and end <= at]
        gone = {holding.job: holding for holding in (*opens.ended, *ended)}
        if _fits(trial, ask, list(gone.values())):
            who = "1 job that holds its place ends" if len(ended) == 1 else f"{len(ended)} jobs that hold its place end"
            words = f"{who} by then, by the run times given"
            return _ended(now, at, f"{opens.words}; {words}" if opens.words else words, position)
    silent = sum(end is None for _, end in ends)
    basis = f"{silent} of {len(ends)} jobs that hold its place do not say how long they run"
    if not silent:
        basis = "no job that ends makes room for it"
    if gate is not None:
        basis = f"{gate.message}; {basis}"
    return Eta(earliest=now, latest=None, basis=basis + _queue(position), computed_at=now)


def _ended(now: float, at: float, basis: str, position: int) -> Eta:
    return Eta(earliest=at, latest=None if position else at, basis=basis + _queue(position), computed_at=now)


def _opens(trial: Trial, key: ClassKey, ask: Ask, gate: Reason) -> _Opens | str:
    """When enough jobs that hold its licence or count towards its limit have ended, or why that is not known."""
    if gate.remedy == "yours":
        return gate.message
    holding = [candidate for candidate in trial.cluster.holdings.values() if _counts(trial, key, ask, candidate)]
    said = sorted((candidate.ends_at, candidate.job) for candidate in holding if candidate.ends_at is not None)
    later, ended = Trial(trial.cluster, trial.profile, trial.now), list[Holding]()
    for at, job in said:
        holder = trial.cluster.holdings[job]
        ended.append(holder)
        for name, count in holder.licences:
            later.licences[name] -= count
        later.shares.take(holder.account, Amounts(*(-held for held in holder.held)))
        # A job that should have ended already says nothing about when it does.
        if at > trial.now and later.gate(key, ask) is None:
            who = "1 job ends" if len(ended) == 1 else f"{len(ended)} jobs end"
            return _Opens(at, tuple(ended), f"{gate.message}; {who} by then, by the run times given")
    silent, what = len(holding) - len(said), "licence" if gate.code == "INSUFFICIENT_LICENCE" else "limit"
    if not silent:
        return f"{gate.message}; no job that ends changes that"
    return f"{gate.message}; {silent} of {len(holding)} jobs under that {what} do not say how long they run"


def _counts(trial: Trial, key: ClassKey, ask: Ask, holding: Holding) -> bool:
    """Whether it holds a licence that the job needs, or counts towards a limit of an account above both."""
    if any(name == needed for name, _ in holding.licences for needed, _ in key.licences):
        return True
    shares, wanted = trial.profile.shares, asked(ask, 1)
    return any(
        path in shares and resource in shares[path].hard and held and needed
        for path, same in zip(levels(holding.account), levels(key.account), strict=True)
        if path == same
        for resource, held, needed in zip(RESOURCES, holding.held, wanted, strict=True)
    )


def _fits(trial: Trial, ask: Ask, ended: Sequence[Holding]) -> bool:
    """Whether there is room once these jobs have ended."""
    checkpoint = trial.txn.checkpoint()
    for holding in ended:
        _give_back(trial, holding)
    found = trial.place(ask)
    trial.txn.rollback(checkpoint)
    return found is not None


def _queue(position: int) -> str:
    return f"; {position} ahead of it in the queue may take the place" if position else ""


def _ends(cluster: Cluster, rows: list[int]) -> list[tuple[Holding, float | None]]:
    names = [record.info.name for row in rows if (record := cluster.table.records[row]) is not None]
    jobs = dict.fromkeys(job for name in names for job in cluster.on_node.get(name, ()))
    return [(cluster.holdings[job], cluster.holdings[job].ends_at) for job in jobs]


def _give_back(trial: Trial, holding: Holding) -> None:
    for place in holding.placements:
        row = trial.cluster.rows.get(place.node)
        if row is not None:
            trial.txn.give(taken_by(trial.cluster.table, row, place))
