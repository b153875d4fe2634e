"""How little slack is left before the deadline: 0 until the horizon, 1 when the job must start at once.

0 again once the job would miss it though it started now: a deadline that is lost goes before none that can be met.
"""

from math import inf

import numpy as np

from ares.core.forecast.estimate import fastest, runs_by_model
from ares.core.queue.factors.factor import ClassFacts, Floats, JobFacts
from ares.core.queue.shares import Shares
from ares.model.job import JobSpec
from ares.model.profile import OrderPolicy


def latest_start(spec: JobSpec, runs_s: float = inf) -> float | None:
    """When a job must start to meet its deadline: by the run time it states, on its best GPU model where it names
    some; else by what is known of its kind, else by its limit, else as if it took no time."""
    starts = [] if spec.start_by_at is None else [spec.start_by_at]
    if spec.deadline_at is not None:
        starts.append(spec.deadline_at - _least_s(spec, runs_s))
    return min(starts, default=None)


def _least_s(spec: JobSpec, runs_s: float) -> float:
    if spec.expected_runtimes_s:
        return fastest(runs_by_model(spec))
    if spec.expected_runtime_s is not None:
        return spec.expected_runtime_s
    return runs_s if runs_s < inf else spec.time_limit_s or 0.0


def deadline(facts: JobFacts, _shares: Shares, order: OrderPolicy, now: float) -> float:
    if facts.latest_start is None or facts.latest_start < now:
        return 0.0
    return min(1.0, max(0.0, 1.0 - (facts.latest_start - now) / order.horizon_s))


def deadlines(facts: ClassFacts, _shares: Shares, order: OrderPolicy, now: float) -> Floats | float:
    # Of jobs without a deadline it is not a number, which is not later than anything.
    dated = facts.latest_start >= now
    if not dated.any():
        return 0.0
    near = 1.0 - (np.where(dated, facts.latest_start, 0.0) - now) / order.horizon_s
    return np.where(dated, np.clip(near, 0.0, 1.0), 0.0)
