"""Reservations and promises as claims: booked room that its own jobs do not use yet, and promised starts."""

from collections.abc import Iterator
from math import inf

from ares.api.decisions import Promise
from ares.core.capacity.capacity import Capacity, Used
from ares.core.capacity.claims import Claim
from ares.core.capacity.transaction import Allocation, taken_by
from ares.model.reservation import BOOKED, Reservation


def claims_of(capacity: Capacity, now: float) -> Iterator[Claim]:
    for name, reservation in sorted(capacity.bookings.items()):
        if reservation.state in BOOKED and reservation.until > now:
            taken = tuple(_left(capacity, reservation))
            if taken:
                yield Claim(name, reservation.start, reservation.until, taken, reservation=True)


def _left(capacity: Capacity, reservation: Reservation) -> Iterator[Allocation]:
    """What is booked on each node that is there and not held by the reservation's jobs."""
    for place in reservation.placements:
        row = capacity.rows.get(place.node)
        if row is None:
            continue
        used = Used()
        for job in capacity.on_node.get(place.node, ()):
            holding = capacity.holdings[job]
            if holding.reservation == reservation.name:
                for held in holding.placements:
                    if held.node == place.node:
                        used.add(held, +1)
        taken = taken_by(capacity.table, row, place)
        gpus = tuple(gpu for gpu in taken.gpus if not used.gpus[gpu])
        cpu, memory = max(0, taken.cpu_milli - used.cpu_milli), max(0, taken.memory_mib - used.memory_mib)
        if cpu or memory or gpus:
            yield taken._replace(cpu_milli=cpu, memory_mib=memory, gpus=gpus)


def claim_of(capacity: Capacity, promise: Promise) -> Claim | None:
    """The promise as a claim, from when on room is held for it. None when some of its nodes are gone."""
    table, taken = capacity.table, list[Allocation]()
    for place in promise.placements:
        row = capacity.rows.get(place.node)
        if row is None or not table.healthy[row]:
            return None
        taken.append(taken_by(table, row, place))
    start = promise.start if promise.held_from is None else promise.held_from
    return Claim(promise.job, start, inf if promise.until is None else promise.until, tuple(taken))
