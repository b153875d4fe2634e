"""What is odd about the newest values of series: by how rare they are among what each series has shown before.

Levels, such as a queue's depth: the distance from the median, in units of the usual scatter, and how likely that is by
the tail of the distances that were seen (peaks over a threshold: the largest 2 % are taken to fall off exponentially).
Counts of rare events, such as failures: how likely so many are in ten minutes, by the rate of the day before; and
how likely it is that none comes, while jobs wait, by the rate of the hour before. All ask for the same probability, so
there is one threshold, and one odd minute is not enough.
"""

from math import exp, lgamma, log
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# How rare it must be. A platform has some ten thousand values a day: one false alarm in weeks.
RARE: Final = 1e-6
# Minutes of history that it takes before anything is said, and that are looked at.
HISTORY_MIN: Final = 180
HISTORY_MAX: Final = 2880
# The newest minutes are what is judged, and so no part of what is usual.
_JUDGED: Final = 2
_GAP: Final = 8
_TAIL: Final = 0.02
# In ten minutes, so many events at least: two failures are no storm, however rare they are.
COUNT_WINDOW: Final = 10
COUNT_MIN: Final = 5
_HOUR: Final = 60
_MAD_TO_SIGMA: Final = 1.4826


class Oddity(NamedTuple):
    """`probability` of a value this far from the usual range between `low` and `high`."""

    value: float
    low: float
    high: float
    probability: float


def odd_level(values: Floats, floor: float, *, rises: bool = True, falls: bool = True) -> Oddity | None:
    """Of a series by minutes, the newest last. `floor` is a distance that is never odd. Missing minutes are not a
    number; without enough history nothing is said."""
    newest = values[-_JUDGED:]
    past = values[-HISTORY_MAX : -(_JUDGED + _GAP)]
    past = past[np.isfinite(past)]
    if len(past) < HISTORY_MIN or not np.isfinite(newest).all():
        return None
    middle = float(np.median(past))
    scatter = max(float(np.median(np.abs(past - middle))) * _MAD_TO_SIGMA, floor / 6.0, 1e-9)
    distances = np.abs(past - middle) / scatter
    # The milder of the newest two: one odd minute is not enough. They must lie on one side.
    signed = (newest - middle) / scatter
    if not ((signed > 0).all() and rises) and not ((signed < 0).all() and falls):
        return None
    mild = float(np.abs(signed).min())
    if mild * scatter < floor:
        return None
    bound = float(np.quantile(distances, 1.0 - _TAIL))
    beyond = distances[distances > bound] - bound
    # The largest that was seen is within the usual, however thin the tail: twice its mean excess at least.
    slope = max(float(beyond.mean()) if len(beyond) else 0.0, bound / 6.0, 0.5)
    probability = _TAIL * exp(-max(0.0, mild - bound) / slope) if mild > bound else 1.0
    if probability > RARE:
        return None
    reach = bound * scatter
    return Oddity(float(newest[-1]), middle - reach, middle + reach, probability)


def odd_count(per_minute: Floats) -> Oddity | None:
    """Of counts by minutes, the newest last: too many in the last ten. Missing minutes count as the others do."""
    window = per_minute[-COUNT_WINDOW:]
    past = per_minute[-HISTORY_MAX:-COUNT_WINDOW]
    past = past[np.isfinite(past)]
    if len(past) < HISTORY_MIN or not np.isfinite(window).any():
        return None
    count = float(np.nansum(window))
    if count < COUNT_MIN:
        return None
    # Events come in bursts: sums over ten minutes scatter by more than chance alone, and that is part of the usual.
    whole = past[len(past) % COUNT_WINDOW :].reshape(-1, COUNT_WINDOW).sum(axis=1)
    mean = max(float(whole.mean()), 0.5 / max(1, len(whole)) * COUNT_WINDOW)
    spread = max(1.0, float(whole.var()) / mean)
    probability = poisson_tail(count / spread, mean / spread)
    if probability > RARE:
        return None
    return Oddity(count, 0.0, float(whole.max(initial=0.0)), probability)


def odd_drought(per_minute: Floats, waiting: Floats) -> Oddity | None:
    """Of counts by minutes, the newest last: none of late, as rare as that is by the hour before, while jobs wait."""
    past = per_minute[-(_HOUR + COUNT_WINDOW) : -COUNT_WINDOW]
    past = past[np.isfinite(past)]
    if len(past) < _HOUR // 2 or not past.mean() > 0.0:
        return None
    # So many minutes without any are rare enough.
    minutes = int(np.ceil(-log(RARE) / float(past.mean())))
    if minutes > COUNT_WINDOW:
        return None
    minutes = max(minutes, _JUDGED)
    lately, queue = per_minute[-minutes:], waiting[-minutes:]
    if not (lately == 0.0).all() or not (queue >= 1.0).all():
        return None
    mean = float(past.mean()) * COUNT_WINDOW
    return Oddity(0.0, mean / 2, float(past.max()) * COUNT_WINDOW, exp(-float(past.mean()) * minutes))


def poisson_tail(count: float, mean: float) -> float:
    """How likely so many or more are, from above (Chernoff), and exactly where they are few."""
    if count <= mean:
        return 1.0
    if count > 200:
        return exp(min(0.0, count - mean - count * log(count / mean)))
    whole = int(np.floor(count))
    below = sum(exp(-mean + k * log(mean) - lgamma(k + 1)) for k in range(whole))
    # What is left of the sum is lost in rounding where it is tiny: there the bound is good enough.
    left = 1.0 - below
    return left if left > 1e-9 else exp(min(0.0, count - mean - count * log(count / mean)))
