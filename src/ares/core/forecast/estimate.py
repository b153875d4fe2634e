"""How long a job will run: a number to plan by, the interval around it, and where it comes from."""

from math import inf
from typing import NamedTuple

from ares.core.topology.cards import words
from ares.model.job import FailureClass, JobSpec
from ares.model.state import JobState

# ---- Run times by GPU model, where a job states them.


# (model, seconds); the model "" stands for all models that are not named.
Runs = tuple[tuple[str, float], ...]


def runs_by_model(spec: JobSpec) -> Runs:
    """Empty when the job does not tell models apart. On models it does not name, its general run time counts."""
    said = spec.expected_runtimes_s
    if not said:
        return ()
    others = {} if spec.expected_runtime_s is None else {"": spec.expected_runtime_s}
    limit = inf if spec.time_limit_s is None else spec.time_limit_s
    return tuple((model, min(seconds, limit)) for model, seconds in sorted({**others, **said}.items()))


def runs_on(runs: Runs, gpu_model: str) -> float:
    """Models are matched by whole words; of several that fit, the most exact counts. Without any, the slowest."""
    name = words(gpu_model)
    fits = [(len(wanted), seconds) for model, seconds in runs if (wanted := words(model)) <= name]
    if not fits:
        return max(seconds for _, seconds in runs)
    most = max(fits)[0]
    return min(seconds for count, seconds in fits if count == most)


def fastest(runs: Runs) -> float:
    """The run time on the best of the models that the job names."""
    return min(seconds for model, seconds in runs if model)


class Estimate(NamedTuple):
    """Run times in seconds. Four of five like jobs end between `low` and `high`; without history the three are equal.

    `seconds` is the likely run time: the order may go by it. Holds and promises go by `hold_s`, never less than
    what the job states, nor than its limit."""

    seconds: float
    low: float
    high: float
    basis: str
    # The longest run time known: what the job states, an upper quantile of its history, its limit with the grace.
    longest: float = 0.0

    @property
    def hold_s(self) -> float:
        """How long room is taken to be held: plans are made around it, so it is rather too long than too short."""
        return max(self.seconds, self.longest)


def stated(spec: JobSpec, gpu_model: str | None = None) -> Estimate | None:
    """What the job itself says: its run time on that GPU model, its run time, else its limit."""
    runs, basis = spec.expected_runtime_s, "the run time it states"
    if gpu_model is not None and spec.expected_runtimes_s:
        runs, basis = runs_on(runs_by_model(spec), gpu_model), f"the run time it states for {gpu_model}"
    elif runs is None and spec.expected_runtimes_s:
        runs, basis = max(spec.expected_runtimes_s.values()), "the longest of the run times it states"
    if runs is None:
        runs, basis = spec.time_limit_s, "its time limit"
    elif spec.time_limit_s is not None:
        runs = min(runs, spec.time_limit_s)
    return None if runs is None else Estimate(runs, runs, runs, basis)


# ---- Ends that tell how long a job runs.


# A job that fails by itself, or at its limit, held its place that long, and the next of its kind may do the same.
# A job that was cancelled, lost its node or could not be staged tells nothing.
_ITS_OWN: frozenset[FailureClass | None] = frozenset({"exit", "signal", "oom", "time-limit"})


def run_time(state: JobState) -> float | None:
    """From the grant to the end; None when the job did not run its course, or not in one piece."""
    by_itself = state.phase == "SUCCEEDED" or (
        state.phase == "FAILED" and state.exit is not None and state.exit.failure in _ITS_OWN
    )
    if not by_itself or state.preemptions or state.bound_at is None or state.ended_at is None:
        return None
    return max(0.0, state.ended_at - state.bound_at)
