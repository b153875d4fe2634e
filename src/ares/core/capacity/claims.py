"""Room that is claimed for later: a job that would run beyond the start of a claim may not take its room now.

A claim is for a waiting job that was promised a start, or for a reservation. Until it begins, jobs that will have
ended by then may use the room. What counts is the room that is not given back in time: what is claimed at some time
less what has been released until then.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import chain
from math import inf
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from ares.core.ask import Ask
from ares.core.capacity.capacity import Capacity
from ares.core.capacity.node_table import NodeTable
from ares.core.capacity.node_timeline import CapacityChange, Use
from ares.core.capacity.timeline import Span, Timeline
from ares.core.capacity.transaction import Allocation, Transaction, taken_by
from ares.model.state import Placement

# From this many claims on, what is left of all rows is kept as columns over time.
_MANY = 16


class Claim(NamedTuple):
    """What is taken of each row from `start` until `until`, by a job or a reservation."""

    owner: str
    start: float
    until: float
    taken: tuple[Allocation, ...]
    reservation: bool = False


class _RowClaim(NamedTuple):
    """A claim on one row."""

    start: float
    until: float
    taken: Allocation


class Claims:
    """The claims of one cycle. Claimed room is hidden from jobs that may not have it, one set of blocks at a time."""

    def __init__(self, capacity: Capacity, txn: Transaction, now: float) -> None:
        self._capacity = capacity
        self._txn = txn
        self._now = now
        self.of: dict[str, Claim] = {}
        # The starts of all claims, in order.
        self._starts: list[float] = []
        # By row and owner.
        self._by_row: dict[int, dict[str, list[_RowClaim]]] = {}
        self._timeline: Timeline | None = None
        # Rows where the sum of claims from now on does not tell all: of devices it matters which, and a claim whose
        # start has passed waits for what has not been given back.
        self._uncounted: set[int] = set()
        # What was placed in this cycle, by row, with its end.
        self._begun: dict[int, list[tuple[float, Allocation]]] = {}
        # Whether anything placed or claimed has a known end.
        self.ending = False
        self._blocks: dict[tuple[float, str], tuple[Allocation, ...]] = {}
        self._applied: tuple[Allocation, ...] = ()
        # By row, the GPUs and devices that are kept for jobs with victims on their way out.
        self._kept: dict[int, set[int | str]] = {}
        for hold in capacity.reserved.values():
            for place in hold.placements:
                if place.node in capacity.rows:
                    kept = self._kept.setdefault(capacity.rows[place.node], set())
                    kept.update(place.gpus, *place.devices.values())

    def __bool__(self) -> bool:
        return bool(self.of) or bool(self._capacity.bookings)

    def add(self, claim: Claim) -> None:
        self.lift()
        self.drop(claim.owner)
        self.of[claim.owner] = claim
        insort(self._starts, claim.start)
        self.ending = self.ending or claim.until < inf
        for taken in claim.taken:
            part = _RowClaim(claim.start, claim.until, taken)
            self._by_row.setdefault(taken.row, {}).setdefault(claim.owner, []).append(part)
            if taken.devices or claim.start < self._now:
                self._uncounted.add(taken.row)
            if self._timeline is not None:
                self._timeline.put(Span(claim.start, claim.until, taken, taken.row))
        self._blocks.clear()

    def drop(self, owner: str) -> None:
        claim = self.of.pop(owner, None)
        if claim is None:
            return
        self.lift()
        del self._starts[bisect_left(self._starts, claim.start)]
        for row in {taken.row for taken in claim.taken}:
            del self._by_row[row][owner]
            if not self._by_row[row]:
                del self._by_row[row]
        if self._timeline is not None:
            for taken in claim.taken:
                self._timeline.put(Span(claim.start, claim.until, taken, taken.row), -1)
        self._blocks.clear()

    def begin(self, taken: Allocation, ends_at: float) -> None:
        """Something was placed in this cycle, and will be given back at `ends_at`."""
        self._begun.setdefault(taken.row, []).append((ends_at, taken))
        self.ending = self.ending or ends_at < inf
        if self._timeline is not None:
            self._timeline.begin(Span(self._now, ends_at, taken, taken.row))
        if taken.row in self._by_row:
            self._blocks.clear()

    # ---- room that is hidden from a job that ends at some time

    def hidden_from(self, ends_at: float, reservation: str = "") -> tuple[float, str]:
        """A key: from jobs with the same key, the same room is hidden."""
        if reservation and self._capacity.booked(reservation, self._now) is not None:
            return inf, reservation
        begun = bisect_left(self._starts, ends_at)
        return (self._starts[begun - 1], "") if begun else _NOTHING

    def hide(self, ends_at: float, reservation: str = "") -> None:
        """Hides from the columns what a job that ends then may not have; for a job of a reservation, all other room."""
        key = self.hidden_from(ends_at, reservation)
        if key not in self._blocks:
            # What is hidden now must not count as held.
            self.lift()
            self._blocks[key] = tuple(self._hidden(key[0], ends_at, reservation))
        wanted = self._blocks[key]
        if wanted is not self._applied:
            self.lift()
            for taken in wanted:
                self._txn.take(taken)
            self._applied = wanted

    def lift(self) -> None:
        """Shows everything that was hidden."""
        for taken in reversed(self._applied):
            self._txn.give(taken)
        self._applied = ()

    def use(self, reservation: str, taken: Allocation) -> None:
        """A job of the reservation took some of what is booked: so much less is kept."""
        claim = self.of.get(reservation)
        if claim is not None:
            self.drop(reservation)
            left = tuple(
                _without(allocation, taken) if allocation.row == taken.row else allocation for allocation in claim.taken
            )
            self.add(claim._replace(taken=left))

    def keep_booked(self) -> None:
        """Only reservations count from now on, and what they may want is hidden from every job."""
        for owner in [claim.owner for claim in self.of.values() if not claim.reservation]:
            self.drop(owner)
        self.hide(inf)

    def _hidden(self, latest: float, ends_at: float, reservation: str) -> Iterator[Allocation]:
        if latest == inf:
            return self._outside(self.of.get(reservation))
        return self._blocked(ends_at) if latest > -inf else iter(())

    def _outside(self, claim: Claim | None) -> Iterator[Allocation]:
        """All free room, except what this reservation has booked once it has begun."""
        table = self._capacity.table
        begun = () if claim is None or claim.start > self._now else claim.taken
        mine = {taken.row: taken for taken in begun}
        for row in np.flatnonzero(table.exists).tolist():
            own = mine.get(row)
            cpu, memory, gpus = (0, 0, ()) if own is None else (own.cpu_milli, own.memory_mib, own.gpus)
            free = max(0, table.cpu_free.item(row) - cpu), max(0, table.memory_free.item(row) - memory)
            yield Allocation(row, *free, (), 1000, (), None)
            for gpu, left in enumerate(table.gpu_left[row].tolist()):
                if left > 0 and gpu not in gpus:
                    yield Allocation(row, 0, 0, (gpu,), left, (), None)

    def _blocked(self, ends_at: float) -> Iterator[Allocation]:
        if self._timeline is None:
            for row in self._by_row:
                yield from self._blocked_on(row, ends_at)
            return
        table, claimed = self._capacity.table, self._timeline.claimed(ends_at)
        claimed[:, list(self._uncounted)] = 0
        for row in np.flatnonzero(claimed.any(axis=0)).tolist():
            yield from _Need.of(claimed[:, row].tolist(), table.gpus_wide).within(table, row)
        for row in sorted(self._uncounted & self._by_row.keys()):
            yield from self._blocked_on(row, ends_at)

    def _blocked_on(self, row: int, ends_at: float) -> Iterator[Allocation]:
        relevant = [part for part in self._parts(row) if part.start < ends_at]
        if relevant:
            need = _Need()
            for at in sorted({part.start for part in relevant}):
                uses = [part.taken for part in relevant if part.start <= at < part.until]
                need.at_once(uses, [use for end, use in self._ends(row) if end <= at])
            yield from need.within(self._capacity.table, row)

    # ---- rows over time

    def timeline(self, ask: Ask | None = None, expected: int = 0) -> Timeline | None:
        """What is left of all rows over time; None where so little is claimed, or expected to be, that going through
        the claims costs less."""
        kinds = [] if ask is None else [kind for kind, _ in ask.devices]
        known = self._timeline
        if known is None and max(len(self.of), expected) < _MANY:
            return None
        if known is None or not known.kinds >= set(kinds):
            self.lift()
            all_kinds = kinds if known is None else known.kinds.union(kinds)
            known = self._timeline = Timeline(self._capacity.table, self._now, sorted(all_kinds), self._spans())
        return known

    def _spans(self) -> Iterator[Span]:
        for row in range(self._capacity.table.used):
            yield from (Span(-inf, at, use, row) for at, use in self._ends(row))
            yield from (Span(part.start, part.until, part.taken, row) for part in self._parts(row))

    def _parts(self, row: int) -> Iterator[_RowClaim]:
        return chain.from_iterable(self._by_row[row].values()) if row in self._by_row else iter(())

    def next_on(self, row: int) -> float:
        """When the next claim on the row begins."""
        return min((part.start for part in self._parts(row)), default=inf)

    def rows(self) -> set[int]:
        """Rows that differ from the capacity: with claims, with kept room, or with placements of this cycle."""
        return self._by_row.keys() | self._begun.keys() | self._kept.keys()

    def shifts(self, row: int) -> list[CapacityChange]:
        """All changes on the row, in the order of time."""
        found = [CapacityChange(at, +1, use) for at, use in self._ends(row)]
        parts = [part for part in self._parts(row) if part.until > self._now]
        if parts or row in self._begun:
            found += [CapacityChange(part.start, -1, part.taken) for part in parts]
            found += [CapacityChange(part.until, +1, part.taken) for part in parts if part.until < inf]
            found.sort(key=_by_time)
        return found

    def overlapping(self, row: int, start: float, until: float) -> list[Allocation]:
        """What is claimed of the row at any time between `start` and `until`."""
        return [part.taken for part in self._parts(row) if part.start < until and part.until > start]

    def has_room(self, claim: Claim) -> bool:
        """Whether one more claim can be met, by the estimated ends of running jobs."""
        self.lift()
        timeline = self._timeline
        for row in {taken.row for taken in claim.taken}:
            own = [taken for taken in claim.taken if taken.row == row]
            if timeline is not None and claim.start >= self._now and row not in self._uncounted:
                if not timeline.has_room(row, claim.start, claim.until, own):
                    return False
                continue
            others = [part for part in self._parts(row) if part.until > claim.start]
            times = {claim.start, *(part.start for part in others if claim.start < part.start < claim.until)}
            for at in times:
                uses = [part.taken for part in others if part.start <= at < part.until]
                if not self._go_together(row, at, uses + own):
                    return False
        return True

    def _go_together(self, row: int, at: float, uses: list[Allocation]) -> bool:
        table, txn = self._capacity.table, self._txn
        checkpoint, fits = txn.checkpoint(), True
        for use in self.released(row, at):
            txn.give(taken_by(table, row, use) if isinstance(use, Placement) else use)
        for use in uses:
            fits = fits and all(table.gpu_left.item(row, gpu) >= use.gpu_milli for gpu in use.gpus)
            fits = fits and not any(table.devices_taken[kind][row] & bits for kind, bits in use.devices)
            if not fits:
                break
            txn.take(use)
        # A job below guaranteed QoS may have more than there is.
        fits = fits and table.cpu_free.item(row) + table.cpu_extra.item(row) >= 0
        fits = fits and table.memory_free.item(row) + table.memory_extra.item(row) >= 0
        txn.rollback(checkpoint)
        return fits

    def all_overlapping(self, start: float) -> Iterator[Allocation]:
        """What is claimed of any row from `start` on."""
        for row in self._by_row:
            yield from (part.taken for part in self._parts(row) if part.until > start)

    def given_back(self, now: float) -> Iterator[tuple[float, int, Allocation]]:
        """What was placed in this cycle and what is claimed: the end of each, its row, and what it gives back."""
        for row, begun in self._begun.items():
            yield from ((at, row, taken) for at, taken in begun)
        for row in self._by_row:
            yield from ((part.until, row, part.taken) for part in self._parts(row) if now < part.until < inf)

    def released(self, row: int, by: float) -> list[Use]:
        """What is given back on the row by that time."""
        return [use for at, use in self._ends(row) if at <= by]

    def _ends(self, row: int) -> Iterator[tuple[float, Use]]:
        record = self._capacity.table.records[row]
        if record is not None:
            kept = self._kept.get(row)
            for end in self._capacity.future.ends_on(record.info.name):
                yield end.at, end.place if kept is None else _beside(end.place, kept)
        yield from self._begun.get(row, ())


def _beside(place: Placement, kept: set[int | str]) -> Placement:
    """What a placement gives back, less the GPUs and devices that are kept for another job."""
    if kept.isdisjoint(place.gpus) and kept.isdisjoint(name for names in place.devices.values() for name in names):
        return place
    devices = {kind: tuple(name for name in names if name not in kept) for kind, names in place.devices.items()}
    return replace(place, gpus=tuple(gpu for gpu in place.gpus if gpu not in kept), devices=devices)


def _without(booked: Allocation, used: Allocation) -> Allocation:
    return booked._replace(
        cpu_milli=max(0, booked.cpu_milli - used.cpu_milli),
        memory_mib=max(0, booked.memory_mib - used.memory_mib),
        gpus=tuple(gpu for gpu in booked.gpus if gpu not in used.gpus),
    )


_NOTHING = (-inf, "")


def _by_time(shift: CapacityChange) -> tuple[float, int]:
    """At one time, releases come before starts: what is given back can be taken at once."""
    return shift.at, -shift.sign


class _Need:
    """The most that is claimed of one row at any time and not given back by that time."""

    def __init__(self) -> None:
        self.cpu = self.memory = 0
        self.gpus: dict[int, int] = {}
        self.devices: dict[str, int] = {}

    @classmethod
    def of(cls, claimed: list[int], gpus: int) -> "_Need":
        """CPU, memory, and thousandths of each GPU."""
        need = cls()
        need.cpu, need.memory = claimed[:2]
        need.gpus = {gpu: milli for gpu, milli in enumerate(claimed[2 : 2 + gpus]) if milli}
        return need

    def at_once(self, uses: list[Allocation], released: list[Use]) -> None:
        self.cpu = max(self.cpu, sum(use.cpu_milli for use in uses) - sum(end.cpu_milli for end in released))
        self.memory = max(self.memory, sum(use.memory_mib for use in uses) - sum(end.memory_mib for end in released))
        gpus: dict[int, int] = {}
        for use in uses:
            for gpu in use.gpus:
                gpus[gpu] = gpus.get(gpu, 0) + use.gpu_milli
            for kind, bits in use.devices:
                self.devices[kind] = self.devices.get(kind, 0) | bits
        for use in released if gpus else ():
            for gpu in use.gpus:
                if gpu in gpus:
                    gpus[gpu] -= use.gpu_milli
        for gpu, milli in gpus.items():
            self.gpus[gpu] = max(self.gpus.get(gpu, 0), milli)

    def within(self, table: NodeTable, row: int) -> Iterator[Allocation]:
        """The need as far as it is free now: what running jobs hold cannot be had anyway."""
        cpu = max(0, min(self.cpu, table.cpu_free.item(row)))
        memory = max(0, min(self.memory, table.memory_free.item(row)))
        devices: list[tuple[str, int]] = []
        for kind, bits in self.devices.items():
            table.free_devices(kind)
            devices.append((kind, bits & ~table.devices_taken[kind][row]))
        yield Allocation(row, cpu, memory, (), 1000, tuple(devices), None)
        for gpu, milli in self.gpus.items():
            left = min(milli, table.gpu_left.item(row, gpu))
            if left > 0:
                yield Allocation(row, 0, 0, (gpu,), left, (), None)
