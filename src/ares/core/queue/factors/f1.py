"""Small, short and early first: the rule F1 that Carastan-Santos and de Camargo found by regression (SC 2017)."""

from math import isinf, log10

from ares.core.queue.factors.factor import JobFacts
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy

# Scales the value so that common jobs get about -1 to 0.
_SCALE = 1e4
_SILENT_S = 31_536_000.0


def f1(facts: JobFacts, _shares: Shares, _order: OrderPolicy, _now: float) -> float:
    runs_s = _SILENT_S if isinf(facts.runs_s) else facts.runs_s
    area = log10(max(1.0, runs_s)) * facts.width
    return -(area + 870.0 * log10(max(1.0, facts.submitted_at))) / _SCALE
