"""How little slack is left before the deadline: 0 until the horizon, 1 from when the job must start at once."""

from ares.core.predict.by_model import fastest, runs_by_model
from ares.core.queue.factors.factor import Facts
from ares.core.queue.shares import Shares
from ares.model.job import JobSpec
from ares.model.profile import OrderPolicy


def latest_start(spec: JobSpec) -> float | None:
    """When a job must start to meet its deadline: by its expected run time, on its best GPU model where it names some,
    else its limit, else as if it took none."""
    if spec.deadline_at is None:
        return None
    if spec.expected_runtimes_s:
        return spec.deadline_at - fastest(runs_by_model(spec))
    runs = spec.expected_runtime_s if spec.expected_runtime_s is not None else spec.time_limit_s
    return spec.deadline_at - (runs or 0.0)


def deadline(facts: Facts, _shares: Shares, order: OrderPolicy, now: float) -> float:
    if facts.latest_start is None:
        return 0.0
    return min(1.0, max(0.0, 1.0 - (facts.latest_start - now) / order.horizon_s))
