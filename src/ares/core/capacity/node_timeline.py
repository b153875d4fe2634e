"""What is left of one row at some time to come: it rises as jobs end and falls as jobs begin."""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.future import Future
from ares.core.capacity.node_table import Floats, NodeTable
from ares.core.capacity.transaction import Allocation, taken_by
from ares.model.state import Placement

Use = Placement | Allocation
_NEVER = -(1 << 60)


class CapacityChange(NamedTuple):
    """At this time a job gives something back (+1) or takes it (-1)."""

    at: float
    sign: int
    use: Use


class NodeTimeline:
    """The row as one ask sees it: resources that it does not ask for are not followed."""

    __slots__ = ("_answers", "_ask", "_cpu", "_devices", "_gpus", "_memory", "_row", "_table")

    def __init__(self, table: NodeTable, row: int, ask: Ask) -> None:
        more = ask.qos != "guaranteed"
        self._table, self._row, self._ask = table, row, ask
        self._cpu = table.cpu_free.item(row) + more * table.cpu_extra.item(row)
        self._memory = table.memory_free.item(row) + more * table.memory_extra.item(row)
        self._gpus: list[int] = []
        self._answers: tuple[int, ...] = ()
        if ask.gpus:
            # A GPU that cannot be had stays out of reach; a GPU that is claimed before it is free goes below zero.
            self._gpus = [left if left >= 0 else _NEVER for left in table.gpu_left[row].tolist()]
            mask = table.answer_masks(ask.gpu_model, ask.gpu_memory_mib).item(row)
            self._answers = tuple(gpu for gpu in range(len(self._gpus)) if mask >> gpu & 1)
        self._devices = {kind: _taken_of(table, row, kind) for kind, _ in ask.devices}

    def shift(self, sign: int, use: Use) -> None:
        self._cpu += sign * use.cpu_milli
        self._memory += sign * use.memory_mib
        if self._gpus:
            for gpu in use.gpus:
                if gpu < len(self._gpus):
                    self._gpus[gpu] += sign * use.gpu_milli
        if self._devices:
            taken = use if isinstance(use, Allocation) else taken_by(self._table, self._row, use)
            for kind, bits in taken.devices:
                if kind in self._devices:
                    held = self._devices[kind]
                    self._devices[kind] = held & ~bits if sign > 0 else held | bits

    def fits(self) -> bool:
        """Whether there is room for one rank."""
        ask = self._ask
        if self._cpu < ask.cpu_milli or self._memory < ask.memory_mib:
            return False
        return not (ask.gpus or ask.devices) or self.ranks() > 0

    def ranks(self) -> int:
        """How many ranks there is room for."""
        ask = self._ask
        fits = min(self._cpu // ask.cpu_milli, self._memory // ask.memory_mib)
        if ask.gpus:
            left = self._gpus
            shares = sum(left[gpu] // ask.gpu_milli for gpu in self._answers if left[gpu] >= ask.gpu_milli)
            different = sum(left[gpu] >= ask.gpu_milli for gpu in self._answers)
            fits = min(fits, shares // ask.gpus if different >= ask.gpus else 0)
        for kind, count in ask.devices:
            free = int(self._table.devices.of(kind)[self._row]) - self._devices[kind].bit_count()
            fits = min(fits, free // count)
        return max(0, min(fits, ask.per_node) if ask.per_node else fits)


def _taken_of(table: NodeTable, row: int, kind: str) -> int:
    table.free_devices(kind)
    return table.devices_taken[kind][row]


def opening(level: NodeTimeline, shifts: Iterable[CapacityChange], now: float, runs_s: float) -> float:
    """From when on one rank fits for as long as it runs; infinity when never. Shifts come in the order of time."""
    since = now if level.fits() else inf
    at = now
    changed = False
    for shift in shifts:
        if shift.at > at:
            if changed:
                since = (since if since < inf else max(now, at)) if level.fits() else inf
                changed = False
            if shift.at - since >= runs_s:
                return since
            at = shift.at
        level.shift(shift.sign, shift.use)
        changed = True
    if changed:
        since = (since if since < inf else max(now, at)) if level.fits() else inf
    return since


# ---- For asks of one rank: from when on each row has room, by the ends of the jobs that run there and nothing else.


# Asks that are remembered; beyond it all are forgotten and computed again when needed.
_KEPT_MAX = 512


class OpenTimes:
    """A pure function of what is held, cached: a row is computed again only after something on it changed."""

    def __init__(self) -> None:
        self._kept: dict[Ask, tuple[int, Floats]] = {}

    def of(self, table: NodeTable, future: Future, ask: Ask) -> Floats:
        """The time from which on each row has room; before now where it has room already."""
        caught_up, times = self._kept.get(ask, (-1, _NONE))
        if len(times) < table.rows:
            caught_up, times = -1, np.full(table.rows, inf)
        if caught_up != future.changes:
            behind = np.flatnonzero(future.changed[: table.used] > caught_up)
            for row in behind.tolist():
                times[row] = self._row(table, future, ask, row)
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            self._kept[ask] = (future.changes, times)
        return times

    def _row(self, table: NodeTable, future: Future, ask: Ask, row: int) -> float:
        record = table.records[row]
        if record is None:
            return inf
        ends = future.ends_on(record.info.name)
        if not ends or ends[0].at == inf:
            # No job here has a known end: there is never more room than now.
            return -inf if NodeTimeline(table, row, ask).fits() else inf
        shifts = [CapacityChange(end.at, +1, end.place) for end in ends]
        return opening(NodeTimeline(table, row, ask), shifts, -inf, inf)


_NONE: Floats = np.zeros(0)
