"""How long the job has waited, without end: the distance between two jobs never changes, so none is passed for ever."""

import numpy as np

from ares.core.queue.factors.factor import ClassFacts, Floats, JobFacts
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy


def age(facts: JobFacts, _shares: Shares, order: OrderPolicy, now: float) -> float:
    return max(0.0, now - facts.submitted_at) / order.ageing_s


def ages(facts: ClassFacts, _shares: Shares, order: OrderPolicy, now: float) -> Floats:
    return np.maximum(0.0, now - facts.submitted_at) / order.ageing_s
