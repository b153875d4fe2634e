"""Nodes as rows of the columns, and how much of each is taken: by attempts, and by room that is kept."""

import heapq
from collections.abc import Iterable, Set
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeVar

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.fit import Evaluations
from ares.core.capacity.future import Future, RunningEnds
from ares.core.capacity.guard import Guard
from ares.core.capacity.holding import Holding
from ares.core.capacity.node_slice import Matching
from ares.core.capacity.node_table import WHOLE, Ints, NodeTable
from ares.core.capacity.node_timeline import OpenTimes
from ares.core.queue.drf import Amounts
from ares.model.job import Qos
from ares.model.node import NodeInfo
from ares.model.reservation import Reservation
from ares.model.state import Placement

Key = TypeVar("Key")
# So many nodes are brought up to date one by one.
_FEW = 6


class Tally(dict[Key, int]):
    """Counts; what is not in it counts 0. A `Counter` takes ten times as long to make, and there are four per node."""

    def __missing__(self, key: Key) -> int:
        return 0


@dataclass(slots=True)
class Used:
    """What attempts hold on one node, known to the cluster or not."""

    jobs: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    # Thousandths of each GPU: more than all of it only if something went wrong, and then it must not get lost.
    gpus: Tally[int] = field(default_factory=Tally[int])
    # How many attempts hold each device, by kind and id.
    devices: Tally[tuple[str, str]] = field(default_factory=Tally[tuple[str, str]])
    # CPU and memory that come from one NUMA node.
    numa_cpu: Tally[int] = field(default_factory=Tally[int])
    numa_memory: Tally[int] = field(default_factory=Tally[int])

    def add(self, place: Placement, sign: int) -> None:
        self.jobs += sign
        self.cpu_milli += sign * place.cpu_milli
        self.memory_mib += sign * place.memory_mib
        for gpu in place.gpus:
            self.gpus[gpu] += sign * place.gpu_milli
        for kind, names in place.devices.items():
            for name in names:
                self.devices[kind, name] += sign
        if place.numa is not None:
            self.numa_cpu[place.numa] += sign * place.cpu_milli
            self.numa_memory[place.numa] += sign * place.memory_mib

    def within(self, info: NodeInfo, place: Placement, extra: tuple[int, int]) -> bool:
        """Whether the node has all that is held of what `place` holds; `extra` CPU and memory may be over-committed."""
        whole = {gpu.index for gpu in info.gpus if not gpu.mig and self.gpus[gpu.index] <= WHOLE}
        devices = {(kind, name) for kind, names in info.devices.items() for name in names}
        numa = {
            domain.index
            for domain in info.numa
            if self.numa_cpu[domain.index] <= 1000 * len(domain.cpus)
            and self.numa_memory[domain.index] <= domain.memory_mib
        }
        mine = {(kind, name) for kind, names in place.devices.items() for name in names}
        return (
            self.cpu_milli <= info.cpu_milli + extra[0]
            and self.memory_mib <= info.memory_mib + extra[1]
            and set(place.gpus) <= whole
            and mine <= devices
            and all(self.devices[device] <= 1 for device in mine)
            and (place.numa is None or place.numa in numa)
        )


class Free(NamedTuple):
    """What is left of one node, and how many attempts hold something on it."""

    jobs: int
    cpu_milli: int
    memory_mib: int
    gpus: tuple[int, ...]
    # Thousandths left of GPUs that are shared and not used up.
    gpu_shares: dict[int, int]


class Reserved(NamedTuple):
    """Room kept for a job, and the victims that are on their way out for it."""

    placements: tuple[Placement, ...]
    evicting: tuple[str, ...]
    alternative: int = 0


class Capacity:
    """Counts every holder, known to the cluster or not, so that no holding is lost if too much was given away."""

    def __init__(self) -> None:
        self._table = NodeTable()
        self.matching = Matching()
        self._evaluations = Evaluations(self._table, self.matching)
        # Nodes whose columns do not show yet what was taken or given back on them, with these placements: a wave of
        # bindings is written at once, before any column is read.
        self._behind: dict[str, list[Placement]] = {}
        # Kept until a node comes, changes or goes.
        self._in_all: Amounts | None = None
        self.future = Future()
        self.rows: dict[str, int] = {}
        self._unused: list[int] = []
        self._ready: set[str] = set()
        self._used: dict[str, Used] = {}
        # What every job holds, and which jobs hold something on a node.
        self.holdings: dict[str, Holding] = {}
        self.on_node: dict[str, dict[str, None]] = {}
        # Room kept for jobs whose victims are on their way out, and reservations.
        self.reserved: dict[str, Reserved] = {}
        self.bookings: dict[str, Reservation] = {}
        # Whether plans go by time limits for now.
        self.guard = Guard()
        self.opened = OpenTimes()
        self.ends = RunningEnds()

    @property
    def table(self) -> NodeTable:
        """The columns, up to date with all that is held."""
        if self._behind:
            self._catch_up()
        return self._table

    @property
    def evaluations(self) -> Evaluations:
        if self._behind:
            self._catch_up()
        return self._evaluations

    def set_ready(self, name: str, ready: bool) -> bool:
        """Sets whether the node's agent is alive; may come before the node itself. Returns whether that is a change."""
        if ready == (name in self._ready):
            return False
        (self._ready.add if ready else self._ready.discard)(name)
        self._set_healthy(name)
        return True

    def booked(self, name: str | None, now: float) -> Reservation | None:
        """The reservation that binds jobs that name it: one that is over binds none."""
        reservation = self.bookings.get(name) if name else None
        return reservation if reservation is not None and reservation.until > now else None

    @property
    def ready_nodes(self) -> Set[str]:
        """Nodes whose agents are alive, also nodes that get no new work."""
        return self._ready

    def free(self, name: str) -> Free | None:
        """What is left of a node, or None when there is no such node."""
        row = self.rows.get(name)
        if row is None:
            return None
        table, used = self.table, self._used.get(name, Used())
        left = table.gpu_left[row].tolist()
        return Free(
            used.jobs,
            table.cpu_free.item(row),
            table.memory_free.item(row),
            tuple(gpu for gpu, milli in enumerate(left) if milli == WHOLE),
            {gpu: milli for gpu, milli in enumerate(left) if 0 < milli < WHOLE},
        )

    def most_free(self) -> tuple[int, int, int]:
        """The most of CPU, of memory and of GPU thousandths that any one row has left."""
        table, used = self.table, self.table.used
        if used == 1:
            return table.cpu_free.item(0), table.memory_free.item(0), table.gpu_idle.item(0)
        free = (table.cpu_free, table.memory_free, table.gpu_idle)
        cpu, memory, gpu = (int(column[:used].max(initial=0)) for column in free)
        return cpu, memory, gpu

    def capacity(self) -> Amounts:
        """What all nodes have together."""
        if self._in_all is None:
            table, exists = self._table, self._table.exists
            self._in_all = Amounts(
                int(table.cpu[exists].sum()),
                int(table.memory[exists].sum()),
                WHOLE * int(table.gpu_count[exists].sum()),
            )
        return self._in_all

    # ---- single placements

    def is_there(self, place: Placement) -> bool:
        """Whether the placement's node is ready, and still of the incarnation it was chosen on."""
        return self.may_be_there(place) and bool(self.table.healthy[self.rows[place.node]])

    def may_be_there(self, place: Placement) -> bool:
        """Whether the placement's node is still of its incarnation and not cordoned; it may become ready again."""
        row = self.rows.get(place.node)
        record = None if row is None else self.table.records[row]
        return record is not None and record.incarnation == place.incarnation and not record.cordoned

    def is_alone(self, place: Placement, qos: Qos, used: Used | None = None) -> bool:
        """Whether no other job holds what is kept at `place`. Counts every holder: columns do not go below zero.

        `used` is what would be held on its node, `place` included; by default what is held now."""
        if not self.is_there(place):
            return False
        table, row = self.table, self.rows[place.node]
        record, more = table.records[row], qos != "guaranteed"
        assert record is not None, f"{place.node} is there"
        extra = more * table.cpu_extra.item(row), more * table.memory_extra.item(row)
        return (used or self._used[place.node]).within(record.info, place, extra)

    def used_on(self, name: str) -> Used:
        """A copy of what is held on a node, to try changes on."""
        return deepcopy(self._used.get(name, _NOTHING))

    # ---- for subclasses

    def _new_row(self) -> int:
        if self._unused:
            return heapq.heappop(self._unused)
        row = len(self.rows)
        if row == self.table.rows:
            self.table.grow()
            self.evaluations.forget()
        return row

    def _set_healthy(self, name: str) -> None:
        row = self.rows.get(name)
        if row is not None:
            record = self.table.records[row]
            was = bool(self.table.healthy[row])
            healthy = self.table.healthy[row] = name in self._ready and record is not None and not record.cordoned
            self.future.slack += healthy and not was
            self.future.setbacks += was and not healthy
            self.evaluations.touch(row)
            self._shift(row)

    def book(self, reservation: Reservation) -> None:
        self.bookings[reservation.name] = reservation
        self.future.setbacks += 1
        self._end_with(reservation.name)

    def unbook(self, name: str) -> None:
        if self.bookings.pop(name, None) is not None:
            self.future.slack += 1
            self._end_with(name)

    def closing(self, ask: Ask, now: float) -> Reservation | None:
        """The ask's reservation, when its end is so near that a job started in it would be told to leave at once."""
        reservation = self.booked(ask.reservation, now)
        return reservation if reservation is not None and now >= reservation.until - ask.leave_s else None

    def _end_with(self, name: str) -> None:
        """Jobs of a reservation end when it does."""
        self._end_anew(holding for holding in self.holdings.values() if holding.reservation == name)

    def _end_anew(self, holdings: Iterable[Holding]) -> None:
        for holding in list(holdings):
            self.future.release(holding.job, holding.placements)
            self.future.hold(holding.job, holding.placements, self._end_of(holding))

    def _end_of(self, holding: Holding) -> float:
        at = inf if holding.ends_at is None else holding.ends_at
        if self.guard.since is not None and holding.limit_s is not None and holding.leaves_at is None:
            at = max(at, holding.since + holding.limit_s)
        booked = self.bookings.get(holding.reservation) if holding.reservation else None
        return at if booked is None else min(at, booked.until)

    def _all_end_anew(self) -> None:
        """Plans go by time limits from now on, or do not any more."""
        self.future.setbacks += 1
        self.future.slack += 1
        self._end_anew(self.holdings.values())
        for row in self.rows.values():
            self._shift(row)

    def _shift(self, row: int | None) -> None:
        if row is not None:
            self.future.touch(row)

    def _set_free(self, name: str) -> None:
        row = self.rows.get(name)
        record = None if row is None else self.table.records[row]
        if row is None or record is None:
            return
        table, info, used = self.table, record.info, self._used.get(name) or _NOTHING
        table.cpu_free[row] = info.cpu_milli - used.cpu_milli
        table.memory_free[row] = info.memory_mib - used.memory_mib
        gpus = [gpu for gpu in info.gpus if gpu.index < table.gpus_wide]
        left = [-1 if gpu.mig else max(0, WHOLE - used.gpus[gpu.index]) for gpu in gpus]
        table.set_gpus_left(row, [gpu.index for gpu in gpus], left)
        for place, numa in enumerate(info.numa):
            table.numa_cpu_free[row, place] = table.numa_cpu[row, place] - used.numa_cpu[numa.index]
            table.numa_memory_free[row, place] = numa.memory_mib - used.numa_memory[numa.index]
        for kind, names in info.devices.items():
            taken = sum(1 << bit for bit, device in enumerate(names) if used.devices[kind, device] > 0)
            table.set_devices_taken(row, kind, taken)
        self.evaluations.touch(row)

    def _change(self, placements: tuple[Placement, ...], sign: int) -> None:
        for place in placements:
            used = self._used.get(place.node)
            if used is None:
                used = self._used[place.node] = Used()
            used.add(place, sign)
            if used.jobs == 0:
                del self._used[place.node]
            if (row := self.rows.get(place.node)) is not None:
                self.future.touch(row)
                self._behind.setdefault(place.node, []).append(place)

    def _catch_up(self) -> None:
        """Writes what was taken and given back since the columns were last read."""
        behind, self._behind = self._behind, {}
        there: list[tuple[int, NodeInfo, Used, list[Placement]]] = []
        for name, places in behind.items():
            row = self.rows.get(name)
            record = None if row is None else self._table.records[row]
            if row is None or record is None:
                continue
            if any(place.numa is not None or place.devices for place in places):
                self._set_free(name)
            else:
                there.append((row, record.info, self._used.get(name) or _NOTHING, places))
        if len(there) > _FEW:
            self._set_free_of_each(there)
            return
        for row, info, used, places in there:
            self._set_free_of(row, info, used, places)

    def _set_free_of(self, row: int, info: NodeInfo, used: Used, places: list[Placement]) -> None:
        """Sets only the columns that placements touch: most of a node stays as it is."""
        table = self._table
        table.cpu_free[row] = info.cpu_milli - used.cpu_milli
        table.memory_free[row] = info.memory_mib - used.memory_mib
        gpus = {gpu for place in places for gpu in place.gpus if gpu < table.gpus_wide}
        if gpus:
            # A node may have come back with fewer GPUs than an attempt on it holds.
            left = table.gpu_left[row].tolist()
            there = [gpu for gpu in gpus if left[gpu] >= 0]
            table.set_gpus_left(row, there, [max(0, WHOLE - used.gpus[gpu]) for gpu in there])
        self._evaluations.touch(row)

    def _set_free_of_each(self, there: list[tuple[int, NodeInfo, Used, list[Placement]]]) -> None:
        """The same of many nodes at once."""
        table, wide = self._table, self._table.gpus_wide
        rows = np.array([row for row, _, _, _ in there])
        table.cpu_free[rows] = [info.cpu_milli - used.cpu_milli for _, info, used, _ in there]
        table.memory_free[rows] = [info.memory_mib - used.memory_mib for _, info, used, _ in there]
        held = [
            (at, gpu, milli)
            for at, (_, _, used, _) in enumerate(there)
            for gpu, milli in used.gpus.items()
            if gpu < wide
        ]
        taken: Ints = np.zeros((len(rows), wide), np.int64)
        if held:
            at, gpus, millis = zip(*held, strict=True)
            taken[at, gpus] = millis
        table.set_rows_left(rows, taken)
        self._evaluations.touch_each(rows)


_NOTHING = Used()
