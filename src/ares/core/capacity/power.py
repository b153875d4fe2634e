"""Caps on what pools draw: how much each draws now, and how much more a job would.

A pool draws what its nodes draw when idle, and what is held on them draws beyond that. Kept room counts as held.
Sums are whole microwatts and follow every touch of a row, so they are exact within a cycle however much it places.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import WHOLE, Ints, NodeTable
from ares.core.energy import MICRO

# More than any pool draws.
UNLIMITED = np.iinfo(np.int64).max


class PoolPower:
    """What every pool draws; only rows touched since the last look are read again."""

    def __init__(self, table: NodeTable, caps: Mapping[str, float]) -> None:
        self._table = table
        # By the pool's number; 0 stands for rows without a node.
        numbers = {table.pools.of(name): round(watts * MICRO) for name, watts in caps.items()}
        self._caps = np.full(max(numbers) + 1, UNLIMITED, np.int64)
        for number, cap in numbers.items():
            self._caps[number] = cap
        self.capped = tuple(sorted(numbers))
        # While many places are looked for at once that are known to stay below the caps.
        self.paused = False
        self._drawn = np.zeros_like(self._caps)
        self._idle = np.zeros_like(self._caps)
        # By row, as it is counted in the sums.
        self._pool: Ints = np.zeros(0, np.int64)
        self._uw: Ints = np.zeros(0, np.int64)
        self._idle_uw: Ints = np.zeros(0, np.int64)
        self._touched: set[int] = set(range(table.used))

    def touch(self, rows: Iterable[int]) -> None:
        self._touched.update(rows)

    def left(self, *, emptied: bool = False) -> Ints:
        """Microwatts that may be added to each pool, by its number; negative when a cap was lowered."""
        if self._touched:
            self._catch_up()
        return np.where(self._caps == UNLIMITED, UNLIMITED, self._caps - (self._idle if emptied else self._drawn))

    def left_on(self, pools: Ints, *, emptied: bool = False) -> Ints:
        """The same for rows of these pools."""
        # Pools that came after the caps have none.
        known = np.where(pools < len(self._caps), pools, 0)
        return self.left(emptied=emptied)[known]

    def cap(self, pool: str) -> int:
        return int(self._caps[self._table.pools.known(pool)])

    def _catch_up(self) -> None:
        rows = np.array(sorted(self._touched), np.int64)
        self._touched.clear()
        if (more := self._table.rows - len(self._pool)) > 0:
            self._pool, self._uw, self._idle_uw = (
                np.concatenate([old, np.zeros(more, np.int64)]) for old in (self._pool, self._uw, self._idle_uw)
            )
        for sums, each in ((self._drawn, self._uw), (self._idle, self._idle_uw)):
            np.subtract.at(sums, self._pool[rows], each[rows])
        pools = self._table.pool[rows]
        self._pool[rows] = np.where(pools < len(self._caps), pools, 0)
        self._uw[rows] = drawn_on(self._table, rows)
        self._idle_uw[rows] = self._table.idle_uw[rows]
        for sums, each in ((self._drawn, self._uw), (self._idle, self._idle_uw)):
            np.add.at(sums, self._pool[rows], each[rows])


def drawn_on(table: NodeTable, rows: Ints) -> Ints:
    """Microwatts of each row: idle, and what is held on it beyond that."""
    cpu = np.where(table.exists[rows], table.cpu[rows] - table.cpu_free[rows], 0) * table.cpu_mw[rows]
    left = table.gpu_left[rows]
    held = np.where(left >= 0, WHOLE - left, 0)
    gpus = (held * (table.gpu_mw[rows] - table.gpu_idle_mw[rows])).sum(axis=1)
    total = table.idle_uw[rows] + cpu + gpus
    if table.slices:
        total += np.array([_slices_drawn(table, int(row)) for row in rows], np.int64)
    return total


def _slices_drawn(table: NodeTable, row: int) -> int:
    return sum(
        table.devices_taken[kind][row].bit_count() * (draw.full - draw.idle)
        for kind, draw in table.slices.get(row, {}).items()
        if kind in table.devices_taken
    )


def needed(rows: NodeSlice) -> Ints:
    """Microwatts that one rank of the ask would add to each row, on the thirstiest of the GPUs it may get."""
    ask, table = rows.ask, rows.table
    need = ask.cpu_milli * table.cpu_mw[rows.at]
    if ask.gpus:
        extra = (table.gpu_mw - table.gpu_idle_mw)[rows.at]
        need = need + ask.gpus_milli * np.where(rows.gpu_answers, extra, 0).max(axis=1)
    if ask.devices and table.slices:
        where = np.arange(table.rows)[rows.at]
        kinds = [
            {kind: draw.full - draw.idle for kind, draw in table.slices.get(row, {}).items()} for row in where.tolist()
        ]
        need = need + np.array(
            [sum(count * slices.get(kind, 0) for kind, count in ask.devices) for slices in kinds], np.int64
        )
    return need


def draw_of_pools(table: NodeTable) -> dict[str, float]:
    """Watts that every pool with a node draws now, by the model: idle, and what is held beyond that."""
    rows = np.flatnonzero(table.exists)
    drawn = np.bincount(table.pool[rows], weights=drawn_on(table, rows) / MICRO) if len(rows) else np.zeros(0)
    names = dict.fromkeys(record.info.pool for record in table.records if record is not None)
    return {name: float(drawn[table.pools.known(name)]) for name in sorted(names)}
