"""Nothing: all jobs are equal, and between equals the earlier submission comes first."""

from ares.core.queue.factors.factor import ClassFacts, JobFacts
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy


def fifo(_facts: JobFacts, _shares: Shares, _order: OrderPolicy, _now: float) -> float:
    return 0.0


def fifos(_facts: ClassFacts, _shares: Shares, _order: OrderPolicy, _now: float) -> float:
    return 0.0
