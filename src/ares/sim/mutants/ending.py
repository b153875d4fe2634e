"""Bugs in how jobs and attempts end: too early, too late, too often."""
# pyright: reportPrivateUsage=false

from typing import Any

from msgspec.structs import replace as changed

from ares.core.lifecycle import endings, handlers, retry
from ares.core.lifecycle.graph import TRANSITIONS, Handler, Transition
from ares.core.lifecycle.inputs import Cancel, Context, Exit, Preempt, Stepped
from ares.core.lifecycle.ledger import UnnumberedEntry
from ares.core.refusal import Refusal
from ares.model.job import JobSpec
from ares.model.state import ExitInfo, Job, JobState
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import Patch, entry, replace, together

_over, _decide, _veto = endings._over, retry.decide, retry._veto


def _handled_by(kind: type[Any], handler: Handler) -> Patch:
    """In every phase that takes such an input."""
    rows = [(key, row) for key, row in TRANSITIONS.items() if key[1] is kind]
    return together(*(entry(TRANSITIONS, key, Transition(handler, row.targets)) for key, row in rows))


# ---- taken away


def _cancel_and_forget(job: Job, what: Cancel, context: Context) -> Stepped | Refusal:
    done = handlers.cancel(job, what, context)
    return done if isinstance(done, Refusal) else changed(done, state=changed(done.state, lingering=False))


def _cancel_softly(job: Job, what: Cancel, context: Context) -> Stepped | Refusal:
    """The attempt keeps its fence: it may still say how it ended."""
    done = handlers.cancel(job, what, context)
    return done if isinstance(done, Refusal) else changed(done, state=changed(done.state, fence=job.state.fence))


def _preempt_at_once(job: Job, what: Preempt, context: Context) -> Stepped | Refusal:
    done = endings.preempt(job, what, context)
    if isinstance(done, Refusal):
        return done
    waiting = changed(done.state, phase="PENDING", lingering=False, placements=(), queued_at=context.now)
    return changed(done, state=waiting)


def _whole_gang_gone(job: Job, gone: tuple[int, ...], context: Context, fate: Any) -> dict[str, Any]:
    left = _over(job, gone, context, fate)
    return {**left, "lingering": False, "ended_ranks": (), "started_ranks": (), "leaving": ()}


def _one_is_enough(
    state: JobState, started: tuple[int, ...], at: float
) -> tuple[dict[str, Any], tuple[UnnumberedEntry, ...]]:
    if state.phase != "STAGING":
        return {"started_ranks": started}, ()
    return {"started_ranks": started, "phase": "RUNNING", "started_at": at}, (
        UnnumberedEntry("started", "", "controller"),
    )


# ---- repeated


def _forgetful(spec: JobSpec, state: JobState, exit_info: ExitInfo, jitter: float) -> retry.Again | retry.Final:
    return _decide(spec, changed(state, retries={}), exit_info, jitter)


def _unlimited(spec: JobSpec, failure: Any) -> int:
    return 1000


def _no_veto(spec: JobSpec, state: JobState, exit_info: ExitInfo) -> str:
    return _veto(changed(spec, effects="staged"), state, exit_info)


_CANCELLED_EXIT = entry(
    TRANSITIONS, ("CANCELLED", Exit), Transition(endings.finish, frozenset({"SUCCEEDED", "FAILED", "RETRYING"}))
)

MUTANTS = {
    "cancelled-place-given-away": Mutant(
        "a cancelled job holds nothing, though its processes may run",
        ("E8", "E15"),
        _handled_by(Cancel, _cancel_and_forget),
    ),
    "cancel-loses-to-success": Mutant(
        "a success that comes after a cancel counts",
        ("E2", "E3", "E13"),
        together(_handled_by(Cancel, _cancel_softly), _CANCELLED_EXIT),
    ),
    "preempted-place-given-away": Mutant(
        "the place of a preempted job is free before it has left",
        ("E8", "E10", "E15"),
        _handled_by(Preempt, _preempt_at_once),
    ),
    "gang-forgotten": Mutant(
        "when one rank of a gang ends it, the others hold nothing",
        ("E8", "E10", "E15"),
        replace(endings, "_over", _whole_gang_gone),
    ),
    "gang-runs-half": Mutant(
        "a gang runs as soon as one rank has started",
        ("E4", "E17"),
        together(replace(handlers, "assembled", _one_is_enough), replace(endings, "assembled", _one_is_enough)),
    ),
    "retry-budget-reset": Mutant("every failure is the first", ("E7",), replace(retry, "decide", _forgetful)),
    "retries-unlimited": Mutant(
        "the limits of retries are not looked at", ("E7",), replace(retry, "limit_of", _unlimited)
    ),
    "unsafe-repeated": Mutant(
        "a job whose effects are unsafe is tried again", ("E7",), replace(retry, "_veto", _no_veto)
    ),
}
