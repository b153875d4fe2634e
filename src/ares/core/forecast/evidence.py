"""Which ends tell how long a job runs."""

from ares.model.job import FailureClass
from ares.model.state import JobState

# A job that fails by itself, or at its limit, held its place that long, and the next of its kind may do the same.
# One that was cancelled, lost its node or could not be staged tells nothing.
_ITS_OWN: frozenset[FailureClass | None] = frozenset({"exit", "signal", "oom", "time-limit"})


def run_time(state: JobState) -> float | None:
    """From the grant to the end, or None when it did not run its course, or not in one piece."""
    by_itself = state.phase == "SUCCEEDED" or (
        state.phase == "FAILED" and state.exit is not None and state.exit.failure in _ITS_OWN
    )
    if not by_itself or state.preemptions or state.bound_at is None or state.ended_at is None:
        return None
    return max(0.0, state.ended_at - state.bound_at)
