"""Jobs that have to leave booked room: other jobs when it is needed, and its own jobs when its window ends."""

from collections.abc import Collection

from ares.core.capacity.holding import Holding
from ares.core.reserve.room import mask
from ares.core.schedule.cluster import Cluster
from ares.model.reservation import Reservation
from ares.model.state import Placement


def strangers(cluster: Cluster, one: Reservation, booked: Collection[str]) -> tuple[str, ...]:
    """Jobs that hold room of the reservation and belong to none in `booked`, in the order of their ids."""
    found = {job for place in one.placements for job in _on(cluster, one, place, booked)}
    return tuple(sorted(found))


def _on(cluster: Cluster, one: Reservation, place: Placement, booked: Collection[str]) -> list[str]:
    """On one node: jobs on the booked GPUs, then the latest to come as long as CPUs or memory do not suffice."""
    row = cluster.rows.get(place.node)
    if row is None:
        return []
    others = [cluster.holdings[job] for job in cluster.on_node.get(place.node, ())]
    others = [other for other in others if other.reservation is None or other.reservation not in booked]
    cpu, memory = cluster.table.cpu.item(row), cluster.table.memory.item(row)
    gone: list[str] = []
    left: list[Holding] = []
    for other in others:
        on_gpus = any(p.node == place.node and mask(p) & mask(place) for p in other.placements)
        (gone.append(other.job) if on_gpus else left.append(other))
    left.sort(key=lambda other: (other.since, other.job))
    while left and (
        cpu - sum(_held(other, place.node)[0] for other in left) < place.cpu_milli
        or memory - sum(_held(other, place.node)[1] for other in left) < place.memory_mib
    ):
        gone.append(left.pop().job)
    return gone


def _held(holding: Holding, node: str) -> tuple[int, int]:
    places = [place for place in holding.placements if place.node == node]
    return sum(place.cpu_milli for place in places), sum(place.memory_mib for place in places)


def outgoing(cluster: Cluster, one: Reservation, now: float) -> tuple[str, ...]:
    """Jobs of the reservation that must be told to leave now, so that they are gone when its window ends."""
    return tuple(
        sorted(
            holding.job
            for holding in cluster.holdings.values()
            if holding.reservation == one.name
            and holding.tenant == one.tenant
            and not holding.leaving
            and now >= one.until - holding.leave_s
        )
    )
