"""Changes what a job asks for after it was admitted: judged as a submission is, and written in the transaction that
compares what it was judged by.

The specification stays as it was submitted, so a repeated request is still known for what it was. What is asked for
instead is in the job's state: what was decided from the state before does not land.
"""

from msgspec.structs import replace

from ares.api.updates import JobUpdate
from ares.control.execution.transitions import GuardFailed, JobChange, MissingJob, SteppedDraft, Transitions, Written
from ares.control.scheduler.deadlines import Deadlines
from ares.control.state.view import View
from ares.control.submit.draft import Drafting, SubmitRequest, refused_by
from ares.control.submit.pending_admissions import CreatedJob, LiveChange, SeenRequest
from ares.control.submit.quota_gate import Admissions
from ares.core.access.table import reaches
from ares.core.admit.admission import decide, too_late
from ares.core.admit.updates import changed, redated
from ares.core.lifecycle.inputs import Update
from ares.core.lifecycle.updates import changed_fields, difference
from ares.core.quota.asked import asked_by
from ares.core.quota.counts import counted_for, levels_of, to_come
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job import JobSpec
from ares.model.state import BOUND, TERMINAL, JobState
from ares.ports.clock import Clock

# Other changes of the same job that may come in between.
_TRIES = 10


class Updates:
    """Every change is decided anew when the job moved on meanwhile."""

    def __init__(
        self,
        view: View,
        transitions: Transitions,
        drafting: Drafting,
        deadlines: Deadlines,
        admissions: Admissions,
        clock: Clock,
    ) -> None:
        self._view = view
        self._transitions = transitions
        self._drafting = drafting
        self._deadlines = deadlines
        self._admissions = admissions
        self._clock = clock

    async def update(self, who: Principal, job_id: str, change: JobUpdate, by: str = "") -> JobState | Refusal | None:
        """The job as it is then; None where there is no such job. The caller has caught up, and may change it; `by` is
        what the ledger says of it, if that is not the caller."""
        for _ in range(_TRIES):
            entry = self._view.entries.get(job_id)
            if entry is None:
                return None
            state, spec = entry.state, self._view.spec(entry.state)
            if state.phase in TERMINAL or spec is None:
                message = f"job {job_id} is already {state.phase}, which is final"
                return Refusal(code="terminal", message=message)
            wanted = self._wanted(who, state, spec, change)
            if wanted is None:
                return state
            if isinstance(wanted, Refusal):
                return wanted
            outcome = await self._write(who, state, spec, replace(wanted, by=by or who.subject))
            if isinstance(outcome, JobState):
                return outcome
            await self._view.catch_up()
            moved = self._view.entries.get(job_id)
            if isinstance(outcome, Refusal) and moved is not None and moved.state.seq == state.seq:
                return outcome
        message = f"job {job_id} kept changing; nothing was written"
        return Refusal(code="store-unavailable", message=message, fix="send the change again", retry_after_s=1.0)

    # ---- judging

    def _wanted(self, who: Principal, state: JobState, spec: JobSpec, change: JobUpdate) -> Update | Refusal | None:
        """None when the job asks for exactly that already."""
        asked = changed(spec, change)
        fields = changed_fields(spec, redated(spec, asked))
        if not fields:
            return None
        # As it would be submitted, so that the same rules apply.
        bare = replace(asked, deadline_at=None, start_by_at=None) if asked.sla is not None else asked
        admitted = decide(bare)
        if isinstance(admitted, Refusal):
            return admitted
        judged = self._drafting.judged(who, SubmitRequest(spec=bare), 1)
        if isinstance(judged, Refusal):
            return judged
        if judged.rejected is not None:
            return refused_by(judged.rejected)
        no = self._no(who, state, spec, asked, judged.spec)
        if no is not None:
            return no
        final = redated(spec, judged.spec, self._deadlines.dated)
        seconds, cost = self._drafting.estimated(state, final)
        return Update(
            by=who.subject,
            spec=final,
            update=difference(self._drafting.submitted(state), final),
            updates=state.updates,
            reason=change.reason,
            cost_estimate=cost,
            estimated_s=seconds,
        )

    def _no(self, who: Principal, state: JobState, spec: JobSpec, asked: JobSpec, judged: JobSpec) -> Refusal | None:
        """Why it may not be changed to this, though nothing is wrong with it."""
        if asked.deadline_at != spec.deadline_at and (late := too_late(asked, self._clock.wall())) is not None:
            return late
        if asked.sla != spec.sla and (unknown := self._deadlines.unknown(judged)) is not None:
            return unknown
        if state.phase in BOUND and _longer(spec, judged) and not reaches(who, "jobs:extend", state.tenant):
            message = (
                f"job {state.id} was placed as a job of {_span(spec.time_limit_s)}, and others wait for its place: "
                f"its time limit cannot be raised to {_span(judged.time_limit_s)} while it runs"
            )
            fix = "ask an operator to, or lower it; a job that waits may be given any limit"
            return Refusal(code="not-allowed", message=message, fix=fix)
        return self._drafting.reservation_refusal(who, judged)

    # ---- writing

    async def _write(
        self, who: Principal, state: JobState, spec: JobSpec, wanted: Update
    ) -> JobState | Refusal | GuardFailed | None:
        """The state that was written. None, or a failed guard: decide again."""
        change, tenant = JobChange(state.id, state.tenant, (wanted,)), state.tenant
        if not self._admissions.limited(tenant):
            guarded = JobChange(state.id, tenant, (wanted,), (self._admissions.unlimited(tenant),))
            (outcome,) = await self._transitions.apply([guarded])
            match outcome:
                case Written(state=written):
                    return written
                case MissingJob():
                    return None
                case _:
                    return outcome
        drafted = self._transitions.drafted(change)
        if not isinstance(drafted, SteppedDraft):
            return drafted
        (admitted,) = await self._admissions.admit(tenant, [_counted(who, drafted, spec, wanted)])
        match admitted:
            case CreatedJob():
                return drafted.state
            case SeenRequest(kv):
                return drafted.state if kv.value == drafted.value else None
            case Refusal():
                return admitted


def _counted(who: Principal, draft: SteppedDraft, spec: JobSpec, wanted: Update) -> LiveChange:
    state = draft.entry.state
    return LiveChange(
        draft.ops,
        draft.compares,
        who,
        levels_of(state.team, state.submitted_by),
        counted_for(state.id, state.team, state.submitted_by),
        to_come(asked_by(spec), state.estimated_s, state.cost_estimate),
        to_come(asked_by(wanted.spec), wanted.estimated_s, wanted.cost_estimate),
        wanted.spec.priority if wanted.spec.priority != spec.priority else None,
    )


def _longer(before: JobSpec, after: JobSpec) -> bool:
    if before.time_limit_s is None:
        return False
    return after.time_limit_s is None or after.time_limit_s > before.time_limit_s


def _span(limit_s: float | None) -> str:
    return "no limit" if limit_s is None else f"{limit_s:g} s"
