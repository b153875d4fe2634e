"""The latest few values of one kind, and their quantiles: the newer a value, the more it counts."""

from collections.abc import Iterable, Sequence

KEPT = 16
# What a value counts against the next newer one: behaviour that changed is followed after a handful of jobs.
DECAY = 0.8
_WEIGHTS = tuple(DECAY**age for age in range(KEPT))
# From sums of these, in floating point.
_SLACK = 1e-9


class Recent:
    """Never more than `KEPT` values, so its size and cost do not grow with what it has seen."""

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
        ranked = sorted(zip(self._values, _WEIGHTS, strict=False))
        wanted = share * sum(_WEIGHTS[: len(ranked)]) - _SLACK
        below = 0.0
        for value, weight in ranked:
            below += weight
            if below >= wanted:
                return value
        raise ValueError("no values: ask `len` first")
