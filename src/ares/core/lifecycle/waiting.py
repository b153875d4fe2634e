"""Before the queue: a job waits for a person, for a time, or for other jobs. When nothing keeps it, it is queued."""

from typing import Any

from msgspec.structs import replace

from ares.core.lifecycle.inputs import (
    BeginDue,
    Context,
    HoldBack,
    LetGo,
    NeedsMet,
    NeedsOverdue,
    NeedsUnmet,
    Stepped,
)
from ares.core.lifecycle.ledger import UnnumberedEntry, commit
from ares.core.refusal import Refusal
from ares.model.job import JobSpec
from ares.model.state import BOUND, Job, JobState, Phase, SpecUpdate


def first_phase(spec: JobSpec, flow: str | None, now: float) -> Phase:
    """Of a job that has just been admitted."""
    return "WAITING" if spec.held or spec.needs or flow is not None or _early(spec, now) else "PENDING"


def needy(spec: JobSpec, state: JobState) -> bool:
    """Whether what it needs has not happened yet: other jobs, and of a workflow that all its jobs exist."""
    return (bool(spec.needs) or state.flow is not None) and not state.needs_met


def hold(job: Job, what: HoldBack, context: Context) -> Stepped | Refusal:
    """Room that is kept for it is given up."""
    state = job.state
    if state.phase == "WAITING" and state.held_by:
        return Refusal(code="not-allowed", message=f"job {state.id} is held already, by {state.held_by}")
    if state.lingering:
        message = f"job {state.id}: processes of attempt {state.attempt} are still ending"
        return Refusal(code="not-allowed", message=message, fix="hold it again in a moment")
    reason = what.reason or f"held by {what.by}"
    return commit(
        state, context.now, (UnnumberedEntry("held", reason, what.by),),
        phase="WAITING", held_by=what.by, reason=reason, hold=(), evicting=(), retry_delay_s=0.0, retry_at=None,
        # What it needed was met when it was queued.
        needs_met=state.needs_met or (state.phase != "WAITING" and needy(job.spec, state)),
    )  # fmt: skip


def let_go(job: Job, what: LetGo, context: Context) -> Stepped | Refusal:
    """It keeps the age that it had in the queue."""
    state = job.state
    if not state.held_by:
        return not_held(state, what)
    early, needs = _early(job.spec, context.now), needy(job.spec, state)
    then = "it waits for its time" if early else "it waits for what it needs" if needs else "it is queued"
    reason = ": ".join(part for part in (f"released by {what.by}", what.reason) if part)
    entry = UnnumberedEntry("unheld", f"{reason}; {then}", what.by)
    phase = "WAITING" if early or needs else "PENDING"
    return commit(state, context.now, (entry,), phase=phase, held_by="")


def begin_due(job: Job, what: BeginDue, context: Context) -> Stepped | Refusal:
    state, spec = job.state, job.spec
    if state.held_by or _early(spec, context.now) or needy(spec, state):
        why = f"it is held by {state.held_by}" if state.held_by else "its time has not come, or its needs are not met"
        return Refusal(code="not-allowed", message=f"job {state.id} goes on waiting: {why}")
    entry = UnnumberedEntry("ready", "the time has come at which it may begin", "controller")
    return commit(state, context.now, (entry,), phase="PENDING", queued_at=context.now)


def needs_met(job: Job, what: NeedsMet, context: Context) -> Stepped | Refusal:
    state = job.state
    if not needy(job.spec, state):
        return Refusal(code="not-allowed", message=f"job {state.id} waits for no other job")
    update = replace(state.update or SpecUpdate(), inputs=what.inputs) if what.inputs else state.update
    return _ready(job, what.reason, context, update)


def needs_overdue(job: Job, what: NeedsOverdue, context: Context) -> Stepped | Refusal:
    """The moment that counts is this commit: what became of the jobs that it waits for is then judged once more."""
    state = job.state
    if state.needs_overdue or not needy(job.spec, state):
        return Refusal(code="not-allowed", message=f"job {state.id} waits for no other job, or has waited long enough")
    entry = UnnumberedEntry("overdue", what.reason, "controller")
    return commit(state, context.now, (entry,), needs_overdue=True, reason=state.reason)


def needs_unmet(job: Job, what: NeedsUnmet, context: Context) -> Stepped | Refusal:
    state = job.state
    if not needy(job.spec, state):
        return Refusal(code="not-allowed", message=f"job {state.id} waits for no other job")
    if what.then == "run":
        return _ready(job, f"{what.reason}; it runs all the same", context, state.update)
    ends: Phase = "SKIPPED" if what.then == "skip" else "FAILED"
    return commit(
        state, context.now, (UnnumberedEntry("unmet", what.reason, "controller"),),
        phase=ends, held_by="", reason=what.reason, ended_at=context.now, needs_overdue=False,
    )  # fmt: skip


def _ready(job: Job, reason: str, context: Context, update: SpecUpdate | None) -> Stepped:
    """Its needs are met; it may still be held, or be early."""
    state = job.state
    kept = bool(state.held_by) or _early(job.spec, context.now)
    # A held job goes on saying so.
    more: dict[str, Any] = {"reason": state.reason} if state.held_by else {}
    return commit(
        state, context.now, (UnnumberedEntry("ready", reason, "controller"),),
        phase="WAITING" if kept else "PENDING", needs_met=True, needs_overdue=False, queued_at=context.now,
        update=update, **more,
    )  # fmt: skip


def _early(spec: JobSpec, now: float) -> bool:
    return spec.begin_at is not None and now < spec.begin_at


def not_held(state: JobState, what: HoldBack | LetGo) -> Refusal:
    """Why a person's hold, or its end, does not apply, with the right way named."""
    if isinstance(what, LetGo):
        fix = "see what it waits for with `ares explain`" if state.phase in ("WAITING", "PENDING") else ""
        return Refusal(code="not-allowed", message=f"job {state.id} is {state.phase} and is not held", fix=fix)
    if state.phase in BOUND:
        fix = f"end it with `ares cancel {state.id}`, or hold it when it waits for a place again"
        return Refusal(
            code="not-allowed", message=f"job {state.id} is {state.phase}: only a job that waits can be held", fix=fix
        )
    message = f"job {state.id} is {state.phase}: its attempt is still ending"
    return Refusal(code="not-allowed", message=message, fix="hold it again in a moment")
