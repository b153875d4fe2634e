"""How wide the job is: 1 for a job that asks for half of the cluster or more.

By the resource it asks most of. Small jobs find gaps, wide ones have to be first; beside a job of half the cluster
there is no room for another one like it, so wider counts no more than that.
"""

from ares.core.queue.factors.factor import JobFacts
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy

_WIDEST = 0.5


def size(facts: JobFacts, shares: Shares, _order: OrderPolicy, _now: float) -> float:
    return min(1.0, shares.part(facts.asked) / _WIDEST)
