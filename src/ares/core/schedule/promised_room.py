"""The room of promised jobs: a promise holds so much of it at a time; one that slipped stays where it is."""

from bisect import bisect_left
from math import inf

from msgspec.structs import replace

from ares.api.decisions import Promise
from ares.core.capacity.bookings import claim_of
from ares.core.capacity.claims import Claim
from ares.core.schedule.slot import Slot, same_time
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


def in_its_room(trial: Trial, told: Promise, runs_s: float) -> Slot | None:
    """When the promised room of the job is free. A promise that slipped stays there: room is kept as it comes free.
    A job that moved to wherever jobs are thought to end sooner, again and again, might never have all of it."""
    claims, now = trial.claims, trial.now
    claim = claim_of(trial.cluster, told)
    if claim is None:
        return None
    rows = {allocation.row for allocation in claim.taken}
    ends = (shift.at for row in rows for shift in claims.shifts(row) if shift.sign > 0)
    times = [now, *sorted({at for at in ends if now < at < inf})]
    at = bisect_left(times, True, key=lambda at: claims.has_room(claim._replace(start=at, until=at + runs_s)))
    return Slot(times[at], claim.taken) if at < len(times) else None
