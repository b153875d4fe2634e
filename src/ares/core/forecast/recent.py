"""The latest few values of one kind, and their quantiles: the newer a value, the more it counts."""

from collections.abc import Iterable, Sequence

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

    def add(self, value: float) -> None:
        self._values.insert(0, value)
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
