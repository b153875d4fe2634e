"""How far truth lies from what was said: an interval that four of five fall into, learned case by case."""

from math import exp, log
from typing import NamedTuple

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
