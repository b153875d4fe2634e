"""Bugs in what people steer: changes, jobs sent back, schedules."""
# pyright: reportPrivateUsage=false

from msgspec.structs import replace as changed

from ares.control.submit import cron_loop
from ares.core.lifecycle import endings, handlers
from ares.core.lifecycle.graph import TRANSITIONS, Transition
from ares.core.lifecycle.inputs import Context, SendBack, Stepped
from ares.core.refusal import Refusal
from ares.model.state import Job, JobState
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import entry, replace

_NUMBERS = iter(range(1, 1 << 30))


def _never_outdated(state: JobState, updates: int) -> str:
    return ""


def _keeps_its_fence(job: Job, what: SendBack, context: Context) -> Stepped | Refusal:
    stepped = endings.send_back(job, what, context)
    if isinstance(stepped, Refusal):
        return stepped
    return changed(stepped, state=changed(stepped.state, fence=job.state.fence))


def _by_try(name: str, moment: float) -> str:
    return f"cron {name} {moment:.0f}-{next(_NUMBERS)}"


MUTANTS = {
    "update-without-compare": Mutant(
        "a grant lands on a job that asks for something else by now",
        ("E24",),
        replace(handlers, "_outdated", _never_outdated),
        case="updated-under-grant",
    ),
    "requeue-keeps-fence": Mutant(
        "an attempt that was sent back to the queue may still write",
        ("E3", "E4"),
        entry(TRANSITIONS, ("RUNNING", SendBack), Transition(_keeps_its_fence, frozenset({"PREEMPTED"}))),
        case="sent-back-under-report",
    ),
    "cron-fires-twice": Mutant(
        "a new leader makes the job of a schedule's moment again",
        ("E25",),
        replace(cron_loop, "request_id", _by_try),
        case="leader-dies-at-a-firing",
    ),
}
