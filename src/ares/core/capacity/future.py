"""Which job holds what until when, node by node: by the estimates, in the order of their ends."""

import heapq
from bisect import bisect_left, insort
from math import inf
from typing import NamedTuple

import numpy as np

from ares.core.capacity.node_table import WHOLE, Floats, Ints, NodeTable
from ares.model.state import Placement


class End(NamedTuple):
    """One rank that frees what it holds at this time. The first fields make it unique."""

    at: float
    job: str
    rank: int
    place: Placement


class Future:
    """Kept in step with what is held. An end that is not known is at infinity."""

    def __init__(self) -> None:
        self._ends: dict[str, list[End]] = {}
        self._at: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []
        # Counts changes; for each row the count when something on it last changed.
        self.changes = 0
        self.changed: Ints = np.zeros(0, np.int64)
        # How many of the holding jobs have a known end.
        self.ending = 0
        # Counts what can make a plan better than it was: a job ended before its estimate, a node came or is ready.
        self.slack = 0
        # Counts what can make a promise impossible: a job outlives its estimate, a node is lost, room is booked.
        self.setbacks = 0

    def ends_on(self, node: str) -> list[End]:
        """Callers must not change it."""
        return self._ends.get(node, _NOBODY)

    def ends_at(self, job: str) -> float | None:
        """When a job that holds something will have ended; None when it holds nothing."""
        return self._at.get(job)

    def hold(self, job: str, placements: tuple[Placement, ...], at: float) -> None:
        self._at[job] = at
        self.ending += at < inf
        for place in placements:
            end, ends = End(at, job, place.rank, place), self._ends.get(place.node)
            if ends is None:
                self._ends[place.node] = [end]
            else:
                insort(ends, end)
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
        """What is held on the row, or the node itself, changed."""
        if row >= len(self.changed):
            self.changed = np.concatenate([self.changed, np.zeros(max(16, row + 1), np.int64)])
        self.changes += 1
        self.changed[row] = self.changes

    def overdue(self, now: float) -> list[str]:
        """Jobs that hold resources beyond their end, each once. The caller must give each a new end."""
        found: set[str] = set()
        while self._due and self._due[0][0] < now:
            at, job = heapq.heappop(self._due)
            if self._at.get(job) == at:
                found.add(job)
        return sorted(found)


_NOBODY: list[End] = []


# ---- The ends of running jobs as columns: for questions about many nodes at once.


class EndColumns(NamedTuple):
    """One entry for each rank that holds something: when it ends, on which row, and what it gives back."""

    at: Floats
    row: Ints
    cpu: Ints
    memory: Ints
    # Bits of its GPUs.
    gpus: Ints
    # Whether some ranks hold only shares of GPUs: then bits do not tell what becomes free.
    shares: bool


class _Row(NamedTuple):
    at: Floats
    rest: Ints
    shares: bool


class RunningEnds:
    """Kept row by row: only rows that changed are read again."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._caught_up = -1
        self._all: EndColumns | None = None

    def of(self, table: NodeTable, future: Future) -> EndColumns:
        if self._all is not None and self._caught_up == future.changes and len(self._rows) == table.used:
            return self._all
        while len(self._rows) < table.used:
            self._rows.append(_NO_ENDS)
        for row in np.flatnonzero(future.changed[: table.used] > self._caught_up).tolist():
            record = table.records[row]
            self._rows[row] = _NO_ENDS if record is None else _columns(row, future.ends_on(record.info.name))
        self._caught_up = future.changes
        rest = np.concatenate([ends.rest for ends in self._rows]) if self._rows else _NO_ENDS.rest
        at = np.concatenate([ends.at for ends in self._rows]) if self._rows else _NO_ENDS.at
        shares = any(ends.shares for ends in self._rows)
        self._all = EndColumns(at, rest[:, 0], rest[:, 1], rest[:, 2], rest[:, 3], shares)
        return self._all


def _columns(row: int, ends: list[End]) -> _Row:
    if not ends:
        return _NO_ENDS
    rest = [(row, end.place.cpu_milli, end.place.memory_mib, bits_of(end.place.gpus)) for end in ends]
    shares = any(end.place.gpus and end.place.gpu_milli < WHOLE for end in ends)
    return _Row(np.array([end.at for end in ends]), np.array(rest, np.int64), shares)


def bits_of(gpus: tuple[int, ...]) -> int:
    return sum(1 << gpu for gpu in gpus if gpu < _BITS)


_BITS = 62
_NO_ENDS = _Row(np.zeros(0), np.zeros((0, 4), np.int64), False)
