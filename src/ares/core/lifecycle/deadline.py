"""Whether a job with a deadline met it."""

from typing import Any, Literal

from ares.model.state import TERMINAL, JobState

Outcome = Literal["met", "missed"]


def first_start(state: JobState, at: float) -> dict[str, Any]:
    """What to note at the first start: of jobs that should have started by some time; of others only when they are
    bound again."""
    return {"first_started_at": at} if state.start_by_at is not None and state.first_started_at is None else {}


def started_before(state: JobState) -> dict[str, Any]:
    """What to note when the next attempt takes the place of one that ran: that one did."""
    ran = state.started_at is not None and state.first_started_at is None
    return {"first_started_at": state.started_at} if ran else {}


def outcome(state: JobState) -> Outcome | None:
    """None without a deadline, while it is open, and for a job that was cancelled before it was decided."""
    parts = [
        part(state) for wanted, part in ((state.start_by_at, _start), (state.deadline_at, _end)) if wanted is not None
    ]
    if "missed" in parts:
        return "missed"
    return "met" if parts and None not in parts else None


def _start(state: JobState) -> Outcome | None:
    if state.first_started_at is not None:
        return "met" if state.first_started_at <= (state.start_by_at or 0.0) else "missed"
    return None if state.phase == "CANCELLED" or state.phase not in TERMINAL else "missed"


def _end(state: JobState) -> Outcome | None:
    if state.phase == "CANCELLED" or state.phase not in TERMINAL:
        return None
    in_time = state.ended_at is not None and state.ended_at <= (state.deadline_at or 0.0)
    return "met" if state.phase == "SUCCEEDED" and in_time else "missed"


def decided_at(state: JobState) -> float | None:
    """When it was decided whether the deadline was met; None while it is not."""
    if outcome(state) is None:
        return None
    times = (state.first_started_at if state.deadline_at is None else None, state.ended_at, state.first_started_at)
    return next((at for at in times if at is not None), None)


def budget_left(met: int, missed: int, target_percent: float) -> float | None:
    """How much of the error budget is left, in percent; None before anything was decided."""
    if not met + missed:
        return None
    allowed = (met + missed) * (1.0 - target_percent / 100.0)
    if allowed <= 0.0:
        return 0.0 if not missed else -100.0 * missed
    return round(100.0 * (1.0 - missed / allowed), 2)
