"""How much service the job has had, where it saves its work: less the more it has had, and 0 for all other jobs."""

from ares.core.queue.factors.factor import ClassFacts, Floats, JobFacts
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy


def served(facts: JobFacts, _shares: Shares, order: OrderPolicy, _now: float) -> float:
    return 0.0 - facts.served_s / order.ageing_s


def serveds(facts: ClassFacts, _shares: Shares, order: OrderPolicy, _now: float) -> Floats:
    return 0.0 - facts.served_s / order.ageing_s
