"""Why a job does not start although there is room: the room is held for jobs ahead of it that start later, or the job
ends sooner on a better GPU."""

from collections.abc import Iterator
from math import inf

import numpy as np

from ares.api.decisions import Promise
from ares.api.reasons import Reason
from ares.core.capacity.bookings import claim_of
from ares.core.capacity.claims import Claim
from ares.core.queue.overlay import QueueOverlay
from ares.core.queue.waiting import ClassKey, QueueView
from ares.core.schedule.actions.pace import paced
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.pace import PacedJob
from ares.core.schedule.trial import Trial
from ares.core.text import clock, span
from ares.model.job import JobSpec
from ares.model.state import JobState

# Claims that are looked at for one job, the earliest first: an answer must not wait for thousands.
_CLAIMS_MAX = 256


def held_back(cluster: Cluster, job: str, key: ClassKey, runs_s: float, now: float) -> Reason | None:
    """None when no claim keeps the job from starting now."""
    claims = sorted(_in_its_way(cluster, job, key), key=lambda claim: claim.start)
    if not claims:
        return None
    with Trial.what_if(cluster, now) as trial:
        for claim in claims[:_CLAIMS_MAX]:
            trial.claims.add(claim)
        if trial.tried(key, runs_s) is not None:
            # With so many claims it does not matter which: one behind the first holds the room.
            return _reason(claims[0], runs_s, now) if len(claims) > _CLAIMS_MAX else None
        claim = _longest(trial, key, claims[:_CLAIMS_MAX], now)
        if claim is None:
            return _overdue(claims[0], now) if claims[0].start <= now else None
        return _reason(claim, runs_s, now)


def _in_its_way(cluster: Cluster, job: str, key: ClassKey) -> Iterator[Claim]:
    """Claims of promised jobs where this job would fit now."""
    evaluations = cluster.evaluations
    passing = len(evaluations.rules.filters)
    fits = np.logical_or.reduce([evaluations.stage(ask) == passing for ask in key.asks]) & cluster.table.exists
    rows = cluster.rows
    for promise in cluster.promises.values():
        if promise.job == job:
            continue
        if any((row := rows.get(place.node)) is not None and fits[row] for place in promise.placements):
            claim = held_by(cluster, promise)
            if claim is not None:
                yield claim


def _longest(trial: Trial, key: ClassKey, claims: list[Claim], now: float) -> Claim | None:
    """The latest claim such that the job could start now if it ended before the claim begins; None when there is none.

    The shorter a job runs, the fewer claims are in its way: the time is found by halving."""
    later = [claim for claim in claims if claim.start > now]
    low, high = 0, len(later)
    while low < high:
        middle = (low + high) // 2
        if trial.tried(key, later[middle].start - now) is not None:
            low = middle + 1
        else:
            high = middle
    return later[low - 1] if low else None


def held_by(cluster: Cluster, promise: Promise) -> Claim | None:
    """What other jobs must leave alone: where promises may slip, from as late as this one may."""
    claim, policy = claim_of(cluster, promise), cluster.profile.backfill
    if claim is None or policy.strategy != "aggressive":
        return claim
    return claim._replace(start=max(claim.start, promise.first_start + policy.delay_max_s))


def _reason(claim: Claim, runs_s: float, now: float) -> Reason:
    left_s = max(0, int(claim.start - now))
    numbers = {"heldForS": left_s}
    mine = "it does not say how long it runs"
    if runs_s < inf:
        numbers["runsS"] = int(runs_s)
        mine = f"it runs for {_span(runs_s)}"
    message = (
        f"there is room, held for a job ahead of it that starts in {_span(left_s)}; {mine}, "
        f"and one that runs for at most {_span(left_s)} would start now"
    )
    return Reason(code="HELD_BACK", message=message, numbers=numbers)


def _overdue(claim: Claim, now: float) -> Reason:
    late_s = int(now - claim.start)
    message = (
        f"there is room, held for a job ahead of it that was to start {_span(late_s)} ago: what holds the rest of it "
        "runs longer than was thought, and nobody comes into that room before that job has started"
    )
    return Reason(code="HELD_BACK", message=message, numbers={"heldForS": 0, "lateS": late_s})


def _span(seconds: float) -> str:
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min" if whole >= 120 else f"{whole} s"


# Letters whose names begin with a vowel: models are mostly spelled.
_SPELLED = frozenset("AEFHILMNORSX")


def named(model: str) -> str:
    """an A100, a V100."""
    return f"{'an' if model[:1].upper() in _SPELLED else 'a'} {model}"


def paced_jobs(cluster: Cluster, now: float, waiting: QueueView | None = None) -> dict[str, PacedJob]:
    """Where and when each job is to run that says how long it runs on which GPU model, as things are now."""
    if "pace" not in cluster.profile.actions:
        return {}
    cluster.prepare()
    with Trial.what_if(cluster, now, waiting) as trial:
        return paced(trial)


def would_wait(cluster: Cluster, state: JobState, spec: JobSpec, now: float) -> Reason | None:
    """Why a job that is not there yet would wait although it fits. The cluster is left as it was."""
    if not spec.expected_runtimes_s:
        return None
    job = paced_jobs(cluster, now, QueueOverlay(cluster.waiting, state, spec)).get(state.id)
    return None if job is None else waits_for_faster(job, now)


def waits_for_faster(job: PacedJob, now: float) -> Reason | None:
    """None when the job starts now, or there is no free GPU that it does without."""
    if job.start <= now or job.instead is None:
        return None
    model, runs_s = job.instead
    sooner_s = now + runs_s - job.end
    better = "GPUs" if job.model is None else named(job.model)
    gain = f"there it ends {span(sooner_s)} sooner than on the {model} that is free now, by the run times it states"
    if job.cheaper:
        gain = f"there it meets its deadline too, and costs less than on the {model} that is free now"
    message = f"waits for {better}, free at about {clock(job.start, now)}: {gain}"
    numbers = {"waitsS": int(job.start - now), "soonerS": int(sooner_s)}
    return Reason(code="WAITING_FOR_FASTER", message=message, numbers=numbers)
