"""How attempts end: by themselves, by the loss of a node, by a limit, or for another job.

An attempt of several ranks ends as a whole. What is not known to be gone lingers, with its placements,
under the fence that was taken away from it.
"""

from typing import Any

from msgspec.structs import replace

from ares.core.energy import Fate, kept_rates
from ares.core.lifecycle import fences, outputs, retry
from ares.core.lifecycle.checkpoints import unsaved
from ares.core.lifecycle.handlers import assembled
from ares.core.lifecycle.inputs import (
    AssemblyOver,
    Context,
    Exit,
    LeaseLost,
    Preempt,
    Release,
    SendBack,
    Stepped,
    VerdictDue,
)
from ares.core.lifecycle.ledger import UnnumberedEntry, agent, commit, grants, nodes_of, where
from ares.core.lifecycle.ranks import (
    about_to_end,
    held,
    metered,
    numbered,
    place_of,
    settled,
    size_limits,
    why_not_preemptible,
)
from ares.core.refusal import Refusal
from ares.core.runtime import kinds as runtimes
from ares.core.runtime.verdict import believed, in_short, likely, named
from ares.model.state import BOUND, TERMINAL, ExitInfo, Job, JobState, Placement, RankEnd, Result

# A program that ran this long is not one that exits at once: its next restart is as prompt as the first.
STEADY_AFTER_S = 60.0


# ---- an agent reports an end


def finish(job: Job, what: Exit, context: Context) -> Stepped | Refusal:
    state = job.state
    if job.spec.gang is None:
        return _ended(job, what, context, state.placements[0])
    place = place_of(state.placements, what.rank)
    if place is None:
        return _let_go(state, (what.rank,), context)
    if what.rank in state.ended_ranks:
        return Refusal(code="not-allowed", message=f"job {state.id}: rank {what.rank} has ended already")
    ended = (*state.ended_ranks, what.rank)
    what = what if what.exit.failure is not None else _together(state, what)
    if what.exit.failure is not None or state.failing:
        return _failing(job, what, context, place)
    if {placement.rank for placement in state.placements} <= set(ended):
        return _ended(job, what, context, place)
    # The report of its start may never come.
    started = state.started_ranks if what.rank in state.started_ranks else (*state.started_ranks, what.rank)
    changes, more = assembled(state, started, context.now)
    entry = UnnumberedEntry("rank-exited", "", agent(place), {"rank": what.rank, **_exit_data((place,), what.exit)})
    return commit(
        state, context.now, (entry, *more), ended_ranks=ended, value=what.value, outputs=what.outputs, **changes
    )


# ---- a rank of a gang failed: which one made the others fail?


# No peer's death brings these about.
_OWN_FAULTS = ("staging", "time-limit")


def _failing(job: Job, what: Exit, context: Context, place: Placement) -> Stepped:
    """A rank ended, and it or another failed. The end of the attempt is decided when every rank has had the time to say
    how it ended: most fall with the first, and their reports may come before its own."""
    state = job.state
    at = believed(what.at or context.now, context.now)
    failed = () if what.exit.failure is None else (RankEnd(what.rank, in_short(what.exit), at, what.blames),)
    failing, ended = (*state.failing, *failed), (*state.ended_ranks, what.rank)
    data = {"rank": what.rank, **_exit_data((place,), what.exit)}
    entry = UnnumberedEntry("rank-exited", what.exit.message, agent(place), data)
    if what.exit.failure in _OWN_FAULTS:
        return _judged(job, failing, failing[-1], context, what.rank, entry)
    if {placement.rank for placement in state.placements} <= set(ended):
        return _judged(job, failing, runtimes.of(job.spec).classify(failing), context, what.rank, entry)
    started = state.started_ranks if what.rank in state.started_ranks else (*state.started_ranks, what.rank)
    changes, more = assembled(state, started, context.now)
    return commit(state, context.now, (entry, *more), ended_ranks=ended, failing=likely(failing), **changes)


def verdict(job: Job, what: VerdictDue, context: Context) -> Stepped | Refusal:
    state = job.state
    if not state.failing:
        return Refusal(code="not-allowed", message=f"job {state.id}: no rank of it has failed")
    root = named(runtimes.of(job.spec).classify(state.failing), state.failing, {place.rank for place in held(state)})
    return _judged(job, state.failing, root, context)


def _judged(
    job: Job,
    failing: tuple[RankEnd, ...],
    root: RankEnd,
    context: Context,
    last: int | None = None,
    entry: UnnumberedEntry | None = None,
) -> Stepped:
    """The attempt is over by the end of the rank that failed first. `last` ended just now, and `entry` tells of it."""
    place = place_of(job.state.placements, root.rank)
    assert place is not None, "a rank that was let go does not fail its gang"
    exit_info, data = _of_rank(root.exit, place)
    fell = sorted(end.rank for end in failing if end.rank != root.rank)
    data |= _exit_data((place,), exit_info) | ({"secondary": fell} if fell else {})
    failed = UnnumberedEntry("failed", by=agent(place), data=data)
    before = () if entry is None or last == root.rank else (entry._replace(fence=job.state.fence),)
    # One that was only blamed has not ended.
    gone = tuple(end.rank for end in failing if end.rank == root.rank) + (() if last is None else (last,))
    return _after_failure(job, exit_info, context, gone, before, failed, blamed=(root.rank,))


def _together(state: JobState, what: Exit) -> Exit:
    """With what its ranks gave before: the value of the first, and the files of all."""
    value = what.value if what.rank == state.placements[0].rank else state.value
    files = (*state.outputs, *outputs.of_rank(what.outputs, what.rank))
    flaw = outputs.list_flaw(files) if what.outputs else ""
    ended = replace(what.exit, failure="exit", message=f"its outputs cannot be kept: {flaw}") if flaw else what.exit
    return Exit(fence=what.fence, exit=ended, rank=what.rank, value=value, outputs=files)


def _ended(job: Job, what: Exit, context: Context, place: Placement) -> Stepped:
    """The attempt is over by the end of this rank."""
    state, gone = job.state, (place.rank,)
    exit_info, rank = (what.exit, {}) if job.spec.gang is None else _of_rank(what.exit, place)
    if exit_info.failure is not None:
        entry = UnnumberedEntry("failed", by=agent(place), data={**rank, **_exit_data((place,), exit_info)})
        return _after_failure(job, exit_info, context, gone, (), entry)
    if job.spec.restart == "always" and job.spec.effects != "unsafe":
        return _restart(job, what, context, place, rank)
    over = _over(job, gone, context, "kept")
    result = _result(state, what.exit, context, what)
    entry = UnnumberedEntry(
        "succeeded", "", agent(place), {**rank, **_exit_data(state.placements, what.exit)}, state.fence
    )
    return commit(
        state, context.now, (entry,), result,
        phase="SUCCEEDED", exit=what.exit, ended_at=context.now, output_bytes=sum(file.size for file in result.outputs),
        fence=fences.revoked(state.fence) if over["lingering"] else state.fence, **over,
    )  # fmt: skip


def _of_rank(exit_info: ExitInfo, place: Placement) -> tuple[ExitInfo, dict[str, Any]]:
    """The exit of a gang's rank, which names the rank."""
    if exit_info.failure is None:
        return exit_info, {"rank": place.rank}
    message = ": ".join(part for part in (f"rank {place.rank} on {place.node}", exit_info.message) if part)
    return replace(exit_info, message=message), {"rank": place.rank}


def _let_go(state: JobState, ranks: tuple[int, ...], context: Context) -> Stepped | Refusal:
    """Ranks the gang goes on without are gone, however they ended."""
    gone = {place.rank for place in state.leaving} & set(ranks)
    if not gone:
        message = f"job {state.id} is {state.phase} and has let go of none of these ranks"
        return Refusal(code="not-allowed", message=message)
    left = tuple(place for place in state.leaving if place.rank not in gone)
    places = tuple(place for place in state.leaving if place.rank in gone)
    data = {**where(places), "ranks": sorted(gone)}
    entry = UnnumberedEntry("released", f"all processes of {numbered(gone)} are gone", agent(places[0]), data)
    return commit(
        state, context.now, (entry,), leaving=left, ended_ranks=(*state.ended_ranks, *sorted(gone)), reason=state.reason
    )


# ---- the attempt is taken away


def lease_lost(job: Job, what: LeaseLost, context: Context) -> Stepped | Refusal:
    state = job.state
    gone = tuple(place for place in held(state) if not what.ranks or place.rank in what.ranks)
    lost = tuple(place for place in gone if place not in state.leaving)
    if not lost:
        return _let_go(state, what.ranks, context)
    ranks = tuple(place.rank for place in gone)
    if job.spec.effects != "unsafe" and _can_shrink(job, lost):
        return _shrink(state, what, context, gone, lost)
    # Also of what was let go before: the ledger says of every rank where it ended.
    data = where(lost) if job.spec.gang is None else {**where(gone), "ranks": [place.rank for place in gone]}
    entry = UnnumberedEntry("lease-lost", what.reason, "controller", data, state.fence)
    exit_info = ExitInfo(failure="node-lost", message=what.reason)
    if job.spec.effects == "unsafe":
        reason = f"{retry.describe(exit_info)}; its effects are unsafe, so a person must find out what it did"
        return commit(
            state, context.now, (entry, UnnumberedEntry("unknown", reason, "controller")),
            phase="UNKNOWN", fence=fences.revoked(state.fence), reason=reason, exit=exit_info,
            ended_at=context.now, **_over(job, ranks, context, "lost"),
        )  # fmt: skip
    failed = UnnumberedEntry("failed", by="controller", data=_exit_data(lost, exit_info))
    return _after_failure(job, exit_info, context, ranks, (entry,), failed)


def _can_shrink(job: Job, lost: tuple[Placement, ...]) -> bool:
    """Whether an elastic gang runs on without these: so many of its ranks must still run."""
    gang, state = job.spec.gang, job.state
    if gang is None or gang.min_ranks is None or state.phase != "RUNNING" or state.failing:
        return False
    running = {place.rank for place in state.placements} - set(state.ended_ranks) - {place.rank for place in lost}
    return len(running) >= size_limits(job.spec)[0]


def _shrink(
    state: JobState, what: LeaseLost, context: Context, gone: tuple[Placement, ...], lost: tuple[Placement, ...]
) -> Stepped:
    left = tuple(place for place in state.placements if place not in lost)
    generation = state.generation + 1
    losses = [{"rank": place.rank, "node": place.node} for place in gone]
    data = {"generation": generation, "ranks": len(left), "lost": losses}
    reason = f"{what.reason}; the gang goes on with {len(left)} ranks"
    return commit(
        state, context.now, (UnnumberedEntry("resized", reason, "controller", data),),
        placements=left, leaving=tuple(place for place in state.leaving if place not in gone),
        ended_ranks=(*state.ended_ranks, *(place.rank for place in gone)),
        generation=generation, metered_at=context.now, rates=kept_rates(state, left),
        **metered(state, context.now, "open"),
    )  # fmt: skip


def assembly_over(job: Job, what: AssemblyOver, context: Context) -> Stepped | Refusal:
    state = job.state
    if job.spec.gang is None:
        return Refusal(code="not-allowed", message=f"job {state.id} is not a gang; assembly-over does not apply to it")
    missing = tuple(place for place in state.placements if place.rank not in state.started_ranks)
    late = f"{numbered(place.rank for place in missing)} on {', '.join(nodes_of(missing)[:8])} had not"
    exit_info = ExitInfo(failure="staging", message=f"{what.reason}: {late}")
    data = {**_exit_data(missing, exit_info), "ranks": [place.rank for place in missing]}
    return _after_failure(job, exit_info, context, (), (), UnnumberedEntry("failed", by="controller", data=data))


def preempt(job: Job, what: Preempt, context: Context) -> Stepped | Refusal:
    state = job.state
    if why_not := why_not_preemptible(job.spec) or about_to_end(state):
        return Refusal(code="not-allowed", message=f"job {state.id} cannot be preempted: {why_not}")
    data = {**where(held(state)), **what.record, **({"hold": grants(what.hold)} if what.hold else {})}
    entry = UnnumberedEntry("preempted", what.reason, what.by, data, state.fence)
    return commit(
        state, context.now, (entry,),
        phase="PREEMPTED", fence=fences.revoked(state.fence), reason=what.reason, lingering=True,
        value=None, outputs=(), preemptions=state.preemptions + 1, preempted_at=context.now, hold=what.hold,
        rotations=state.rotations + what.rotates, **unsaved(job, context.now), **settled(state, context.now, "lost"),
    )  # fmt: skip


def send_back(job: Job, what: SendBack, context: Context) -> Stepped | Refusal:
    """A person's preemption: the job saves its work and waits again. It uses up no retry, and does not count among the
    preemptions that protect a job from more of them."""
    state = job.state
    why, fix = about_to_end(state), "look at it again in a few seconds"
    if job.spec.effects == "unsafe" or job.spec.restart == "never":
        policy = "its effects are unsafe" if job.spec.effects == "unsafe" else "its restart policy is never"
        why, fix = f"{policy}, so it is never started twice", "let it end, or cancel it and submit it anew"
    if why:
        return Refusal(code="not-allowed", message=f"job {state.id} cannot be sent back to the queue: {why}", fix=fix)
    reason = what.reason or f"sent back to the queue by {what.by}"
    entry = UnnumberedEntry("requeue-requested", reason, what.by, where(held(state)), state.fence)
    return commit(
        state, context.now, (entry,),
        phase="PREEMPTED", fence=fences.revoked(state.fence), reason=reason, lingering=True, value=None, outputs=(),
        requeues=state.requeues + 1, **unsaved(job, context.now), **settled(state, context.now, "lost"),
    )  # fmt: skip


# ---- ranks are confirmed to be gone


def release(job: Job, what: Release, context: Context) -> Stepped | Refusal:
    state = job.state
    if state.phase in BOUND:
        if what.fence != state.fence:
            return fences.stale(state, what.fence)
        return _let_go(state, what.ranks or tuple(place.rank for place in state.leaving), context)
    if not state.lingering:
        code = "terminal" if state.phase in TERMINAL else "not-allowed"
        return Refusal(code=code, message=f"job {state.id} is already {state.phase} and holds nothing")
    attempt = fences.revoked_fence(state)
    if what.fence != attempt:
        message = f"job {state.id}: fence {what.fence} is released, the attempt still to end is {attempt}"
        return Refusal(code="stale-fence", message=message)
    gone = tuple(place for place in held(state) if not what.ranks or place.rank in what.ranks)
    if not gone:
        message = f"job {state.id}: {numbered(what.ranks)} of attempt {state.attempt} is gone already"
        return Refusal(code="not-allowed", message=message)
    rest = _rest(state, tuple(place.rank for place in gone))
    if rest["lingering"]:
        data = {**where(gone), "ranks": [place.rank for place in gone]}
        reason = f"all processes of {numbered(place.rank for place in gone)} are gone"
        entry = UnnumberedEntry("released", reason, agent(gone[0]), data, what.fence)
        return commit(state, context.now, (entry,), reason=state.reason, **rest)
    return _all_gone(state, gone, context, rest)


def _all_gone(state: JobState, gone: tuple[Placement, ...], context: Context, rest: dict[str, Any]) -> Stepped:
    reason, by, attempt = "all its processes are gone", agent(gone[0]), fences.revoked_fence(state)
    if state.phase == "PREEMPTED":
        entry = UnnumberedEntry("requeued", f"{reason}; it waits for a place again", by, where(gone), attempt)
        return commit(state, context.now, (entry,), phase="PENDING", queued_at=context.now, placements=(), **rest)
    entry = UnnumberedEntry("released", reason, by, where(gone), attempt)
    if state.phase == "RETRYING":
        # The backoff begins now: nothing could be repeated before.
        rest = {**rest, "placements": (), "retry_at": context.now + state.retry_delay_s}
    return commit(state, context.now, (entry,), reason=state.reason, **rest)


# ---- the attempt is repeated, or the job ends


def _restart(job: Job, what: Exit, context: Context, place: Placement, rank: dict[str, Any]) -> Stepped:
    state, restarts = job.state, job.state.restarts + 1
    steady = state.started_at is not None and context.now - state.started_at >= STEADY_AFTER_S
    quick = 0 if steady else state.quick_restarts
    delay_s = retry.drawn_s(retry.restart_ceiling_s(job.spec, quick), context.jitter)
    reason = f"{retry.describe(what.exit)}; its restart policy is always: restart {restarts} in {delay_s:.1f} s"
    data = {**rank, **_exit_data(state.placements, what.exit), "delayS": round(delay_s, 3)}
    over = _over(job, (place.rank,), context, "kept")
    return commit(
        state, context.now, (UnnumberedEntry("restarted", reason, agent(place), data, state.fence),),
        phase="RETRYING", fence=fences.revoked(state.fence), placements=state.placements if over["lingering"] else (),
        restarts=restarts, quick_restarts=quick + 1, exit=what.exit, reason=reason, retry_delay_s=delay_s,
        retry_at=context.now + delay_s, **over,
    )  # fmt: skip


def _after_failure(
    job: Job,
    exit_info: ExitInfo,
    context: Context,
    gone: tuple[int, ...],
    before: tuple[UnnumberedEntry, ...],
    failed: UnnumberedEntry,
    blamed: tuple[int, ...] | None = None,
) -> Stepped:
    """Repeats the attempt or ends the job; `failed` is the entry for the end, without its reason. `blamed`: the ranks
    whose nodes are avoided, where others are gone too."""
    state = job.state
    verdict = retry.decide(job.spec, state, exit_info, context.jitter)
    over = _over(job, gone, context, "lost")
    # What may still be alive loses its fence even when the job ends.
    revoke = bool(before) or over["lingering"] or isinstance(verdict, retry.Again)
    fence = fences.revoked(state.fence) if revoke else state.fence
    failed = failed._replace(reason=verdict.message, fence=state.fence)
    if isinstance(verdict, retry.Final):
        return commit(
            state, context.now, (*before, failed), _result(state, exit_info, context),
            phase="FAILED", fence=fence, exit=exit_info, reason=verdict.message, ended_at=context.now,
            **over,
        )  # fmt: skip
    data = {**failed.data, "delayS": round(verdict.delay_s, 3), "retry": verdict.used, "limit": verdict.limit}
    entry = failed._replace(kind="retrying", data=data)
    return commit(
        state, context.now, (*before, entry),
        phase="RETRYING", fence=fence, placements=state.placements if over["lingering"] else (), exit=exit_info,
        reason=verdict.message, retries={**state.retries, verdict.failure: verdict.used},
        avoid=retry.avoided(state, blamed or gone),
        retry_delay_s=verdict.delay_s, retry_at=context.now + verdict.delay_s, **over,
    )  # fmt: skip


# ---- parts of the new record


def _over(job: Job, gone: tuple[int, ...], context: Context, fate: Fate) -> dict[str, Any]:
    """What an attempt that is over leaves behind. What it used is counted; what it gave is committed or void."""
    use = settled(job.state, context.now, fate)
    if job.spec.gang is None:
        return {"lingering": False, **use}
    return {**_rest(job.state, gone), **use, "value": None, "outputs": (), "failing": ()}


def _rest(state: JobState, gone: tuple[int, ...]) -> dict[str, Any]:
    """It lingers until every rank of it is gone."""
    ended = {*state.ended_ranks, *gone}
    if any(place.rank not in ended for place in (*state.placements, *state.leaving)):
        return {"lingering": True, "ended_ranks": tuple(sorted(ended))}
    return {"lingering": False, "ended_ranks": (), "started_ranks": (), "leaving": ()}


def _result(state: JobState, exit_info: ExitInfo, context: Context, gave: Exit | None = None) -> Result:
    return Result(
        job=state.id, fence=state.fence, attempt=state.attempt, exit=exit_info, committed_at=context.now,
        value=None if gave is None else gave.value, outputs=() if gave is None else gave.outputs,
    )  # fmt: skip


def _exit_data(places: tuple[Placement, ...], exit_info: ExitInfo) -> dict[str, Any]:
    facts = {"code": exit_info.code, "signal": exit_info.signal, "failure": exit_info.failure}
    return {**where(places), **{name: fact for name, fact in facts.items() if fact is not None}}
