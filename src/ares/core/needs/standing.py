"""How a job that others wait for stands, as far as they go by it. An array counts as a whole."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from ares.model.job import NeedCondition
from ares.model.state import TERMINAL, JobState

Verdict = Literal["met", "open", "impossible"]

# By these the attempt's own program ended: it ran.
_RAN = frozenset({"exit", "signal", "oom", "time-limit"})


class ParentStanding(NamedTuple):
    """Of a job, or of all tasks of an array."""

    tasks: int = 1
    ended: int = 0
    succeeded: int = 0
    failed: int = 0
    ran: int = 0
    # Ended without ever having run.
    never_ran: int = 0
    # Have saved a checkpoint; ended without one; and the least step of those that have.
    saved: int = 0
    never_saved: int = 0
    step: int = 0

    def plus(self, other: "ParentStanding", sign: int = 1) -> "ParentStanding":
        """With the counts of `other` added or taken away; the number of tasks stays."""
        counts = (mine + sign * more for mine, more in zip(self[1:-1], other[1:-1], strict=True))
        return ParentStanding(self.tasks, *counts)


def standing(state: JobState) -> ParentStanding:
    ended, ran = state.phase in TERMINAL, has_run(state)
    return ParentStanding(
        ended=int(ended),
        succeeded=int(state.phase == "SUCCEEDED"),
        # Of a job whose end is unknown it is not known that it did its work.
        failed=int(state.phase in ("FAILED", "UNKNOWN")),
        ran=int(ran),
        never_ran=int(ended and not ran),
        saved=int(state.checkpoint is not None),
        never_saved=int(ended and state.checkpoint is None),
        step=0 if state.checkpoint is None else state.checkpoint.step,
    )


def standing_of_array(tasks: int, states: Iterable[JobState]) -> ParentStanding:
    found = ParentStanding(tasks=tasks)
    for state in states:
        found = found.plus(standing(state))
    return found


def has_run(state: JobState) -> bool:
    """Whether any attempt is known to have begun to run."""
    if state.phase in ("RUNNING", "SUCCEEDED") or state.started_at is not None or state.restarts:
        return True
    if state.first_started_at is not None:
        return True
    return (state.exit is not None and state.exit.failure in _RAN) or not _RAN.isdisjoint(state.retries)


def verdict(on: NeedCondition, parent: ParentStanding | None, at_step: int | None = None) -> Verdict:
    """Whether the condition holds. A job that is no longer kept can meet none."""
    if parent is None:
        return "impossible"
    over = parent.ended == parent.tasks
    match on:
        case "success":
            met, impossible = parent.succeeded == parent.tasks, parent.ended > parent.succeeded
        case "failure":
            met, impossible = over and parent.failed > 0, over
        case "end":
            met, impossible = over, False
        case "start":
            met, impossible = parent.ran == parent.tasks, parent.never_ran > 0
        case "checkpoint":
            met = parent.saved == parent.tasks and parent.step >= (at_step or 0)
            impossible = parent.never_saved > 0 or over
    return "met" if met else "impossible" if impossible else "open"
