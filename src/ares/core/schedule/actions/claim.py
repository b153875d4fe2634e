"""Claim: jobs that others made room for get it as soon as it is there."""

from ares.core.schedule.cluster import Cluster, Reserved
from ares.core.schedule.round import Found, Round
from ares.core.schedule.transaction import Taken, taken_by
from ares.model.state import Placement


def claim(round_: Round) -> None:
    cluster = round_.cluster
    for job, kept in sorted(cluster.reserved.items()):
        job_class = cluster.waiting.class_of(job)
        if job_class is None or round_.full:
            continue
        taken = _taken(cluster, kept.placements)
        checkpoint = round_.txn.checkpoint()
        for one in taken or ():
            round_.txn.give(one)
        if taken is not None and _fits(round_, kept.placements, taken):
            for one in taken:
                round_.txn.take(one)
            round_.note_placed(job, job_class.key, job_class.id, Found(taken, kept.alternative))
            continue
        round_.txn.rollback(checkpoint)
        if taken is None or not _awaited(cluster, kept):
            round_.unheld.append(job)


def _taken(cluster: Cluster, placements: tuple[Placement, ...]) -> list[Taken] | None:
    """What is kept, by row; None when a node of it is gone."""
    rows = [cluster.rows.get(place.node) for place in placements]
    if None in rows:
        return None
    return [taken_by(cluster.table, row, place) for row, place in zip(rows, placements, strict=True) if row is not None]


def _fits(round_: Round, placements: tuple[Placement, ...], taken: list[Taken]) -> bool:
    """Whether nobody else is left on it, and the nodes are those that it was kept on."""
    table, txn = round_.cluster.table, round_.txn
    checkpoint, fits = txn.checkpoint(), True
    for place, one in zip(placements, taken, strict=True):
        record = table.records[one.row]
        same = record is not None and record.incarnation == place.incarnation and bool(table.healthy[one.row])
        free = all(table.gpu_left[one.row, gpu] >= one.gpu_milli for gpu in one.gpus)
        clear = all(not table.devices_taken[kind][one.row] & bits for kind, bits in one.devices)
        txn.take(one)
        enough = table.cpu_free[one.row] >= 0 and table.memory_free[one.row] >= 0
        fits = fits and same and free and clear and bool(enough)
    txn.rollback(checkpoint)
    return fits


def _awaited(cluster: Cluster, kept: Reserved) -> bool:
    """Whether somebody is still on the way out."""
    return any((one := cluster.holdings.get(job)) is not None and one.leaving for job in kept.evicting)
