"""How long a job will run: a number to plan by, the interval around it, and where it comes from."""

from typing import NamedTuple

from ares.core.predict.by_model import runs_by_model, runs_on
from ares.model.job import JobSpec


class Estimate(NamedTuple):
    """Seconds. Four of five like jobs end between `low` and `high`; with nothing to go by the three are equal."""

    seconds: float
    low: float
    high: float
    basis: str


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
