"""The room of promised gangs: a promise holds so much of it at a time, and not particular nodes."""

from math import inf

from msgspec.structs import replace

from ares.core.capacity.claims import Claim
from ares.core.schedule.slot import same_time
from ares.core.schedule.trial import Trial


def choose_again(trial: Trial) -> None:
    """After something was placed: gangs that were promised a start have it at the same time, on the nodes that come
    free last. Where a short job went to an idle node, that is one of them now, and another idle one is not."""
    if trial.cluster.table.used == 1:
        return
    for job, promise in trial.promises.items():
        found = trial.waiting.class_of(job)
        claim = trial.claims.of.get(job)
        if found is None or claim is None or promise.held_from is not None or promise.start <= trial.now:
            continue
        (ask, *others) = found.key.asks
        if others or ask.ranks == 1 or ask.near:
            continue
        trial.claims.drop(job)
        until = inf if promise.until is None else promise.until
        taken = same_time(trial.cluster, trial.txn, trial.claims, ask, promise.start, until, trial.now)
        if taken is None:
            trial.claims.add(claim)
            continue
        trial.claims.add(Claim(job, promise.start, until, taken))
        trial.promises[job] = replace(promise, placements=trial.placements(taken))
