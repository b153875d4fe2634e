"""A wall clock that cannot be moved by setting it: what is believed of it, and from when on."""

from typing import NamedTuple


class Steady(NamedTuple):
    """`at` was the time when the monotonic clock showed `since`. A wall clock that is ahead of it by more than is
    believed at once has been so from `jumped_since` on."""

    at: float
    since: float
    jumped_since: float | None = None

    def now(self, monotonic: float) -> float:
        """Goes on with the monotonic clock: never backwards, and never in leaps."""
        return self.at + (monotonic - self.since)

    def looked(self, wall: float, monotonic: float, at_once_s: float, after_s: float) -> "Steady":
        """A wall clock that is ahead is followed if it is so by little, or has been so for long; one that was set
        back is not."""
        ahead_s = wall - self.now(monotonic)
        if ahead_s <= 0:
            return self if self.jumped_since is None else self._replace(jumped_since=None)
        since = monotonic if self.jumped_since is None else self.jumped_since
        if ahead_s <= at_once_s or monotonic - since >= after_s:
            return Steady(wall, monotonic)
        return self._replace(jumped_since=since)
