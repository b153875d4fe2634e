"""Which traces are worth a collector's room: told at the job's end, when it is known how it went."""

from typing import Final, Literal

from ares.core.lifecycle.deadline import outcome
from ares.core.trace.ids import trace_id_of
from ares.model.base import Record
from ares.model.state import JobState

TailReason = Literal["failed", "retried", "preempted", "late", "slow", "sampled"]

_PARTS: Final = 1 << 32


class TailRules(Record, frozen=True):
    """Of jobs that went as they should, so many percent are taken. One that waited this long for its start is slow."""

    percent: float = 5.0
    slow_s: float = 300.0


def worth_telling(state: JobState, rules: TailRules) -> TailReason | None:
    """Of a job that has ended. None: its trace is not exported; `ares trace` still has it."""
    if state.phase in ("FAILED", "UNKNOWN"):
        return "failed"
    if state.attempt > 1 + state.preemptions or state.retry_of is not None:
        return "retried"
    if state.preemptions:
        return "preempted"
    if outcome(state) == "missed":
        return "late"
    begins = state.first_started_at or state.ended_at
    if begins is not None and begins - state.submitted_at >= rules.slow_s:
        return "slow"
    # By the trace's id: jobs of one trace are all taken, or none of them, on whatever replica they end.
    return "sampled" if int(trace_id_of(state)[-8:], 16) < rules.percent / 100.0 * _PARTS else None
