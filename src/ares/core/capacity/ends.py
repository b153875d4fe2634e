"""The ends of all who run, as columns: for questions about many nodes at once."""

from typing import NamedTuple

import numpy as np

from ares.core.capacity.future import End, Future
from ares.core.capacity.node_table import WHOLE, Floats, Ints, NodeTable


class EndColumns(NamedTuple):
    """One entry for each rank that holds something: when it ends, on which row, and what it gives back."""

    at: Floats
    row: Ints
    cpu: Ints
    memory: Ints
    # Bits of its GPUs.
    gpus: Ints
    # Whether some hold only shares of GPUs: then bits do not tell what becomes free.
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
            self._rows.append(_NOBODY)
        for row in np.flatnonzero(future.changed[: table.used] > self._caught_up).tolist():
            record = table.records[row]
            self._rows[row] = _NOBODY if record is None else _columns(row, future.ends_on(record.info.name))
        self._caught_up = future.changes
        rest = np.concatenate([one.rest for one in self._rows]) if self._rows else _NOBODY.rest
        at = np.concatenate([one.at for one in self._rows]) if self._rows else _NOBODY.at
        shares = any(one.shares for one in self._rows)
        self._all = EndColumns(at, rest[:, 0], rest[:, 1], rest[:, 2], rest[:, 3], shares)
        return self._all


def _columns(row: int, ends: list[End]) -> _Row:
    if not ends:
        return _NOBODY
    rest = [(row, end.place.cpu_milli, end.place.memory_mib, bits_of(end.place.gpus)) for end in ends]
    shares = any(end.place.gpus and end.place.gpu_milli < WHOLE for end in ends)
    return _Row(np.array([end.at for end in ends]), np.array(rest, np.int64), shares)


def bits_of(gpus: tuple[int, ...]) -> int:
    return sum(1 << gpu for gpu in gpus if gpu < _BITS)


_BITS = 62
_NOBODY = _Row(np.zeros(0), np.zeros((0, 4), np.int64), False)
