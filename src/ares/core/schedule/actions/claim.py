"""Claim: a job that victims made room for starts there as soon as they are gone."""

from ares.core.ask import Ask
from ares.core.capacity.capacity import Reserved
from ares.core.capacity.transaction import Allocation, taken_by
from ares.core.queue.waiting import JobClass
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.considered import Considered, consider
from ares.core.schedule.trial import Assignment, Trial


def claim(trial: Trial) -> None:
    """Kept room counts as taken already, so nothing changes on the columns."""
    cluster = trial.cluster
    for job, kept in sorted(cluster.reserved.items()):
        job_class = cluster.waiting.class_of(job)
        if job_class is None or trial.full:
            continue
        if _free(trial, job_class, kept):
            rows = [(cluster.rows[place.node], place) for place in kept.placements]
            taken = [taken_by(cluster.table, row, place) for row, place in rows]
            considered = _considered(trial, job_class.key.asks[kept.alternative], taken)
            trial.note_placed(job, job_class.key, job_class.id, Assignment(taken, kept.alternative, considered))
        elif not _awaited(cluster, kept):
            trial.unheld.append(job)


def _considered(trial: Trial, ask: Ask, taken: list[Allocation]) -> Considered | None:
    """The decision as it would be now, with the kept room free."""
    if len(trial.considered) >= trial.keep:
        return None
    checkpoint = trial.txn.checkpoint()
    for allocation in taken:
        trial.txn.give(allocation)
    found = consider(trial.evaluations, ask)
    trial.txn.rollback(checkpoint)
    return found


def _free(trial: Trial, job_class: JobClass, kept: Reserved) -> bool:
    """Whether no other job is left on the room, and no limit was reached meanwhile."""
    key, ranks = job_class.key, len(kept.placements)
    ask = key.asks[kept.alternative]
    alone = all(trial.cluster.is_alone(place, ask.qos) for place in kept.placements)
    return alone and trial.gate(key, ask, ranks) is None


def _awaited(cluster: Cluster, kept: Reserved) -> bool:
    """Whether a victim is still on its way out, of a place that is still there.

    What is left on a dead node is taken away by the monitor; after that no victim is on its way out there."""
    there = all(cluster.may_be_there(place) for place in kept.placements)
    leaving = ((holding := cluster.holdings.get(job)) is not None and holding.leaving for job in kept.evicting)
    return there and any(leaving)
