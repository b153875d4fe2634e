"""When there will be room: the earliest start of an ask, by the estimated ends of running jobs and around claims.

For asks of one rank the answer of every row is kept, and computed again only for rows that changed. For a gang, the
ends of running jobs are gone through until there is room for enough ranks. What is found is tried with the same
functions that place jobs.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.claims import Claims
from ares.core.capacity.future import bits_of
from ares.core.capacity.node_table import WHOLE, Floats, Ints, NodeTable
from ares.core.capacity.node_timeline import CapacityChange, NodeTimeline, opening
from ares.core.capacity.power import needed
from ares.core.capacity.transaction import Allocation, Transaction, fit, taken_by
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.gang import place_gang, widest_allowed
from ares.model.state import Placement

# ---- Room for the ranks of a gang at any time to come, by the ends of running jobs: columns, not objects.


def countable(cluster: Cluster, ask: Ask) -> bool:
    """Whether counting CPUs, memory and whole GPUs tells what there is room for, but for power."""
    if ask.devices or ask.numa != "none":
        return False
    if not ask.gpus:
        return True
    return ask.gpu_milli == WHOLE and not cluster.ends.of(cluster.table, cluster.future).shares


class GangSlots:
    """The room for one gang over time. A claim counts as taken until its end, so room only grows as time goes by."""

    def __init__(self, cluster: Cluster, claims: Claims, ask: Ask, rows: Ints, now: float) -> None:
        table, used = cluster.table, cluster.table.used
        self.ask, self._rows, self._used = ask, rows, used
        ends = cluster.ends.of(table, cluster.future)
        more = _extra(claims, now, used)
        self._at = np.concatenate([ends.at, more[0]])
        self._row = np.concatenate([ends.row, more[1][:, 0]])
        self._cpu = np.concatenate([ends.cpu, more[1][:, 1]])
        self._memory = np.concatenate([ends.memory, more[1][:, 2]])
        answers = table.answer_masks(ask.gpu_model, ask.gpu_memory_mib)[:used] if ask.gpus else None
        gpus = np.concatenate([ends.gpus, more[1][:, 3]])
        self._gpus = None if answers is None else np.bitwise_count(gpus & answers[self._row]).astype(np.int64)
        burst = ask.qos != "guaranteed"
        self._free_cpu = table.cpu_free[:used] + burst * table.cpu_extra[:used]
        self._free_memory = table.memory_free[:used] + burst * table.memory_extra[:used]
        self._free_gpus = (
            None if answers is None else np.bitwise_count(table.gpu_whole[:used] & answers).astype(np.int64)
        )
        for row, cpu, memory, bits in _claimed(claims, now, used):
            self._free_cpu[row] -= cpu
            self._free_memory[row] -= memory
            if self._free_gpus is not None and answers is not None:
                # GPUs that are free now and claimed; claimed GPUs that are taken now come back when their job ends.
                self._free_gpus[row] -= (bits & int(answers[row])).bit_count()
        level = widest_allowed(ask)
        self._domains: Ints | None = None if level in ("cluster", "node") else getattr(table, level)[:used][rows]
        self._on_one_node = level == "node"
        later = self._at[(self._at > now) & (self._at < inf)]
        self.times: Floats = np.concatenate([[now], np.unique(later)])

    def at(self, time: float) -> Ints:
        """Ranks that each of the rows has room for at that time."""
        ended = self._at <= time
        where, ask, rows = self._row[ended], self.ask, self._rows
        cpu = self._free_cpu + self._sums(where, self._cpu[ended])
        memory = self._free_memory + self._sums(where, self._memory[ended])
        fits = np.minimum(cpu[rows] // ask.cpu_milli, memory[rows] // ask.memory_mib)
        if self._gpus is not None and self._free_gpus is not None:
            gpus = self._free_gpus + self._sums(where, self._gpus[ended])
            fits = np.minimum(fits, gpus[rows] // ask.gpus)
        return np.maximum(0, np.minimum(fits, ask.per_node) if ask.per_node else fits)

    def enough(self, time: float) -> bool:
        """Whether there is room for the fewest ranks that will do, where they must be together."""
        room = self.at(time)
        if self._on_one_node:
            return bool(room.max(initial=0) >= self.ask.min_ranks)
        if self._domains is None:
            return int(room.sum()) >= self.ask.min_ranks
        # Number 0 is for nodes that do not say where they are.
        return bool(np.bincount(self._domains, weights=room)[1:].max(initial=0.0) >= self.ask.min_ranks)

    def first(self) -> int:
        """The index of the first time with enough room; the number of times when there never is."""
        low, high = 0, len(self.times)
        while low < high:
            middle = (low + high) // 2
            if self.enough(float(self.times[middle])):
                high = middle
            else:
                low = middle + 1
        return low

    def freed(self, time: float) -> Floats:
        """When the latest holder of each of the rows had ended by that time; minus infinity where none had to."""
        ended = self._at <= time
        latest = np.full(self._used, -inf)
        np.maximum.at(latest, self._row[ended], self._at[ended])
        return latest[self._rows]

    def _sums(self, where: Ints, amounts: Ints) -> Ints:
        return np.bincount(where, weights=amounts, minlength=self._used).astype(np.int64)


def _extra(claims: Claims, now: float, used: int) -> tuple[Floats, Ints]:
    """What was placed in this cycle, and what is claimed: each is given back at its end, too."""
    found = [
        (at, (row, taken.cpu_milli, taken.memory_mib, bits_of(taken.gpus)))
        for at, row, taken in claims.given_back(now)
        if row < used
    ]
    rest = np.array([left for _, left in found], np.int64).reshape(len(found), 4)
    return np.array([at for at, _ in found], np.float64), rest


def _claimed(claims: Claims, now: float, used: int) -> list[tuple[int, int, int, int]]:
    return [
        (taken.row, taken.cpu_milli, taken.memory_mib, bits_of(taken.gpus))
        for taken in claims.all_overlapping(now)
        if taken.row < used
    ]


# ---- From when on a pool below its power cap may draw what a job needs, by the ends of the jobs that run there.


def powered_from(cluster: Cluster, ask: Ask, rows: Ints, now: float) -> Floats:
    """For one rank on each row: `now` where the pool has the power already, never where all ends are not enough."""
    times = np.full(len(rows), now)
    power, table = cluster.table.power, cluster.table
    if power is None or not len(rows):
        return times
    need, pools, lefts = needed(cluster.evaluations.rows(ask, rows)), table.pool[rows], power.left()
    for pool in power.capped:
        here = np.flatnonzero((pools == pool) & (need > lefts[pool]))
        if not len(here):
            continue
        at, left = _ends(cluster, pool, now)
        times[here] = np.append(at, inf)[np.searchsorted(int(lefts[pool]) + left, need[here])]
    return times


def _ends(cluster: Cluster, pool: int, now: float) -> tuple[Floats, Ints]:
    """When jobs of the pool end, in order, and the power beyond idle of all jobs that ended by then."""
    table, ends = cluster.table, list[tuple[float, int]]()
    for row in np.flatnonzero(table.pool[: table.used] == pool).tolist():
        record = table.records[row]
        for end in () if record is None else cluster.future.ends_on(record.info.name):
            ends.append((max(now, end.at), _beyond_idle(table, row, end.place)))
    ends.sort()
    return np.array([at for at, _ in ends]), np.cumsum([drawn for _, drawn in ends], dtype=np.int64)


def _beyond_idle(table: NodeTable, row: int, place: Placement) -> int:
    """Microwatts that a placement draws beyond idle."""
    gpus = [gpu for gpu in place.gpus if gpu < table.gpus_wide]
    drawn = int((table.gpu_mw[row, gpus] - table.gpu_idle_mw[row, gpus]).sum()) * place.gpu_milli
    slices = table.slices.get(row, {})
    drawn += sum(
        len(names) * (slices[kind].full - slices[kind].idle) for kind, names in place.devices.items() if kind in slices
    )
    return drawn + place.cpu_milli * int(table.cpu_mw[row])


# Rows or times that are tried before the answer is "not known".
_TRIES = 16
# Up to this many rows are gone through one by one.
_FEW = 16
_FIRST: Ints = np.zeros(1, np.int64)


class Slot(NamedTuple):
    """The time from which on there is room, and the room itself."""

    start: float
    taken: tuple[Allocation, ...]


def earliest(cluster: Cluster, txn: Transaction, claims: Claims, ask: Ask, now: float, runs_s: float) -> Slot | None:
    """The first time from which the ask has room for as long as it runs; None when it is not known."""
    if ask.near:
        # Which jobs run nearby by then is not known.
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
    """A quick test where much is claimed: True when there is certainly no place now for as long as the job runs."""
    timeline = claims.timeline(ask)
    if timeline is None:
        return False
    rows = _rows(cluster, ask)
    if ask.ranks == 1 and ask.qos == "guaranteed":
        return float(timeline.opens(ask, runs_s)[rows].min(initial=inf)) > now
    return int(timeline.ranks(ask, now + runs_s)[rows].sum()) < ask.min_ranks


def _rows(cluster: Cluster, ask: Ask) -> Ints:
    """Rows that could take one rank if nothing ran on them."""
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
        # Claims that do not overlap in time may add up to more than there is.
        devices = tuple((kind, bits & ~table.devices_taken[kind][row]) for kind, bits in taken.devices)
        txn.take(taken._replace(gpus=(), devices=devices))
        for gpu in taken.gpus:
            left = min(taken.gpu_milli, table.gpu_left.item(row, gpu))
            if left > 0:
                txn.take(Allocation(row, 0, 0, (gpu,), left, (), None))


def _gang(
    cluster: Cluster, txn: Transaction, claims: Claims, ask: Ask, rows: Ints, now: float, runs_s: float
) -> Slot | None:
    if len(rows) > _FEW and cluster.table.power is None and countable(cluster, ask):
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
            freed = {row: max((end for end, of, _ in ends[:at] if of == row), default=-inf) for row in useful}
            last = _last_free(ask, {row: room[row] for row in useful}, freed)
            taken = _gang_tried(cluster, txn, claims, ask, useful, start, start + runs_s, last)
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
    """The same for many nodes, where counting is enough to tell what there is room for."""
    rooms = GangSlots(cluster, claims, ask, rows, now)
    first, special = rooms.first(), list(claims.rows())
    # Where anything else must come together as well, later is better: in ever larger steps.
    for step in range(_TRIES):
        number = first + (1 << step) - 1
        if number >= len(rooms.times):
            return None
        start = float(rooms.times[number])
        taken = _by_columns_at(cluster, txn, claims, rooms, rows, special, start, start + runs_s)
        if taken is not None:
            return Slot(start, tuple(taken))
    return None


def _by_columns_at(
    cluster: Cluster, txn: Transaction, claims: Claims, rooms: GangSlots, rows: Ints, special: list[int], start: float,
    until: float,
) -> Sequence[Allocation] | None:  # fmt: skip
    room, freed = rooms.at(start), rooms.freed(start)
    useful = (room > 0) | np.isin(rows, special)
    found = rows[useful].tolist()
    by_row = [dict(zip(found, column[useful].tolist(), strict=True)) for column in (room, freed)]
    last = _last_free(rooms.ask, *by_row)
    return _gang_tried(cluster, txn, claims, rooms.ask, found, start, until, last)


def same_time(
    cluster: Cluster, txn: Transaction, claims: Claims, ask: Ask, start: float, until: float, now: float
) -> tuple[Allocation, ...] | None:
    """Room for a gang from that time on, as things are now: it may be on other nodes than it was before. Counting tells
    where to look; what is found is below power caps, or is nothing."""
    if not countable(cluster, ask):
        return None
    claims.lift()
    rows = _rows(cluster, ask)
    rooms = GangSlots(cluster, claims, ask, rows, now)
    if not rooms.enough(start):
        return None
    taken = _by_columns_at(cluster, txn, claims, rooms, rows, list(claims.rows()), start, until)
    return None if taken is None else tuple(taken)


def _last_free(ask: Ask, room: dict[int, int], freed: dict[int, float]) -> list[int] | None:
    """The rows that come free last, as many as the gang needs: rows that are idle till then are left to others. None
    where the gang would as well have fewer ranks, or more than there is."""
    if ask.ranks != ask.min_ranks or ask.qos != "guaranteed":
        return None
    chosen, ranks = list[int](), 0
    for row in sorted(room, key=lambda row: (-freed[row], -row)):
        if ranks >= ask.ranks:
            return chosen
        chosen.append(row)
        ranks += room[row]
    return None


def _ended(levels: dict[int, NodeTimeline], room: dict[int, int], end: tuple[float, int, CapacityChange]) -> int:
    """How many more ranks there is room for once this holder has ended."""
    _, row, shift = end
    levels[row].shift(shift.sign, shift.use)
    before, room[row] = room[row], levels[row].ranks()
    return room[row] - before


def _gang_tried(
    cluster: Cluster, txn: Transaction, claims: Claims, ask: Ask, rows: list[int], start: float, until: float,
    last: list[int] | None,
) -> Sequence[Allocation] | None:  # fmt: skip
    """On the rows of `last` where that is possible, else on any."""
    checkpoint = txn.checkpoint()
    if last is not None:
        for row in last:
            _at(cluster, txn, claims, row, start, until)
        table = cluster.table
        for row in set(rows).difference(last):
            free = max(0, table.cpu_free.item(row)), max(0, table.memory_free.item(row))
            txn.take(Allocation(row, *free, (), 1000, (), None))
        taken = place_gang(cluster.evaluations, txn, ask)
        txn.rollback(checkpoint)
        if taken is not None:
            return taken
    for row in rows:
        _at(cluster, txn, claims, row, start, until)
    taken = place_gang(cluster.evaluations, txn, ask)
    txn.rollback(checkpoint)
    return taken
