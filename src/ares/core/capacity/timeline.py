"""What is left of every row at every time to come, as columns: more as jobs end, less where room is claimed.

Each row has a stretch of slots, one for each time at which something changes there, in order; what is left at the end
of a stretch is spare, and nothing fits into it. So one pass over the columns tells for all rows at once from when on
something fits, and a claim more or less changes the slots of its own rows only.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ares.core.ask import Ask
from ares.core.capacity.node_table import Bools, Floats, Ints, NodeTable
from ares.core.capacity.node_timeline import Use
from ares.core.capacity.transaction import Allocation, taken_by

_CPU, _MEMORY, _GPUS = 0, 1, 2
# In spare slots: less than anything asks for, whatever is added or taken away.
_LEAST = np.int64(-(1 << 60))
_MOST = np.int64(1 << 60)
# Slots that a row has at least, and by which share of the slots in use there are more.
_SLOTS, _SPARE = 4, 2

Amounts = npt.NDArray[np.int64]


class Span(NamedTuple):
    """A part of a row is taken from `start` until `until`."""

    start: float
    until: float
    use: Use
    row: int


class Timeline:
    """What is left from `now` on, of all rows that are in use. Devices are counted, of the kinds that are named."""

    def __init__(self, table: NodeTable, now: float, kinds: Sequence[str], spans: Iterable[Span]) -> None:
        """`spans` are what the columns show as taken and will be given back, or show as free and will be taken."""
        self._table, self._now, self._rows = table, now, table.used
        self._kinds = tuple(kinds)
        self.kinds = frozenset(kinds)
        self._wide = table.gpus_wide
        # What the columns show as free: rows of resources, as everywhere here.
        self._free = self._shown()
        self._begin: Ints = np.arange(self._rows + 1, dtype=np.int64) * _SLOTS + 1
        self._count: Ints = np.ones(self._rows, np.int64)
        # The last question and its answer: a caller that asks whether there is room now asks next when there will be.
        self._found: tuple[Ask, float, Floats] | None = None
        self._lay(list(spans))

    # ---- changes

    def put(self, span: Span, sign: int = +1) -> None:
        """Takes something for a time, or with -1 gives it back."""
        if span.row >= self._rows or span.until <= max(span.start, self._now):
            return
        first, last = self._slot(span.row, span.start), self._slot(span.row, span.until)
        self._found = None
        self._left[:, first:last] -= sign * self._amounts(span.row, span.use)[:, None]

    def begin(self, span: Span) -> None:
        """The columns show it as taken from now on."""
        if span.row < self._rows:
            self._free[:, span.row] -= self._amounts(span.row, span.use)
            self.put(span)

    # ---- what is left

    def opens(self, ask: Ask, runs_s: float) -> Floats:
        """From when on one rank fits on each row for as long as it runs; infinity where never."""
        if self._found is not None and self._found[0] is ask and self._found[1] == runs_s:
            return self._found[2]
        fits = self._fits(ask)
        turns = np.flatnonzero(fits[1:] != fits[:-1]) + 1
        begins, ends = turns[0::2], turns[1::2]
        begins = begins[self._at[ends] - self._at[begins] >= runs_s]
        times = np.full(self._rows, inf)
        # The first of each row comes last here.
        times[self._row[begins[::-1]]] = self._at[begins[::-1]]
        self._found = (ask, runs_s, times)
        return times

    def least(self, until: float) -> Amounts:
        """The least of each resource that is left on each row at any time until then."""
        until = max(until, np.nextafter(self._now, inf))
        return np.minimum.reduceat(np.where(self._at < until, self._left, _MOST), self._begin[:-1], axis=1)

    def ranks(self, ask: Ask, until: float) -> Ints:
        """How many ranks fit on each row from now until then. For asks below guaranteed QoS an upper bound."""
        left, table, used = self.least(until), self._table, self._rows
        cpu, memory = left[_CPU], left[_MEMORY]
        if ask.qos != "guaranteed":
            # Claims on over-committed CPU and memory are not kept from such an ask.
            cpu, memory = self._free[_CPU] + table.cpu_extra[:used], self._free[_MEMORY] + table.memory_extra[:used]
        fits = np.minimum(cpu // ask.cpu_milli, memory // ask.memory_mib)
        if ask.gpus:
            gpus = left[_GPUS : _GPUS + self._wide] // ask.gpu_milli
            answers = table.answers(ask.gpu_model, ask.gpu_memory_mib)[:used].T
            fits = np.minimum(fits, np.where(answers & (gpus > 0), gpus, 0).sum(axis=0) // ask.gpus)
        return np.maximum(0, np.minimum(fits, ask.per_node) if ask.per_node else fits)

    def claimed(self, until: float) -> Amounts:
        """The most of each resource that is claimed on each row at any time until then and not given back by then."""
        return np.maximum(0, self._free - self.least(until))

    def has_room(self, row: int, start: float, until: float, uses: Iterable[Use]) -> bool:
        """Whether more can be taken of a row for a time. Jobs below guaranteed QoS may have more than there is."""
        first = self._slot(row, start)
        last = self._slot(row, until)
        left = self._left[:, first:last].min(axis=1) - sum(self._amounts(row, use) for use in uses)
        left[_CPU] += self._table.cpu_extra.item(row)
        left[_MEMORY] += self._table.memory_extra.item(row)
        wanted = sorted({_GPUS + gpu for use in uses for gpu in use.gpus if gpu < self._wide})
        return bool(left[_CPU] >= 0 and left[_MEMORY] >= 0 and (left[wanted] >= 0).all())

    # ---- slots

    def _fits(self, ask: Ask) -> Bools:
        """Slots that have room for one rank."""
        table, left = self._table, self._left
        cpu: int | Ints = ask.cpu_milli
        memory: int | Ints = ask.memory_mib
        if ask.qos != "guaranteed":
            cpu, memory = cpu - table.cpu_extra[self._row], memory - table.memory_extra[self._row]
        fits: Bools = (left[_CPU] >= cpu) & (left[_MEMORY] >= memory)
        if ask.gpus:
            where = np.flatnonzero(fits)
            answers = table.answers(ask.gpu_model, ask.gpu_memory_mib)[self._row[where]].T
            gpus = left[_GPUS : _GPUS + self._wide, where] >= ask.gpu_milli
            fits[where] = np.count_nonzero(gpus & answers, axis=0) >= ask.gpus
        for kind, count in ask.devices:
            fits &= left[_GPUS + self._wide + self._kinds.index(kind)] >= count
        return fits

    def _shown(self) -> Amounts:
        table, used = self._table, self._rows
        devices = [table.free_devices(kind)[:used] for kind in self._kinds]
        return np.stack([table.cpu_free[:used], table.memory_free[:used], *table.gpu_left[:used].T, *devices]).astype(
            np.int64
        )

    def _amounts(self, row: int, use: Use) -> Amounts:
        found = [use.cpu_milli, use.memory_mib]
        if self._wide:
            gpus = [0] * self._wide
            for gpu in use.gpus:
                if gpu < self._wide:
                    gpus[gpu] += use.gpu_milli
            found += gpus
        if self._kinds:
            taken = use if isinstance(use, Allocation) else taken_by(self._table, row, use)
            devices = dict(taken.devices)
            found += [devices.get(kind, 0).bit_count() for kind in self._kinds]
        return np.array(found, np.int64)

    def _lay(self, spans: list[Span]) -> None:
        """Builds all slots at once: the changes in the order of rows and times, summed up."""
        spans = [span for span in spans if span.row < self._rows and (span.start == -inf or span.until > self._now)]
        changes = [(span.row, max(span.start, self._now), -1, span) for span in spans if span.start > -inf]
        changes += [(span.row, max(span.until, self._now), +1, span) for span in spans if span.until < inf]
        rows = np.array([*range(self._rows), *(change[0] for change in changes)], np.int64)
        at = np.array([self._now] * self._rows + [change[1] for change in changes])
        amounts = [change[2] * self._amounts(change[0], change[3].use) for change in changes]
        moves = np.concatenate([self._free, np.array(amounts, np.int64).reshape(-1, len(self._free)).T], axis=1)
        order = np.lexsort((at, rows))
        rows, at, moves = rows[order], at[order], moves[:, order]
        new = np.ones(len(rows), np.bool_)
        new[1:] = (rows[1:] != rows[:-1]) | (at[1:] != at[:-1])
        left = np.add.reduceat(moves, np.flatnonzero(new), axis=1)
        rows, at = rows[new], at[new]
        self._count = np.bincount(rows, minlength=self._rows)
        starts = np.cumsum(self._count) - self._count
        total = np.cumsum(left, axis=1)
        # Sums begin anew with each row.
        before = (total - left)[:, starts]
        self._spread(rows, at, total - np.repeat(before, self._count, axis=1), starts)

    def _spread(self, rows: Ints, at: Floats, left: Amounts, starts: Ints) -> None:
        """Lays out the slots in use, with spare ones behind."""
        sizes = self._count + np.maximum(_SLOTS, self._count // _SPARE)
        ends = np.cumsum(sizes) + 1
        # The very first slot is spare: every stretch has one before it.
        self._begin = np.concatenate([[1], ends])
        total = int(ends[-1]) if len(ends) else 1
        self._at: Floats = np.full(total, inf)
        self._left: Amounts = np.full((len(left), total), _LEAST, np.int64)
        self._row: Ints = np.concatenate([[0], np.repeat(np.arange(self._rows), sizes)])
        slots = np.arange(len(rows)) - np.repeat(starts - self._begin[:-1], self._count)
        self._at[slots], self._left[:, slots] = at, left

    def _slot(self, row: int, time: float) -> int:
        """The row's first slot that is not before that time: made if there is none."""
        begin, count = self._begin.item(row), self._count.item(row)
        if time <= self._now:
            return begin
        slot = begin + int(self._at[begin : begin + count].searchsorted(time))
        if time == inf or (slot < begin + count and self._at.item(slot) == time):
            return slot
        if begin + count + 1 >= self._begin.item(row + 1):
            self._widen(row)
        end = begin + count
        self._at[slot + 1 : end + 1] = self._at[slot:end].copy()
        self._left[:, slot + 1 : end + 1] = self._left[:, slot:end].copy()
        self._at[slot] = time
        self._left[:, slot] = self._left[:, slot - 1]
        self._count[row] += 1
        return slot

    def _widen(self, row: int) -> None:
        """Twice as many slots for a row."""
        end, more = self._begin.item(row + 1), self._count.item(row)
        self._at = np.concatenate([self._at[:end], np.full(more, inf), self._at[end:]])
        spare = np.full((len(self._left), more), _LEAST, np.int64)
        self._left = np.concatenate([self._left[:, :end], spare, self._left[:, end:]], axis=1)
        self._row = np.concatenate([self._row[:end], np.full(more, row), self._row[end:]])
        self._begin[row + 1 :] += more
