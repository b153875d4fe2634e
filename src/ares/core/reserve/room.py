"""What a node has to give in a window of time: all it has, without what is booked and what will still be held."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from ares.core.schedule.cluster import Cluster
from ares.core.schedule.columns import Bools
from ares.core.schedule.holding import Holding
from ares.model.reservation import Reservation, RoomAsked
from ares.model.state import Placement


@dataclass(slots=True)
class Room:
    """Of one row; GPUs are bits of those that answer to the ask."""

    row: int
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    # Those it cannot give, by who has them: other reservations, jobs that end later, jobs that do not say when.
    booked: int = 0
    later: int = 0
    silent: int = 0
    # The jobs that do not say when they end.
    silent_jobs: set[str] = field(default_factory=set[str])
    # Whether nobody holds anything on it when the window begins.
    whole: bool = True

    @property
    def free(self) -> int:
        return self.gpus & ~(self.booked | self.later | self.silent)


def rooms(
    cluster: Cluster, reservations: Sequence[Reservation], asked: RoomAsked, start: float, until: float, now: float
) -> list[Room]:
    """One for each ready node that is asked about, in the order of rows."""
    booked = [one for one in reservations if one.overlaps(start, until)]
    # Their jobs are within what they have booked.
    inside = frozenset(one.name for one in booked)
    return [
        _room(cluster, row, asked, booked, inside, start, now) for row in _rows(cluster, cluster.table.healthy, asked)
    ]


def emptied(cluster: Cluster, asked: RoomAsked) -> list[Room]:
    """The open nodes that are asked about as if nothing ran, nothing were booked and all were ready."""
    return [_all_of(cluster, row, asked) for row in _rows(cluster, cluster.table.exists, asked)]


def _rows(cluster: Cluster, of: Bools, asked: RoomAsked) -> Iterator[int]:
    for row in np.flatnonzero(of).tolist():
        record = cluster.table.records[row]
        if record is None or record.cordoned:
            continue
        named = not asked.node_names or record.info.name in asked.node_names
        if named and asked.pool in (None, record.info.pool):
            yield row


def _all_of(cluster: Cluster, row: int, asked: RoomAsked) -> Room:
    table = cluster.table
    record = table.records[row]
    assert record is not None, f"row {row} has no node"
    gpus = int(table.answer_masks(asked.gpu_model, 0)[row])
    return Room(row, record.info.name, record.info.cpu_milli, record.info.memory_mib, gpus)


def _room(
    cluster: Cluster,
    row: int,
    asked: RoomAsked,
    booked: Sequence[Reservation],
    inside: frozenset[str],
    start: float,
    now: float,
) -> Room:
    found = _all_of(cluster, row, asked)
    name = found.name
    here = [(one, place) for one in booked for place in one.placements if place.node == name]
    for _, place in here:
        found.booked |= mask(place)
    cpu, memory = _peak(here, start)
    for place, end, job in _held(cluster, name, inside, now):
        if end is not None and end <= start:
            continue
        if end is None:
            found.silent |= mask(place)
            found.silent_jobs.add(job)
        else:
            found.later |= mask(place)
        cpu, memory, found.whole = cpu + place.cpu_milli, memory + place.memory_mib, False
    found.whole = found.whole and not here
    found.cpu_milli, found.memory_mib = max(0, found.cpu_milli - cpu), max(0, found.memory_mib - memory)
    return found


def _peak(here: Sequence[tuple[Reservation, Placement]], start: float) -> tuple[int, int]:
    """The most that is booked at once from `start` on: some follow each other."""
    moments = {max(start, one.start) for one, _ in here}
    sums = [
        (sum(p.cpu_milli for p in at), sum(p.memory_mib for p in at))
        for moment in moments
        for at in [[place for one, place in here if one.start <= moment < one.until]]
    ]
    return max((cpu for cpu, _ in sums), default=0), max((memory for _, memory in sums), default=0)


def _held(
    cluster: Cluster, name: str, inside: frozenset[str], now: float
) -> Iterator[tuple[Placement, float | None, str]]:
    """What is held on the node or kept on it for somebody, when that ends, and whose it is."""
    for job in cluster.on_node.get(name, ()):
        holding = cluster.holdings[job]
        if holding.reservation in inside:
            continue
        for place in holding.placements:
            if place.node == name:
                yield place, end_of(cluster, holding, now), job
    for job, kept in cluster.reserved.items():
        for place in kept.placements:
            if place.node == name and job not in cluster.holdings:
                yield place, None, job


def end_of(cluster: Cluster, holding: Holding, now: float) -> float | None:
    """When it will have ended; None when nobody can say, which is so also when it should have ended already."""
    if holding.leaving:
        return now + holding.leave_s
    at = cluster.future.ends_at(holding.job)
    return at if at is not None and now < at < inf else None


def mask(place: Placement) -> int:
    return sum(1 << gpu for gpu in place.gpus)


def ends_after(cluster: Cluster, reservations: Iterable[Reservation], start: float, now: float) -> list[float]:
    """Moments after `start` at which something becomes free, the first first."""
    found = {one.until for one in reservations if one.overlaps(start, float("inf"))}
    found |= {end for one in cluster.holdings.values() if (end := end_of(cluster, one, now)) is not None}
    return sorted(at for at in found if at > start)
