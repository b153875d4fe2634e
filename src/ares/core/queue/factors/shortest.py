"""How short the job is: 1 for a job that takes no time at all, 0 when its run time is not known."""

from ares.core.queue.factors.factor import JobFacts
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy


def shortest(facts: JobFacts, _shares: Shares, _order: OrderPolicy, _now: float) -> float:
    return 1.0 / (1.0 + facts.runs_s)
