"""For asks of one rank: from when on each row has room, by the ends of those who run there and nothing else."""

from math import inf

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.future import Future
from ares.core.capacity.node_table import Floats, NodeTable
from ares.core.capacity.node_timeline import CapacityChange, NodeTimeline, opening

# Asks that are remembered; beyond it all are forgotten and found again when asked for.
_KEPT_MAX = 512


class OpenTimes:
    """A pure function of what is held, kept: a row is looked at again only after something on it changed."""

    def __init__(self) -> None:
        self._kept: dict[Ask, tuple[int, Floats]] = {}

    def of(self, table: NodeTable, future: Future, ask: Ask) -> Floats:
        """Before now where it fits already."""
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
            # Nobody here is known to end: there is no more to be had than now.
            return -inf if NodeTimeline(table, row, ask).fits() else inf
        shifts = [CapacityChange(end.at, +1, end.place) for end in ends]
        return opening(NodeTimeline(table, row, ask), shifts, -inf, inf)


_NONE: Floats = np.zeros(0)
