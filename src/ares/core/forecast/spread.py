"""Statistics of what was said and what came: the latest values and their quantiles, an interval that four of five fall
into, learned case by case, and how good predictions were."""

from collections import deque
from collections.abc import Iterable, Sequence
from math import exp, log
from statistics import median
from typing import NamedTuple

from ares.api.predictions import Accuracy
from ares.model.base import Record

COVERAGE = 0.8
_MISS = (1.0 - COVERAGE) / 2
# How far an end moves when it was wrong, in log units.
_RATE = 0.08
_WIDEST = 16.0
_FIRST = log(5.0)

# (low, high, seen, within)
SpreadData = tuple[float, float, int, int]


class IntervalEnds(NamedTuple):
    """The ends of one interval, as it was given."""

    low: float
    high: float


class Spread:
    """Both ends are logarithms of truth over what was said.

    Each end goes out when the truth was beyond it and in when it was not, nine times less: in the long run one in ten
    lies beyond either end, whatever the cases do. Nothing is assumed about them, and what changes is followed.
    """

    __slots__ = ("high", "low", "seen", "within")

    def __init__(self, data: SpreadData = (-_FIRST, _FIRST, 0, 0)) -> None:
        self.low: float = data[0]
        self.high: float = data[1]
        self.seen: int = data[2]
        self.within: int = data[3]

    @property
    def data(self) -> SpreadData:
        return self.low, self.high, self.seen, self.within

    def around(self, said: float, floor: float = 0.0) -> tuple[float, float]:
        """The interval. `floor` is added to both sides, so that seconds do not weigh like hours."""
        base = said + floor
        return max(0.0, base * exp(self.low) - floor), max(0.0, base * exp(self.high) - floor)

    @property
    def ends(self) -> IntervalEnds:
        """The ends now, to be judged by later."""
        return IntervalEnds(self.low, self.high)

    def judge(self, said: float, truth: float, floor: float = 0.0, given: IntervalEnds | None = None) -> bool:
        """Whether the truth was within the ends that were given, now unless told. What was given late is what counts:
        of many that were told the same in one moment, each one that missed moves an end."""
        low, high = given or (self.low, self.high)
        miss = log((max(truth, 0.0) + floor) / (said + floor))
        below, above = miss < low, miss > high
        # The first cases move an end further: the first interval was a guess.
        rate = _RATE * (1.0 + 8.0 / (1.0 + self.seen / 8.0))
        self.low = max(-_WIDEST, self.low + rate * (_MISS - below))
        self.high = min(_WIDEST, self.high - rate * (_MISS - above))
        if self.low > self.high:
            self.low = self.high = (self.low + self.high) / 2
        self.seen += 1
        self.within += not (below or above)
        return not (below or above)


# ---- the latest values

KEPT = 16
# What a value counts against the next newer one: behaviour that changed is followed after a handful of jobs.
DECAY = 0.8
_WEIGHTS = tuple(DECAY**age for age in range(KEPT))
_SUMS = tuple(sum(_WEIGHTS[:count]) for count in range(KEPT + 1))
# From sums of these, in floating point.
_SLACK = 1e-9


class RecentValues:
    """Never more than `KEPT` values, so that size and cost do not grow with what was seen."""

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[float] = ()) -> None:
        # The newest comes first.
        self._values = list(values)[:KEPT]

    def __len__(self) -> int:
        return len(self._values)

    def add(self, *values: float) -> None:
        """The newest of them comes last."""
        self._values[:0] = values[::-1]
        del self._values[KEPT:]

    @property
    def values(self) -> Sequence[float]:
        return self._values

    def quantile(self, share: float) -> float:
        """The smallest value that at least this share of the weight is at or below."""
        return self.quantiles(share, share)[0]

    def quantiles(self, lower: float, upper: float) -> tuple[float, float]:
        """Two quantiles for the price of one. The lower one comes first."""
        ranked = sorted(zip(self._values, _WEIGHTS, strict=False))
        whole = _SUMS[len(ranked)]
        low, high, below, first = lower * whole - _SLACK, upper * whole - _SLACK, 0.0, None
        for value, weight in ranked:
            below += weight
            if first is None and below >= low:
                first = value
            if first is not None and below >= high:
                return first, value
        raise ValueError("no values: ask `len` first")


# ---- how good predictions were

# The median is over this many of the latest jobs.
_LATEST = 4096


class JudgedData(Record, frozen=True):
    """Plain data, to be kept."""

    jobs: int = 0
    error_s: float = 0.0
    within: int = 0
    relative: tuple[float, ...] = ()


class AccuracyCount:
    def __init__(self, data: JudgedData = JudgedData()) -> None:  # noqa: B008 - frozen
        self._jobs, self._error_s, self._within = data.jobs, data.error_s, data.within
        self._relative = deque(data.relative, _LATEST)

    def add(self, said_s: float, truth_s: float, within: bool) -> None:
        self._jobs += 1
        self._error_s += abs(said_s - truth_s)
        self._within += within
        self._relative.append(abs(said_s - truth_s) / max(truth_s, 1.0))

    @property
    def data(self) -> JudgedData:
        return JudgedData(jobs=self._jobs, error_s=self._error_s, within=self._within, relative=tuple(self._relative))

    @property
    def accuracy(self) -> Accuracy:
        if not self._jobs:
            return Accuracy()
        return Accuracy(
            jobs=self._jobs,
            mean_absolute_error_s=self._error_s / self._jobs,
            median_relative_error=median(self._relative),
            within=self._within / self._jobs,
        )


def distance(said_s: float, truth_s: float) -> float:
    """Twice as long and half as long are equally far off; a few seconds are no error."""
    return abs(log((said_s + 10.0) / (truth_s + 10.0)))
