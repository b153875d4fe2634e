"""How long jobs waited, as counts by bounds: they add up over days, and quantiles are read from the sum."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

# The last count is of waits beyond the last bound.
BOUNDS_S: Final = (
    1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0, 43_200.0,
    86_400.0, 172_800.0, 604_800.0,
)  # fmt: skip


def counted(waits_s: Iterable[float]) -> tuple[int, ...]:
    counts = [0] * (len(BOUNDS_S) + 1)
    for wait_s in waits_s:
        counts[bisect_left(BOUNDS_S, wait_s)] += 1
    return tuple(counts) if any(counts) else ()


def added(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    if not one or not other:
        return tuple(one or other)
    return tuple(mine + theirs for mine, theirs in zip(one, other, strict=True))


def quantile(counts: Sequence[int], part: float) -> float | None:
    """By straight lines within the bounds; beyond the last bound, that bound. None without any."""
    wanted, so_far = part * sum(counts), 0
    if not sum(counts):
        return None
    for place, number in enumerate(counts):
        if number and so_far + number >= wanted:
            if place >= len(BOUNDS_S):
                break
            below = BOUNDS_S[place - 1] if place else 0.0
            return below + (BOUNDS_S[place] - below) * (wanted - so_far) / number
        so_far += number
    return BOUNDS_S[-1]
