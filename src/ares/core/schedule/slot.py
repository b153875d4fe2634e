"""When there will be room: the earliest start of an ask, by the estimates of those who run and around what is claimed.

For asks of one rank the answer of every row is kept, and found again only for rows that changed. A gang's is found by
going through the ends of all that run, until enough of them have ended. Whatever is found is tried with the very
functions that place jobs.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.claims import Claims
from ares.core.capacity.node_table import Floats, Ints
from ares.core.capacity.node_timeline import CapacityChange, NodeTimeline, opening
from ares.core.capacity.transaction import Allocation, Transaction, fit, taken_by
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.gang import place_gang
from ares.core.schedule.gang_slot import GangSlots, countable
from ares.core.schedule.power_slot import powered_from
from ares.model.state import Placement

# Rows or times that are tried before nobody can say.
_TRIES = 16
# Up to this many rows are gone through one by one.
_FEW = 16
_FIRST: Ints = np.zeros(1, np.int64)


class Slot(NamedTuple):
    """From when on there is room, and which."""

    start: float
    taken: tuple[Allocation, ...]


def earliest(cluster: Cluster, txn: Transaction, claims: Claims, ask: Ask, now: float, runs_s: float) -> Slot | None:
    """The first time from which the ask has room for as long as it runs; None when nobody can say."""
    if ask.near:
        # Who runs around it by then is another question.
        return None
    claims.lift()
    rows = _rows(cluster, ask)
    if ask.ranks > 1:
        return _gang(cluster, txn, claims, ask, rows, now, runs_s)
    if not len(rows):
        return None
    times = _of_rows(cluster, claims, ask, rows, now, runs_s)
    if cluster.table.power is not None:
        times = np.maximum(times, powered_from(cluster, ask, rows, now))
    for at in np.argsort(times, kind="stable")[:_TRIES].tolist() if len(rows) > 1 else (0,):
        start = max(now, float(times[at]))
        if start == inf:
            return None
        taken = _tried(cluster, txn, claims, ask, int(rows[at]), start, start + runs_s)
        if taken is not None:
            return Slot(start, (taken,))
    return None


def full(cluster: Cluster, claims: Claims, ask: Ask, now: float, runs_s: float) -> bool:
    """Whether there is certainly no place now for as long as it runs, as is told at once where much is claimed."""
    timeline = claims.timeline(ask)
    if timeline is None:
        return False
    rows = _rows(cluster, ask)
    if ask.ranks == 1 and ask.qos == "guaranteed":
        return float(timeline.opens(ask, runs_s)[rows].min(initial=inf)) > now
    return int(timeline.ranks(ask, now + runs_s)[rows].sum()) < ask.min_ranks


def _rows(cluster: Cluster, ask: Ask) -> Ints:
    """Those that could take one rank if nothing ran on them."""
    possible, healthy = cluster.evaluations.possible(ask), cluster.table.healthy
    if cluster.table.used == 1:
        return _FIRST if possible[0] and healthy[0] else _FIRST[:0]
    return np.flatnonzero(possible & healthy)


def _of_rows(cluster: Cluster, claims: Claims, ask: Ask, rows: Ints, now: float, runs_s: float) -> Floats:
    timeline, special = claims.timeline(ask), claims.rows()
    if timeline is not None:
        return timeline.opens(ask, runs_s)[rows]
    if len(special) >= len(rows):
        return np.array([_of_row(cluster, claims, ask, row, now, runs_s) for row in rows.tolist()])
    times = cluster.opened.of(cluster.table, cluster.future, ask)[rows]
    for at in np.flatnonzero(np.isin(rows, list(special))).tolist() if special else ():
        times[at] = _of_row(cluster, claims, ask, int(rows[at]), now, runs_s)
    return times


def _of_row(cluster: Cluster, claims: Claims, ask: Ask, row: int, now: float, runs_s: float) -> float:
    return opening(NodeTimeline(cluster.table, row, ask), claims.shifts(row), now, runs_s)


def _tried(
    cluster: Cluster, txn: Transaction, claims: Claims, ask: Ask, row: int, start: float, until: float
) -> Allocation | None:
    """What the ask would get of the row at that time."""
    if not ask.gpus and not ask.devices and ask.numa == "none":
        return Allocation(row, ask.cpu_milli, ask.memory_mib, (), ask.gpu_milli, (), None)
    checkpoint = txn.checkpoint()
    _at(cluster, txn, claims, row, start, until)
    taken = fit(cluster.table, ask, row)
    txn.rollback(checkpoint)
    return taken


def _at(cluster: Cluster, txn: Transaction, claims: Claims, row: int, start: float, until: float) -> None:
    """The columns of a row as they will be then."""
    table = cluster.table
    for use in claims.released(row, start):
        txn.give(taken_by(table, row, use) if isinstance(use, Placement) else use)
    for taken in claims.overlapping(row, start, until):
        # Claims that do not meet may be of more than there is, taken together.
        devices = tuple((kind, bits & ~table.devices_taken[kind][row]) for kind, bits in taken.devices)
        txn.take(taken._replace(gpus=(), devices=devices))
        for gpu in taken.gpus:
            left = min(taken.gpu_milli, table.gpu_left.item(row, gpu))
            if left > 0:
                txn.take(Allocation(row, 0, 0, (gpu,), left, (), None))


def _gang(
    cluster: Cluster, txn: Transaction, claims: Claims, ask: Ask, rows: Ints, now: float, runs_s: float
) -> Slot | None:
    if len(rows) > _FEW and countable(cluster, ask):
        return _gang_by_columns(cluster, txn, claims, ask, rows, now, runs_s)
    levels, special = {row: NodeTimeline(cluster.table, row, ask) for row in rows.tolist()}, claims.rows()
    ends: list[tuple[float, int, CapacityChange]] = []
    for row, level in levels.items():
        for taken in claims.overlapping(row, now, inf):
            level.shift(-1, taken)
        ends += [(shift.at, row, shift) for shift in claims.shifts(row) if shift.sign > 0 and shift.at < inf]
    ends.sort(key=lambda end: end[:2])
    room = {row: level.ranks() for row, level in levels.items()}
    total, tries, at = sum(room.values()), 0, 0
    while tries < _TRIES:
        start = now if at == 0 else max(now, ends[at - 1][0])
        while at < len(ends) and ends[at][0] <= start:
            total += _ended(levels, room, ends[at])
            at += 1
        if total >= ask.min_ranks:
            tries += 1
            # A row without room for a rank by then is of no use, whatever has ended on it.
            useful = [row for row, ranks in room.items() if ranks > 0 or row in special]
            taken = _gang_tried(cluster, txn, claims, ask, useful, start, start + runs_s)
            if taken is not None:
                return Slot(start, tuple(taken))
        if at == len(ends):
            return None
        total += _ended(levels, room, ends[at])
        at += 1
    return None


def _gang_by_columns(
    cluster: Cluster, txn: Transaction, claims: Claims, ask: Ask, rows: Ints, now: float, runs_s: float
) -> Slot | None:
    """The same for many nodes, where counting tells what there is room for."""
    rooms = GangSlots(cluster, claims, ask, rows, now)
    first, special = rooms.first(), list(claims.rows())
    # Whatever else must come together, later is better: in ever larger steps.
    for step in range(_TRIES):
        number = first + (1 << step) - 1
        if number >= len(rooms.times):
            return None
        start = float(rooms.times[number])
        useful = rows[(rooms.at(start) > 0) | np.isin(rows, special)].tolist()
        taken = _gang_tried(cluster, txn, claims, ask, useful, start, start + runs_s)
        if taken is not None:
            return Slot(start, tuple(taken))
    return None


def _ended(levels: dict[int, NodeTimeline], room: dict[int, int], end: tuple[float, int, CapacityChange]) -> int:
    """How many more ranks there is room for once somebody has ended."""
    _, row, shift = end
    levels[row].shift(shift.sign, shift.use)
    before, room[row] = room[row], levels[row].ranks()
    return room[row] - before


def _gang_tried(
    cluster: Cluster, txn: Transaction, claims: Claims, ask: Ask, rows: list[int], start: float, until: float
) -> Sequence[Allocation] | None:
    checkpoint = txn.checkpoint()
    for row in rows:
        _at(cluster, txn, claims, row, start, until)
    taken = place_gang(cluster.evaluations, txn, ask)
    txn.rollback(checkpoint)
    return taken
