"""One line of waiting jobs in order, cheap at both ends and small in memory."""

from bisect import bisect_left, insort

from ares.core.queue.order import Place, job_of

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
        """Takes out a place that is in the line."""
        self._settle()
        if self._places[self._start] == place:
            self._start += 1
            self._compact()
        else:
            del self._places[bisect_left(self._places, place, self._start)]

    def heads(self, limit: int) -> tuple[Place, ...]:
        """The first places, at most `limit`."""
        self._settle()
        return tuple(self._places[self._start : self._start + limit])

    def nth(self, number: int) -> Place:
        """The place at a position, counted from 0; negative ones count from the end."""
        self._settle()
        return self._places[self._start + number if number >= 0 else number]

    def jobs(self, number: int, count: int) -> list[str]:
        """The jobs at so many positions from `number` on."""
        self._settle()
        return [job_of(place) for place in self._places[self._start + number : self._start + number + count]]

    def before(self, place: Place) -> int:
        """How many places are ahead of `place`, which need not be in this line."""
        self._settle()
        return bisect_left(self._places, place, self._start) - self._start

    def without(self, place: Place) -> "Line":
        """A line of its own with all other places; with all places where this one is not among them."""
        self._settle()
        found = Line()
        found._places = places = self._places[self._start :]
        at = bisect_left(places, place)
        if places[at : at + 1] == [place]:
            del places[at]
        return found

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
