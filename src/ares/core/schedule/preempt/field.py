"""Where evicting a job would help a request, and the least it could cost there: columns first, nodes when needed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ares.core.schedule.preempt.fit import Site, ranks_everywhere
from ares.core.schedule.preempt.holders import Freed, Ints, RoomColumns, RoomRequest
from ares.core.schedule.preempt.screen import Screened
from ares.core.schedule.preempt.search import Candidate

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Field:
    """The request laid over the rooms: how many ranks fit on each row now, and with every evictable job gone."""

    request: RoomRequest
    rooms: RoomColumns
    screened: Screened
    now: Ints
    most: Ints
    # By row: where its parts begin and end in `screened.parts`.
    begins: Ints
    ends: Ints
    # By holder: the cost that is to be kept small.
    cost: Ints

    @property
    def helpful(self) -> Ints:
        """Rows where an eviction makes room."""
        return np.flatnonzero(self.most > self.now)

    def site(self, row: int) -> Site:
        return Site(self.request, self.rooms, row)

    def holders_on(self, row: int) -> list[int]:
        return self.screened.parts.holder[self.begins[row] : self.ends[row]].tolist()

    def milli(self, holder: int) -> int:
        """What it counts for in the disruption bound."""
        candidate = self.screened.holders[holder]
        return (candidate.gpus_milli if self.request.gpus else candidate.cpu_milli) >> self.screened.leniency[holder]

    def sized(self) -> "Field":
        """The same with size as the cost: what counts for the disruption bound."""
        size = np.fromiter((self.milli(holder) for holder in range(len(self.cost))), np.int64, len(self.cost))
        return replace(self, cost=size)

    def row_of_slot(self, rows: Ints) -> dict[int, int]:
        return dict(zip(self.rooms.slots[rows].tolist(), rows.tolist(), strict=True))

    def candidate(self, holder: int, row_of_slot: Mapping[int, int]) -> Candidate:
        """The holder with what it frees on these nodes."""
        slots = sorted({slot for slot, _ in self.screened.holders[holder].at if slot in row_of_slot})
        frees = tuple((row_of_slot[slot], self._freed(row_of_slot[slot], holder)) for slot in slots)
        return Candidate(holder, self.cost.item(holder), self.milli(holder), self.screened.lenders[holder], frees)

    def _freed(self, row: int, holder: int) -> Freed:
        begin, end = self.begins.item(row), self.ends.item(row)
        held = self.screened.parts.holder[begin:end]
        return self.screened.parts.freed[begin + int(np.searchsorted(held, holder))]


def lay_out(request: RoomRequest, rooms: RoomColumns, screened: Screened) -> Field:
    parts = screened.parts
    begins = np.searchsorted(parts.slot, rooms.slots, "left")
    ends = np.searchsorted(parts.slot, rooms.slots, "right")
    return Field(
        request=request, rooms=rooms, screened=screened,
        now=ranks_everywhere(request, rooms),
        most=ranks_everywhere(request, _emptied(request, rooms, screened, begins, ends)),
        begins=begins, ends=ends, cost=screened.lost_gpu_ms,
    )  # fmt: skip


def _emptied(request: RoomRequest, rooms: RoomColumns, screened: Screened, begins: Ints, ends: Ints) -> RoomColumns:
    parts, count = screened.parts, len(rooms)

    def freed(column: Ints) -> Ints:
        total = np.concatenate([np.zeros(1, np.int64), np.cumsum(column)])
        return total[ends] - total[begins]

    row_of_part = np.full(len(parts.slot), -1, np.int64)
    if count:
        place = np.minimum(np.searchsorted(rooms.slots, parts.slot), count - 1)
        row_of_part = np.where(rooms.slots[place] == parts.slot, place, -1)
    gpus, width = rooms.gpus, rooms.gpus.shape[1]
    if request.gpus and width:
        rows = row_of_part[parts.gpu_part]
        here = rows >= 0
        cell = rows[here] * width + parts.gpu_index[here]
        gpus = gpus + np.bincount(cell, parts.gpu_milli[here], count * width).astype(np.int64).reshape(count, width)
    devices = dict(rooms.devices)
    for kind, _ in request.devices:
        held = np.fromiter((dict(part.devices).get(kind, 0) for part in parts.freed), np.int64, len(parts.freed))
        devices[kind] = devices.get(kind, np.zeros(count, np.int64)) + freed(held)
    return replace(
        rooms,
        cpu_milli=rooms.cpu_milli + freed(parts.cpu_milli),
        memory_mib=rooms.memory_mib + freed(parts.memory_mib),
        gpus=gpus,
        devices=devices,
    )


class Least(NamedTuple):
    """By row, for one more rank there: no set of its holders costs less, is smaller, or begins with a lower index."""

    # The least cost of any one holder, and of the cheapest fractions of several that cover what is missing.
    single: Floats
    shared: Floats
    jobs: Ints
    first: Ints

    @property
    def cost(self) -> Floats:
        return np.maximum(self.single, self.shared)


def least_cost(field: Field, rows: Ints) -> Least:
    parts, begins, ends = field.screened.parts, field.begins[rows], field.ends[rows]
    lengths = ends - begins
    starts = np.cumsum(lengths) - lengths
    of_row = np.repeat(np.arange(len(rows)), lengths)
    part: Ints = np.arange(int(lengths.sum())) - np.repeat(starts - begins, lengths)
    holder = parts.holder[part]
    cost = field.cost[holder].astype(np.float64)
    shared, jobs = np.zeros(len(rows)), np.ones(len(rows), np.int64)
    for missing, gives in _shortages(field, rows, part):
        short = missing > 0
        if short.any():
            shared = np.maximum(shared, np.where(short, _fractional(cost, gives, of_row, starts, missing), 0.0))
            largest = np.maximum(np.maximum.reduceat(gives, starts), 1)
            jobs = np.maximum(jobs, -(-missing // largest))
    # Real costs are whole numbers; rounding must not push a bound above them.
    shared = np.ceil(shared * (1 - 1e-12) - 1e-6)
    return Least(np.minimum.reduceat(cost, starts), shared, jobs, np.minimum.reduceat(holder, starts))


def _shortages(field: Field, rows: Ints, part: Ints) -> list[tuple[Ints, Ints]]:
    """By quantity: how much each row lacks for one more rank, and how much of it each part gives at most."""
    request, rooms, parts = field.request, field.rooms, field.screened.parts
    ranks = field.now[rows] + 1
    found = [
        (ranks * request.cpu_milli - rooms.cpu_milli[rows], parts.cpu_milli[part]),
        (ranks * request.memory_mib - rooms.memory_mib[rows], parts.memory_mib[part]),
    ]
    if request.gpus:
        shares = np.where(rooms.answers[rows], np.maximum(rooms.gpus[rows], 0) // request.gpu_milli, 0)
        usable = np.minimum(shares, ranks[:, None]).sum(axis=1)
        touched = np.bincount(parts.gpu_part, minlength=len(parts.slot))[part]
        # A freed GPU serves one rank, or with small shares as many as are on the node.
        per_gpu = 1 if request.gpu_milli > 500 else int(ranks.max())
        found.append((ranks * request.gpus - usable, touched * per_gpu))
    return found


def _fractional(cost: Floats, gives: Ints, of_row: Ints, starts: Ints, missing: Ints) -> Floats:
    """The cost of covering `missing` on each row when holders could be cut at will: cheapest per unit first."""
    price = cost / np.maximum(gives, 1)
    order = np.lexsort((price, gives == 0, of_row))
    given = gives[order]
    before = np.cumsum(given) - given
    before -= np.repeat(before[starts], np.diff(np.append(starts, len(order))))
    taken = np.clip(missing[of_row] - before, 0, given)
    return np.add.reduceat(taken * price[order], starts)
