"""Who holds what until when, node by node: by the estimates, and in the order of their ends."""

import heapq
from bisect import bisect_left, insort
from math import inf
from typing import NamedTuple

import numpy as np

from ares.core.capacity.node_table import Ints
from ares.model.state import Placement


class End(NamedTuple):
    """One rank that frees what it holds at this time. What comes first makes it unique."""

    at: float
    job: str
    rank: int
    place: Placement


class Future:
    """Kept in step with what is held. An end that nobody knows is at infinity."""

    def __init__(self) -> None:
        self._ends: dict[str, list[End]] = {}
        self._at: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []
        # Counts changes; for each row the count when something on it last changed.
        self.changes = 0
        self.changed: Ints = np.zeros(0, np.int64)
        # How many of those that hold something will end, as far as anybody can say.
        self.ending = 0
        # Counts what can make a plan better than it was: somebody ended before his time, a node came or is ready.
        self.slack = 0
        # Counts what can make a promise impossible: somebody outlives his estimate, a node is lost, room is booked.
        self.setbacks = 0

    def ends_on(self, node: str) -> list[End]:
        """Nobody may change it."""
        return self._ends.get(node, _NOBODY)

    def ends_at(self, job: str) -> float | None:
        """When a job that holds something will have ended; None when it holds nothing."""
        return self._at.get(job)

    def hold(self, job: str, placements: tuple[Placement, ...], at: float) -> None:
        self._at[job] = at
        self.ending += at < inf
        for place in placements:
            insort(self._ends.setdefault(place.node, []), End(at, job, place.rank, place))
        if at < inf:
            heapq.heappush(self._due, (at, job))

    def release(self, job: str, placements: tuple[Placement, ...]) -> None:
        at = self._at.pop(job)
        self.ending -= at < inf
        for place in placements:
            ends = self._ends[place.node]
            del ends[bisect_left(ends, (at, job, place.rank))]
            if not ends:
                del self._ends[place.node]

    def touch(self, row: int) -> None:
        """What is held on the row, or what it is, changed."""
        if row >= len(self.changed):
            self.changed = np.concatenate([self.changed, np.zeros(max(16, row + 1), np.int64)])
        self.changes += 1
        self.changed[row] = self.changes

    def overdue(self, now: float) -> list[str]:
        """Jobs that hold something beyond their end, each once. Whoever asks must say when they end now."""
        found: set[str] = set()
        while self._due and self._due[0][0] < now:
            at, job = heapq.heappop(self._due)
            if self._at.get(job) == at:
                found.add(job)
        return sorted(found)


_NOBODY: list[End] = []
