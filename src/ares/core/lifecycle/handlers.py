"""What brings a job forward: one small function per input, wired up by the table in `lifecycle`."""

from typing import Any

from ares.core.lifecycle import fences, owners
from ares.core.lifecycle.deadline import first_start, started_before
from ares.core.lifecycle.inputs import (
    Bind,
    Cancel,
    Context,
    Nominate,
    RanksResized,
    RankStarted,
    RetryDue,
    RetryNow,
    Stepped,
)
from ares.core.lifecycle.ledger import UnnumberedEntry, agent, commit, grants, nodes_of, ranked, where
from ares.core.lifecycle.ranks import held, metered, next_rank, numbered, place_of, settled, size_limits
from ares.core.refusal import Refusal
from ares.model.job import JobSpec
from ares.model.state import BOUND, Job, JobState, Placement

MANUAL_RETRIES_MAX = 10
_NODES_SHOWN = 4


def bind(job: Job, what: Bind, context: Context) -> Stepped | Refusal:
    state, places = job.state, what.placements
    wrong = _outdated(state, what.updates) or _unfit(job.spec, what)
    if wrong:
        return Refusal(code="not-allowed", message=f"job {state.id}: {wrong}")
    attempt = state.attempt + 1
    data = grants(places)
    if what.decision:
        data["decision"] = what.decision
    if what.alternative:
        data["alternative"] = what.alternative
    if what.leaves_at is not None:
        data["leavesAt"] = what.leaves_at
    entry = UnnumberedEntry("bound", f"attempt {attempt} on {_named(places)}", "scheduler", data)
    return commit(
        state, context.now, (entry,),
        phase="STAGING", attempt=attempt, fence=fences.granted(state.fence, context.epoch), placements=places,
        exit=None, bound_at=context.now, started_at=None, ended_at=None, metered_at=None, rates=what.rates,
        alternative=what.alternative, master_port=what.master_port, hold=(), evicting=(),
        started_ranks=(), ended_ranks=(), failing=(), generation=0, planned_s=what.planned_s, leaves_at=what.leaves_at,
        unsaved=None, **started_before(state),
    )  # fmt: skip


def _outdated(state: JobState, updates: int) -> str:
    """Why what was decided is not for the job as it is, or nothing."""
    if updates == state.updates:
        return ""
    return f"this was decided when it had been updated {updates} times, by now it was {state.updates} times"


def _unfit(spec: JobSpec, what: Bind) -> str:
    """Why the placements are not an attempt of this job, or nothing."""
    if spec.gang is None and len(what.placements) == 1 and not (what.placements[0].rank or what.alternative):
        return ""
    least, most = size_limits(spec)
    count = len(what.placements)
    if not least <= count <= most:
        wanted = f"exactly {most}" if least == most else f"{least} to {most}"
        return f"an attempt needs {wanted} placement{'s' if most > 1 else ''}, the binding has {count}"
    if any(place.rank != n for n, place in enumerate(what.placements)):
        return f"the placements are for {numbered(p.rank for p in what.placements)}, not for 0 to {count - 1} in order"
    if what.alternative > len(spec.alternatives):
        return f"alternative {what.alternative} is bound, the job has {len(spec.alternatives)}"
    return ""


def _named(places: tuple[Placement, ...]) -> str:
    if len(places) == 1:
        return f"node {places[0].node}"
    nodes = nodes_of(places)
    shown = ", ".join(nodes[:_NODES_SHOWN]) + (f" and {len(nodes) - _NODES_SHOWN} more" if nodes[_NODES_SHOWN:] else "")
    return f"node{'s' if len(nodes) > 1 else ''} {shown} ({len(places)} ranks)"


def start(job: Job, what: RankStarted, context: Context) -> Stepped | Refusal:
    state = job.state
    # The agent's clock may be off: a start lies between the binding and now.
    at = max(state.bound_at or 0.0, min(what.at or context.now, context.now))
    if job.spec.gang is not None:
        return _rank_started(state, what, at, context)
    if state.phase != "STAGING":
        return Refusal(code="not-allowed", message=f"job {state.id} is {state.phase}; start does not apply to it")
    entry = UnnumberedEntry("started", what.note, agent(state.placements[0]), _given(what))
    return commit(state, context.now, (entry,), phase="RUNNING", started_at=at, **first_start(state, at))


def _given(what: RankStarted) -> dict[str, Any]:
    return {"secrets": what.secrets} if what.secrets else {}


def _rank_started(state: JobState, what: RankStarted, at: float, context: Context) -> Stepped | Refusal:
    rank = what.rank
    place = place_of(state.placements, rank)
    if place is None or rank in state.started_ranks:
        why = "has started already" if place is not None else "is not one of the attempt's"
        return Refusal(code="not-allowed", message=f"job {state.id}: rank {rank} {why}")
    data = {"rank": rank, "node": place.node, **_given(what)}
    entry = UnnumberedEntry("rank-started", what.note, agent(place), data)
    changes, more = assembled(state, (*state.started_ranks, rank), at)
    return commit(state, context.now, (entry, *more), **changes)


def assembled(
    state: JobState, started: tuple[int, ...], at: float
) -> tuple[dict[str, Any], tuple[UnnumberedEntry, ...]]:
    """What follows when these ranks have started: the gang runs as soon as all have."""
    changes: dict[str, Any] = {"started_ranks": started}
    if state.phase != "STAGING" or {place.rank for place in state.placements} - set(started):
        return changes, ()
    entry = UnnumberedEntry("started", f"all {len(state.placements)} ranks have started", "controller")
    return {**changes, "phase": "RUNNING", "started_at": at, **first_start(state, at)}, (entry,)


def nominate(job: Job, what: Nominate, context: Context) -> Stepped | Refusal:
    state = job.state
    if not what.hold and not state.hold:
        return Refusal(code="not-allowed", message=f"job {state.id}: no room is held for it, so none can be given up")
    if what.hold and (wrong := _outdated(state, what.updates)):
        return Refusal(code="not-allowed", message=f"job {state.id}: {wrong}")
    # The record names the victims' owners as far as the tenant may know.
    data = {**what.record, **({"hold": grants(what.hold)} if what.hold else {})}
    entry = UnnumberedEntry("preempting", what.reason, "scheduler", data)
    return commit(
        state, context.now, (entry,),
        hold=what.hold, evicting=what.evicting, alternative=what.alternative, reason=what.reason,
    )  # fmt: skip


def resize(job: Job, what: RanksResized, context: Context) -> Stepped | Refusal:
    state, now = job.state, context.now
    wrong = _unfit_size(job.spec, state, what.placements)
    if wrong:
        return Refusal(code="not-allowed", message=f"job {state.id}: {wrong}")
    stay = {place.rank for place in what.placements}
    added = what.placements[sum(place.rank in stay for place in state.placements) :]
    dropped = tuple(place for place in held(state) if place.rank not in stay and place not in state.leaving)
    generation = state.generation + 1
    data: dict[str, Any] = {"generation": generation, "ranks": len(what.placements)}
    data |= {"added": ranked(added)} if added else {}
    data |= {"dropped": [{"rank": place.rank, "node": place.node} for place in dropped]} if dropped else {}
    return commit(
        state, now, (UnnumberedEntry("resized", what.reason, what.by, data),),
        placements=what.placements, leaving=(*state.leaving, *dropped), generation=generation,
        rates=what.rates, metered_at=now, **metered(state, now, "open"),
    )  # fmt: skip


def _unfit_size(spec: JobSpec, state: JobState, places: tuple[Placement, ...]) -> str:
    """Why the running gang cannot go on with these placements, or nothing."""
    least, most = size_limits(spec)
    if spec.gang is None or spec.gang.min_ranks is None:
        return "it is not an elastic gang: it has no gang.minRanks"
    if state.failing:
        return f"{numbered(end.rank for end in state.failing)} of it has failed"
    if not least <= len(places) <= most:
        return f"the gang may have {least} to {most} ranks, the resize has {len(places)}"
    first_new = next_rank(state)
    stay = tuple(place for place in places if place.rank < first_new)
    new = places[len(stay) :]
    if any(place_of(state.placements, place.rank) != place for place in stay):
        return "a rank that stays must keep its placement, and a number is never given twice in one attempt"
    if tuple(place.rank for place in stay) != tuple(sorted({place.rank for place in stay})):
        return "the ranks that stay must come in their order"
    if tuple(place.rank for place in new) != tuple(range(first_new, first_new + len(new))):
        return f"new ranks are numbered from {first_new} on, after those that stay"
    if not {place.rank for place in stay} - set(state.ended_ranks):
        return "at least one running rank must stay"
    if places == state.placements:
        return "the resize changes nothing"
    return ""


def cancel(job: Job, what: Cancel, context: Context) -> Stepped | Refusal:
    state = job.state
    lingering = state.lingering or state.phase in BOUND
    # An attempt that was taken away before keeps the fence by which its end is told.
    fence = state.fence if state.lingering else fences.revoked(state.fence)
    reason = what.reason or f"cancelled by {what.by}"
    return commit(
        state, context.now, (UnnumberedEntry("cancelled", reason, what.by, where(held(state))),),
        phase="CANCELLED", fence=fence, reason=reason, ended_at=context.now,
        retry_delay_s=0.0, retry_at=None, hold=(), evicting=(), value=None, outputs=(), failing=(),
        lingering=lingering or owners.is_there(state), owner=owners.without_offer(state),
        **settled(state, context.now, "kept"),
    )  # fmt: skip


def retry_due(job: Job, what: RetryDue, context: Context) -> Stepped | Refusal:
    state = job.state
    if what.seq != state.seq:
        message = f"job {state.id}: the backoff of entry {what.seq} is over, the job is in that of entry {state.seq}"
        return Refusal(code="not-allowed", message=message)
    if state.lingering:
        return _still_ending(state)
    reason = f"the backoff is over; {what.note}" if what.note else "the backoff is over"
    return _requeue(state, context, UnnumberedEntry("requeued", reason, "controller"))


def retry_now(job: Job, what: RetryNow, context: Context) -> Stepped | Refusal:
    state = job.state
    if state.lingering:
        return _still_ending(state)
    if state.manual_retries >= MANUAL_RETRIES_MAX:
        message = (
            f"job {state.id}: all {MANUAL_RETRIES_MAX} manual retries are used; "
            f"it goes on by itself when the backoff of {state.retry_delay_s:.1f} s is over"
        )
        return Refusal(code="budget-exhausted", message=message)
    used_up = state.manual_retries + 1
    reason = what.reason or f"manual retry {used_up} of {MANUAL_RETRIES_MAX} by {what.by}"
    reason = f"{reason}; {what.note}" if what.note else reason
    return _requeue(state, context, UnnumberedEntry("retry-requested", reason, what.by), manual_retries=used_up)


def _still_ending(state: JobState) -> Refusal:
    ranks = numbered(place.rank for place in held(state))
    message = f"job {state.id}: {ranks} of attempt {state.attempt} may still run; it goes on when they are gone"
    return Refusal(code="not-allowed", message=message)


def _requeue(state: JobState, context: Context, entry: UnnumberedEntry, **changes: Any) -> Stepped:
    return commit(
        state, context.now, (entry,),
        phase="PENDING", queued_at=context.now, retry_delay_s=0.0, retry_at=None, **changes,
    )  # fmt: skip
