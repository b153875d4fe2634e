"""Token buckets by the generic cell rate algorithm: one number per key, nothing to refill."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Below this many keys nothing is swept.
_SWEEP_MIN = 1024


class Buckets(Generic[K]):
    """A bucket per key. Full buckets are not kept: memory is bounded by what was taken lately."""

    __slots__ = ("_burst_s", "_each_s", "_full_at", "_sweep_at", "burst", "per_s")

    def __init__(self, per_s: float, burst: float) -> None:
        self.per_s = per_s
        self.burst = burst
        self._each_s = 1.0 / per_s
        self._burst_s = burst / per_s
        # When each bucket will be full again.
        self._full_at: dict[K, float] = {}
        self._sweep_at = _SWEEP_MIN

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: K, now: float, cost: float = 1.0) -> float:
        """Takes `cost` and returns 0, or takes nothing and returns in how many seconds there will be enough.
        A cost larger than a bucket is met by a full bucket."""
        full_at = self._full_at.get(key, now)
        after = (full_at if full_at > now else now) + min(cost, self.burst) * self._each_s
        # Rounding must not refuse the last of a burst.
        short_s = after - now - self._burst_s
        if short_s > 1e-9:
            return short_s
        self._full_at[key] = after
        if len(self._full_at) > self._sweep_at:
            self._sweep(now)
        return 0.0

    def left(self, key: K, now: float) -> float:
        """How much could be taken now."""
        return max(0.0, self.burst - max(0.0, self._full_at.get(key, now) - now) * self.per_s)

    def empty(self, key: K, now: float) -> bool:
        """Whether not even one token could be taken."""
        return self._full_at.get(key, now) - now + self._each_s - self._burst_s > 1e-9

    def _sweep(self, now: float) -> None:
        self._full_at = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        # Twice the number of keys left: each key is swept a bounded number of times, however many there are.
        self._sweep_at = max(_SWEEP_MIN, 2 * len(self._full_at))
