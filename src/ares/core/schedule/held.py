"""Why a job does not start although there is room: the room is held for jobs ahead of it that start later."""

from math import inf

from ares.core.queue.waiting import ClassKey
from ares.core.schedule.bookings import claim_of
from ares.core.schedule.claims import Claim
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.promise import Promise
from ares.core.schedule.reasons import Reason
from ares.core.schedule.round import Round


def held_back(cluster: Cluster, job: str, key: ClassKey, runs_s: float, now: float) -> Reason | None:
    """None when nothing that is held for others keeps the job from starting now."""
    claims = [
        claim
        for promise in cluster.promises.values()
        if promise.job != job and (claim := held_by(cluster, promise)) is not None
    ]
    if not claims or _starts(cluster, key, now, runs_s, claims):
        return None
    # Whoever ends by the time the first of them begins is in nobody's way; the longest such time is what it is told.
    for claim in sorted(claims, key=lambda one: one.start, reverse=True):
        if claim.start > now and _starts(cluster, key, now, claim.start - now, claims):
            return _reason(claim, runs_s, now)
    return None


def held_by(cluster: Cluster, promise: Promise) -> Claim | None:
    """What others must leave alone: where promises may slip, from as late as this one may."""
    claim, policy = claim_of(cluster, promise), cluster.profile.backfill
    if claim is None or policy.strategy != "aggressive":
        return claim
    return claim._replace(start=max(claim.start, promise.first_start + policy.delay_max_s))


def _starts(cluster: Cluster, key: ClassKey, now: float, runs_s: float, claims: list[Claim]) -> bool:
    round_ = Round(cluster, cluster.profile, now)
    for claim in claims:
        round_.claims.add(claim)
    found = round_.find(key, runs_s)
    round_.close()
    return found is not None


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


def _span(seconds: float) -> str:
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min" if whole >= 120 else f"{whole} s"
