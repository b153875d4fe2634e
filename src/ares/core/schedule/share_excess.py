"""How far each account is beyond its soft limit, once everything that was decided has come about.

By then a job on its way out holds nothing, and room that is kept for a job is that job's. Without this, an account
would take back its own share again for every waiting job, until the first of them has started.
"""

from collections.abc import Iterator

from ares.core.ask import Ask
from ares.core.capacity.holding import held_by
from ares.core.queue.drf import RESOURCES, Amounts
from ares.core.queue.tree import levels
from ares.core.schedule.trial import Trial
from ares.model.profile import ShareResource


def standing(trial: Trial, ask: Ask) -> dict[str, int]:
    """Use minus soft limit of every account that has one, in GPUs or, for jobs without any, in CPUs."""
    resource: ShareResource = "gpu" if ask.gpus else "cpu"
    at = RESOURCES.index(resource)
    found = {
        path: trial.shares.held(path)[at] - share.soft[resource]
        for path, share in trial.profile.shares.items()
        if resource in share.soft
    }
    for sign, account, held in _to_come(trial) if found else ():
        for path in levels(account):
            if path in found:
                found[path] += sign * held[at]
    return found


def _to_come(trial: Trial) -> Iterator[tuple[int, str, Amounts]]:
    """What accounts will get and lose, besides what was placed in this cycle: the shares have that already."""
    cluster = trial.cluster
    for job in cluster.leaving:
        holding = cluster.holdings[job]
        yield -1, holding.account, holding.held
        # The ranks that a shrinking gang keeps.
        yield +1, holding.account, held_by(holding.ranks)
    done = {placed.job for placed in trial.placed}.union(trial.unheld) if cluster.reserved else set[str]()
    for job, kept in cluster.reserved.items():
        if job not in done and (account := _account(trial, job)):
            yield +1, account, held_by(kept.placements)
    ranks = {resized.job: resized.placements for resized in trial.resized}
    for eviction in trial.evictions:
        if account := _account(trial, eviction.job):
            yield +1, account, held_by(eviction.hold)
        for job in eviction.victims:
            yield -1, cluster.holdings[job].account, cluster.holdings[job].held
        for job in eviction.shrunk:
            holding = cluster.holdings[job]
            yield -1, holding.account, holding.held
            yield +1, holding.account, held_by(ranks[job])


def _account(trial: Trial, job: str) -> str | None:
    """The account of a waiting job, or of a running job that is to be moved."""
    running, job_class = trial.cluster.holdings.get(job), trial.waiting.class_of(job)
    if running is not None:
        return running.account
    return None if job_class is None else job_class.key.account
