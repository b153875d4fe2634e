"""How long a job will run: a number to plan by, the interval around it, and where it comes from."""

from typing import NamedTuple

from ares.core.forecast.by_model import runs_by_model, runs_on
from ares.model.job import JobSpec


class Estimate(NamedTuple):
    """Seconds. Four of five like jobs end between `low` and `high`; with nothing to go by the three are equal.

    `seconds` is the likely run time: the order may go by it. Holds and promises go by `hold_s`, never less than
    what the job states, nor than its limit."""

    seconds: float
    low: float
    high: float
    basis: str
    # The most that is known of it: what it states, an upper quantile of its history, its limit with the grace.
    longest: float = 0.0

    @property
    def hold_s(self) -> float:
        """How long room is taken to be held: others plan around it, so it is rather too long than too short."""
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
