"""When a waiting job could start, as far as those who hold its place say how long they run."""

import numpy as np

from ares.core.queue.waiting import ClassKey
from ares.core.schedule.ask import Ask
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.holding import Holding
from ares.core.schedule.round import Round
from ares.core.schedule.transaction import taken_by
from ares.model.base import Record

# Nodes looked at, those that come nearest first.
_NODES_MAX = 16


class Eta(Record, frozen=True):
    """Seconds since the epoch. Without `latest` nobody can say; `basis` says what it rests on."""

    earliest: float
    latest: float | None
    basis: str
    computed_at: float


def start_estimate(round_: Round, key: ClassKey, ask: Ask, position: int) -> Eta:
    """Assumes that nobody who comes later takes the place; whoever is ahead may."""
    now, cluster = round_.now, round_.cluster
    gate = round_.gate(key, ask)
    if gate is not None:
        return Eta(earliest=now, latest=None, basis=gate.message + _queue(position), computed_at=now)
    checkpoint = round_.txn.checkpoint()
    found = round_.place(ask)
    round_.txn.rollback(checkpoint)
    if found is not None:
        return Eta(earliest=now, latest=now + 2.0, basis="it fits now", computed_at=now)
    rows = round_.rows_held_back(ask)
    stages = round_.evaluations.of(ask).stage[rows]
    nearest = rows[np.argsort(-stages.astype(np.int64), kind="stable")][:_NODES_MAX]
    ends = _ends(cluster, [int(row) for row in nearest])
    known = sorted({at for _, at in ends if at is not None and at > now})
    for at in known:
        checkpoint = round_.txn.checkpoint()
        for holding, end in ends:
            if end is not None and end <= at:
                _give_back(round_, holding)
        found = round_.place(ask)
        round_.txn.rollback(checkpoint)
        if found is not None:
            gone = sum(end is not None and end <= at for _, end in ends)
            who = "1 job that holds its place ends" if gone == 1 else f"{gone} jobs that hold its place end"
            basis = f"{who} by then, by the run times given"
            latest = None if position else at
            return Eta(earliest=at, latest=latest, basis=basis + _queue(position), computed_at=now)
    silent = sum(end is None for _, end in ends)
    basis = f"{silent} of {len(ends)} jobs that hold its place do not say how long they run"
    if not silent:
        basis = "no job that ends makes room for it"
    return Eta(earliest=now, latest=None, basis=basis + _queue(position), computed_at=now)


def _queue(position: int) -> str:
    return f"; {position} ahead of it in the queue may take the place" if position else ""


def _ends(cluster: Cluster, rows: list[int]) -> list[tuple[Holding, float | None]]:
    names = [record.info.name for row in rows if (record := cluster.table.records[row]) is not None]
    jobs = dict.fromkeys(job for name in names for job in cluster.on_node.get(name, ()))
    return [(cluster.holdings[job], cluster.holdings[job].ends_at) for job in jobs]


def _give_back(round_: Round, holding: Holding) -> None:
    for place in holding.placements:
        row = round_.cluster.rows.get(place.node)
        if row is not None:
            round_.txn.give(taken_by(round_.cluster.table, row, place))
