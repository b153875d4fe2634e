"""What nodes have to give in a window of time: all they have, less what is booked and what will still be held."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np

from ares.core.capacity.holding import Holding
from ares.core.capacity.node_table import Bools
from ares.core.schedule.cluster import Cluster
from ares.model.reservation import BOOKED, Reservation, RoomAsked
from ares.model.state import Placement


@dataclass(slots=True)
class WindowRoom:
    """The room of one row; `gpus` has a bit for each GPU that answers to the ask."""

    row: int
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    # GPUs it cannot give, by the holder: other reservations, jobs that end later, jobs that do not say when.
    booked: int = 0
    later: int = 0
    silent: int = 0
    # The jobs that do not say when they end.
    silent_jobs: set[str] = field(default_factory=set[str])
    # Whether nothing on it is held or booked.
    whole: bool = True

    @property
    def free(self) -> int:
        return self.gpus & ~(self.booked | self.later | self.silent)


class _Occupant(NamedTuple):
    """A job's part of a node, and when the job has ended: infinity when that is not known."""

    end: float
    job: str
    gpus: int
    cpu_milli: int
    memory_mib: int
    reservation: str | None


class _Booked(NamedTuple):
    start: float
    until: float
    name: str
    gpus: int
    cpu_milli: int
    memory_mib: int


class WindowRooms:
    """The rooms of the nodes asked about, in the order of rows. Looked up once, then asked about any window."""

    def __init__(self, cluster: Cluster, reservations: Sequence[Reservation], asked: RoomAsked, now: float) -> None:
        self._all = [_all_of(cluster, row, asked) for row in _rows(cluster, cluster.table.healthy, asked)]
        names = {node.name for node in self._all}
        self._booked: dict[str, list[_Booked]] = {name: [] for name in names}
        for reservation in reservations:
            for place in reservation.placements:
                if reservation.state in BOOKED and place.node in names:
                    part = _Booked(
                        reservation.start,
                        reservation.until,
                        reservation.name,
                        mask(place),
                        place.cpu_milli,
                        place.memory_mib,
                    )
                    self._booked[place.node].append(part)
        self._held = {name: list(_held(cluster, name, now)) for name in names}
        ends = {held.end for holds in self._held.values() for held in holds if held.end < inf}
        # Moments at which room becomes free.
        self.ends = sorted(ends | {booking.until for bookings in self._booked.values() for booking in bookings})

    def at(self, start: float, until: float) -> list[WindowRoom]:
        """What each node can give from `start` until `until`."""
        return [self._room(node, start, until) for node in self._all]

    def _room(self, base: WindowRoom, start: float, until: float) -> WindowRoom:
        found = WindowRoom(base.row, base.name, base.cpu_milli, base.memory_mib, base.gpus)
        here = [part for part in self._booked[base.name] if part.start < until and start < part.until]
        # Jobs of these reservations are within what is booked.
        inside = {part.name for part in here}
        for part in here:
            found.booked |= part.gpus
        cpu, memory = _peak(here, start) if here else (0, 0)
        for held in self._held[base.name]:
            if held.end <= start or held.reservation in inside:
                continue
            if held.end == inf:
                found.silent |= held.gpus
                found.silent_jobs.add(held.job)
            else:
                found.later |= held.gpus
            cpu, memory, found.whole = cpu + held.cpu_milli, memory + held.memory_mib, False
        found.whole = found.whole and not here
        found.cpu_milli, found.memory_mib = max(0, found.cpu_milli - cpu), max(0, found.memory_mib - memory)
        return found


def emptied(cluster: Cluster, asked: RoomAsked) -> list[WindowRoom]:
    """The nodes asked about that are not cordoned, as if nothing ran, nothing were booked and all were ready."""
    return [_all_of(cluster, row, asked) for row in _rows(cluster, cluster.table.exists, asked)]


def _rows(cluster: Cluster, of: Bools, asked: RoomAsked) -> Iterator[int]:
    for row in np.flatnonzero(of).tolist():
        record = cluster.table.records[row]
        if record is None or record.cordoned:
            continue
        named = not asked.node_names or record.info.name in asked.node_names
        if named and asked.pool in (None, record.info.pool):
            yield row


def _all_of(cluster: Cluster, row: int, asked: RoomAsked) -> WindowRoom:
    table = cluster.table
    record = table.records[row]
    assert record is not None, f"row {row} has no node"
    gpus = int(table.answer_masks(asked.gpu_model, 0)[row])
    return WindowRoom(row, record.info.name, record.info.cpu_milli, record.info.memory_mib, gpus)


def _peak(here: Sequence[_Booked], start: float) -> tuple[int, int]:
    """The most that is booked at once from `start` on: reservations may follow each other."""
    cpu = memory = 0
    for moment in {max(start, part.start) for part in here}:
        at = [part for part in here if part.start <= moment < part.until]
        cpu = max(cpu, sum(part.cpu_milli for part in at))
        memory = max(memory, sum(part.memory_mib for part in at))
    return cpu, memory


def _held(cluster: Cluster, name: str, now: float) -> Iterator[_Occupant]:
    """What is held on the node, or kept on it for a job."""
    for job in cluster.on_node.get(name, ()):
        holding = cluster.holdings[job]
        end = end_of(cluster, holding, now)
        for place in holding.placements:
            if place.node == name:
                yield _Occupant(end, job, mask(place), place.cpu_milli, place.memory_mib, holding.reservation)
    for job, kept in cluster.reserved.items():
        for place in kept.placements:
            if place.node == name and job not in cluster.holdings:
                yield _Occupant(inf, job, mask(place), place.cpu_milli, place.memory_mib, None)


def end_of(cluster: Cluster, holding: Holding, now: float) -> float:
    """When the job will have ended; infinity when that is not known, or when it should have ended already."""
    if holding.leaving:
        return now + holding.leave_s
    at = cluster.future.ends_at(holding.job)
    return inf if at is None or at <= now else at


def mask(place: Placement) -> int:
    return sum(1 << gpu for gpu in place.gpus)
