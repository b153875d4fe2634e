"""What each input does to a job: one small function per meaning, wired up by the table in `lifecycle`."""

from typing import Any

from ares.core.run import retry
from ares.core.run.inputs import (
    Bind,
    Cancel,
    Context,
    Exit,
    LeaseLost,
    Refused,
    Release,
    RetryDue,
    RetryNow,
    Start,
    Stepped,
)
from ares.core.run.ledger import Entry, agent, commit, grant, where
from ares.model.state import BOUND, ExitInfo, Fence, Job, JobState, Result

MANUAL_RETRIES_MAX = 10
# A program that ran this long is not one that exits at once: its next restart is as prompt as the first.
STEADY_AFTER_S = 60.0


def revoked_fence(state: JobState) -> Fence:
    """The fence of the attempt that the latest revocation took away."""
    return Fence(epoch=state.fence.epoch, counter=state.fence.counter - 1)


def _granted(fence: Fence, epoch: int) -> Fence:
    return Fence(epoch=max(fence.epoch, epoch), counter=fence.counter + 1)


def _revoked(fence: Fence) -> Fence:
    # Only grants take a new epoch, so the revoked attempt's own fence can be told from the new one.
    return Fence(epoch=fence.epoch, counter=fence.counter + 1)


def stale(state: JobState, fence: Fence) -> Refused:
    message = f"job {state.id}: the report carries fence {fence}, the job's fence is {state.fence}"
    return Refused(code="stale-fence", message=message)


def bind(job: Job, what: Bind, context: Context) -> Stepped | Refused:
    state = job.state
    if len(what.placements) != 1:
        message = f"job {state.id}: an attempt needs exactly 1 placement, the binding has {len(what.placements)}"
        return Refused(code="not-allowed", message=message)
    attempt, place = state.attempt + 1, what.placements[0]
    entry = Entry("bound", f"attempt {attempt} on node {place.node}", "scheduler", grant(place))
    return commit(
        state, context.now, (entry,),
        phase="STAGING", attempt=attempt, fence=_granted(state.fence, context.epoch), placements=what.placements,
        exit=None, bound_at=context.now, started_at=None, ended_at=None,
    )  # fmt: skip


def start(job: Job, what: Start, context: Context) -> Stepped | Refused:
    state = job.state
    # The agent's clock may be off: a start lies between the binding and now.
    at = max(state.bound_at or 0.0, min(what.at or context.now, context.now))
    entry = Entry("started", by=agent(state))
    return commit(state, context.now, (entry,), phase="RUNNING", started_at=at)


def finish(job: Job, what: Exit, context: Context) -> Stepped | Refused:
    if what.exit.failure is not None:
        entry = Entry("failed", by=agent(job.state), data=_exit_data(job.state, what.exit))
        return _after_failure(job, what.exit, context, (), entry)
    if job.spec.restart == "always" and job.spec.effects != "unsafe":
        return _restart(job, what, context)
    state = job.state
    result = _result(state, what.exit, context, what.value)
    entry = Entry("succeeded", "", agent(state), _exit_data(state, what.exit))
    return commit(
        state, context.now, (entry,), result,
        phase="SUCCEEDED", exit=what.exit, ended_at=context.now,
    )  # fmt: skip


def lease_lost(job: Job, what: LeaseLost, context: Context) -> Stepped | Refused:
    state = job.state
    lost = Entry("lease-lost", what.reason, "controller", where(state), state.fence)
    exit_info = ExitInfo(failure="node-lost", message=what.reason)
    if job.spec.effects == "unsafe":
        reason = f"{retry.describe(exit_info)}; its effects are unsafe, so a person must find out what it did"
        return commit(
            state, context.now, (lost, Entry("unknown", reason, "controller")),
            phase="UNKNOWN", fence=_revoked(state.fence), reason=reason, exit=exit_info,
            ended_at=context.now,
        )  # fmt: skip
    entry = Entry("failed", by="controller", data=_exit_data(state, exit_info))
    return _after_failure(job, exit_info, context, (lost,), entry)


def cancel(job: Job, what: Cancel, context: Context) -> Stepped | Refused:
    state = job.state
    lingering = state.phase in BOUND
    reason = what.reason or f"cancelled by {what.by}"
    return commit(
        state, context.now, (Entry("cancelled", reason, what.by, where(state)),),
        phase="CANCELLED", fence=_revoked(state.fence), lingering=lingering, reason=reason, ended_at=context.now,
        retry_delay_s=0.0, retry_at=None,
    )  # fmt: skip


def release(job: Job, what: Release, context: Context) -> Stepped | Refused:
    state = job.state
    if not state.lingering:
        return Refused(code="terminal", message=f"job {state.id} is already {state.phase} and holds nothing")
    if what.fence != revoked_fence(state):
        message = f"job {state.id}: fence {what.fence} is released, the attempt still to end is {revoked_fence(state)}"
        return Refused(code="stale-fence", message=message)
    data = where(state)
    entry = Entry("released", "all its processes are gone", agent(state), data, what.fence)
    return commit(state, context.now, (entry,), lingering=False, reason=state.reason)


def retry_due(job: Job, what: RetryDue, context: Context) -> Stepped | Refused:
    state = job.state
    if what.seq != state.seq:
        message = f"job {state.id}: the backoff of entry {what.seq} is over, the job is in that of entry {state.seq}"
        return Refused(code="not-allowed", message=message)
    return _requeue(state, context, Entry("requeued", "the backoff is over", "controller"))


def retry_now(job: Job, what: RetryNow, context: Context) -> Stepped | Refused:
    state = job.state
    if state.manual_retries >= MANUAL_RETRIES_MAX:
        message = (
            f"job {state.id}: all {MANUAL_RETRIES_MAX} manual retries are used; "
            f"it goes on by itself when the backoff of {state.retry_delay_s:.1f} s is over"
        )
        return Refused(code="budget-exhausted", message=message)
    used = state.manual_retries + 1
    reason = what.reason or f"manual retry {used} of {MANUAL_RETRIES_MAX} by {what.by}"
    return _requeue(state, context, Entry("retry-requested", reason, what.by), manual_retries=used)


def _requeue(state: JobState, context: Context, entry: Entry, **changes: Any) -> Stepped:
    return commit(
        state, context.now, (entry,),
        phase="PENDING", queued_at=context.now, retry_delay_s=0.0, retry_at=None, **changes,
    )  # fmt: skip


def _restart(job: Job, what: Exit, context: Context) -> Stepped:
    state, restarts = job.state, job.state.restarts + 1
    steady = state.started_at is not None and context.now - state.started_at >= STEADY_AFTER_S
    quick = 0 if steady else state.quick_restarts
    delay_s = context.jitter * retry.restart_ceiling_s(job.spec, quick)
    reason = f"{retry.describe(what.exit)}; its restart policy is always: restart {restarts} in {delay_s:.1f} s"
    data = {**_exit_data(state, what.exit), "delayS": round(delay_s, 3)}
    return commit(
        state, context.now, (Entry("restarted", reason, agent(state), data, state.fence),),
        phase="RETRYING", fence=_revoked(state.fence), placements=(), restarts=restarts, quick_restarts=quick + 1,
        exit=what.exit, reason=reason, retry_delay_s=delay_s, retry_at=context.now + delay_s,
    )  # fmt: skip


def _after_failure(
    job: Job, exit_info: ExitInfo, context: Context, before: tuple[Entry, ...], failed: Entry
) -> Stepped:
    """Repeats the attempt or ends the job; `failed` is the entry for the end, without its reason."""
    state = job.state
    verdict = retry.decide(job.spec, state, exit_info, context.jitter)
    # A lost attempt may still be alive: it loses its fence even when the job ends.
    revoke = bool(before) or isinstance(verdict, retry.Again)
    fence = _revoked(state.fence) if revoke else state.fence
    failed = failed._replace(reason=verdict.message, fence=state.fence)
    if isinstance(verdict, retry.Final):
        return commit(
            state, context.now, (*before, failed), _result(state, exit_info, context),
            phase="FAILED", fence=fence, exit=exit_info, reason=verdict.message, ended_at=context.now,
        )  # fmt: skip
    data = {**failed.data, "delayS": round(verdict.delay_s, 3), "retry": verdict.used, "limit": verdict.limit}
    entry = failed._replace(kind="retrying", data=data)
    return commit(
        state, context.now, (*before, entry),
        phase="RETRYING", fence=fence, placements=(), exit=exit_info, reason=verdict.message,
        retries={**state.retries, verdict.failure: verdict.used},
        retry_delay_s=verdict.delay_s, retry_at=context.now + verdict.delay_s,
    )  # fmt: skip


def _result(state: JobState, exit_info: ExitInfo, context: Context, value: Any = None) -> Result:
    return Result(
        job=state.id, fence=state.fence, attempt=state.attempt, exit=exit_info, committed_at=context.now, value=value
    )


def _exit_data(state: JobState, exit_info: ExitInfo) -> dict[str, Any]:
    facts = {"code": exit_info.code, "signal": exit_info.signal, "failure": exit_info.failure}
    return {**where(state), **{name: fact for name, fact in facts.items() if fact is not None}}
