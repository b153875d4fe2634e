"""Where a tenant's month is going, by the days that are closed."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Final, NamedTuple

from ares.core.books.days import DAY_S, day_of
from ares.core.quota.measures import month_end

# Fewer days say nothing of the next.
DAYS_MIN: Final = 3
DAYS_MAX: Final = 14
# Four of five values of a normal distribution lie within so many of its deviations.
_FOUR_OF_FIVE: Final = 1.2816


class MonthAhead(NamedTuple):
    per_day: float
    projected: float
    low: float
    high: float
    used_up_on: str | None


def month_ahead(spent: float, daily: Sequence[float], now: float, budget: float | None) -> MonthAhead | None:
    """`daily` is what the last closed days cost, the newest last. None with too few of them."""
    days = [max(0.0, cost) for cost in daily[-DAYS_MAX:]]
    if len(days) < DAYS_MIN:
        return None
    left = max(0.0, month_end(now) - now) / DAY_S
    per_day = fmean(days)
    # The mean itself is uncertain too: of few days more than of many.
    spread = _FOUR_OF_FIVE * stdev(days) * sqrt(left + left**2 / len(days))
    projected = spent + per_day * left
    ends: str | None = None
    if budget is not None and projected >= budget:
        ends = day_of(now) if spent >= budget else day_of(now + (budget - spent) / per_day * DAY_S)
    return MonthAhead(per_day, projected, max(spent, projected - spread), projected + spread, ends)
