"""One line of waiting jobs in order, cheap at both ends and small in memory."""

from bisect import bisect_left, insort

from ares.core.queue.order import Place

# Up to this many latecomers are put in one by one; beyond it, sorting everything is cheaper.
_LATE_MAX = 32
_COMPACT_FROM = 1024


class Line:
    """Almost every job arrives last and leaves first; the others are put in or taken out by bisection."""

    __slots__ = ("_late", "_places", "_start")

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._start = 0
        self._late: list[Place] = []

    def __len__(self) -> int:
        return len(self._places) - self._start + len(self._late)

    def add(self, place: Place) -> None:
        if not self._places or place > self._places[-1]:
            self._places.append(place)
        else:
            self._late.append(place)

    def remove(self, place: Place) -> None:
        """Takes out one that is in the line."""
        self._settle()
        if self._places[self._start] == place:
            self._start += 1
            self._compact()
        else:
            del self._places[bisect_left(self._places, place, self._start)]

    def heads(self, limit: int) -> tuple[Place, ...]:
        """The first, at most `limit`."""
        self._settle()
        return tuple(self._places[self._start : self._start + limit])

    def nth(self, number: int) -> Place:
        """The place at a position, counted from 0; negative ones count from the end."""
        self._settle()
        return self._places[self._start + number if number >= 0 else number]

    def before(self, place: Place) -> int:
        """How many are ahead of `place`, which need not be in this line."""
        self._settle()
        return bisect_left(self._places, place, self._start) - self._start

    def _settle(self) -> None:
        if not self._late:
            return
        if len(self._late) <= _LATE_MAX:
            for place in self._late:
                insort(self._places, place, self._start)
        else:
            self._places = sorted(self._places[self._start :] + self._late)
            self._start = 0
        self._late = []

    def _compact(self) -> None:
        if self._start == len(self._places) or (self._start >= _COMPACT_FROM and self._start * 2 >= len(self._places)):
            del self._places[: self._start]
            self._start = 0
