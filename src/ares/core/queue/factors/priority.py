"""The job's priority: one for each level above BEST_EFFORT."""

from ares.core.queue.factors.factor import ClassFacts, Floats, JobFacts
from ares.core.queue.shares import Shares
from ares.model.job import PRIORITIES
from ares.model.profile import OrderPolicy

_LOWEST = len(PRIORITIES) - 1


def priority(facts: JobFacts, _shares: Shares, _order: OrderPolicy, _now: float) -> float:
    return float(_LOWEST - facts.level)


def priorities(facts: ClassFacts, _shares: Shares, _order: OrderPolicy, _now: float) -> Floats:
    return (_LOWEST - facts.level).astype(float)
