"""One line of waiting jobs in rank order, cheap at both ends and small in memory."""

from bisect import bisect_left, insort

from ares.core.queue.order import Rank

# Up to this many latecomers are put in one by one; beyond it, sorting everything is cheaper.
_LATE_MAX = 32
_COMPACT_FROM = 1024


class Line:
    """Almost every job arrives last and leaves first; the others are put in or taken out by bisection."""

    __slots__ = ("_late", "_ranks", "_start")

    def __init__(self) -> None:
        self._ranks: list[Rank] = []
        self._start = 0
        self._late: list[Rank] = []

    def __len__(self) -> int:
        return len(self._ranks) - self._start + len(self._late)

    def add(self, rank: Rank) -> None:
        if not self._ranks or rank > self._ranks[-1]:
            self._ranks.append(rank)
        else:
            self._late.append(rank)

    def remove(self, rank: Rank) -> None:
        """Takes out a rank that is in the line."""
        self._settle()
        if self._ranks[self._start] == rank:
            self._start += 1
            self._compact()
        else:
            del self._ranks[bisect_left(self._ranks, rank, self._start)]

    def heads(self, limit: int) -> tuple[Rank, ...]:
        """The first ranks, at most `limit`."""
        self._settle()
        return tuple(self._ranks[self._start : self._start + limit])

    def before(self, rank: Rank) -> int:
        """How many are ahead of `rank`, which need not be in this line."""
        self._settle()
        return bisect_left(self._ranks, rank, self._start) - self._start

    def _settle(self) -> None:
        if not self._late:
            return
        if len(self._late) <= _LATE_MAX:
            for rank in self._late:
                insort(self._ranks, rank, self._start)
        else:
            self._ranks = sorted(self._ranks[self._start :] + self._late)
            self._start = 0
        self._late = []

    def _compact(self) -> None:
        if self._start == len(self._ranks) or (self._start >= _COMPACT_FROM and self._start * 2 >= len(self._ranks)):
            del self._ranks[: self._start]
            self._start = 0
