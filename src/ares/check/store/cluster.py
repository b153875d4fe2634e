"""Checks of machines: leases, allocations on them, and reservations."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from ares.check.store import kinds
from ares.check.store.findings import Findings
from ares.check.store.reading import Reader
from ares.model.node import NodeInfo, NodeLease, NodeRecord
from ares.model.reservation import BOOKED, Reservation
from ares.model.state import JobState, Placement

_WHOLE = 1000
_HOLDING = {"STAGING", "RUNNING"}


class Given(msgspec.Struct):
    """The allocations on one machine."""

    cpu_milli: int = 0
    memory_mib: int = 0
    # Thousandths of single devices: of GPUs by index, of others by kind and id.
    shares: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    jobs: int = 0

    def add(self, place: Placement) -> None:
        self.jobs += 1
        self.cpu_milli += place.cpu_milli
        self.memory_mib += place.memory_mib
        for name, share in shares_of(place):
            self.shares[name] = self.shares.get(name, 0) + share


def shares_of(place: Placement) -> Iterator[tuple[str, int]]:
    for gpu in place.gpus:
        yield f"GPU {gpu}", place.gpu_milli
    for kind, ids in place.devices.items():
        for device in ids:
            yield f"{kind} {device}", _WHOLE


def devices_of(info: NodeInfo) -> set[str]:
    return {f"GPU {gpu.index}" for gpu in info.gpus} | {
        f"{kind} {device}" for kind, ids in info.devices.items() for device in ids
    }


def held(state: JobState) -> list[Placement]:
    """The placements where ranks of the job run or may still run."""
    if state.phase not in _HOLDING and not state.lingering:
        return []
    return [place for place in (*state.placements, *state.leaving) if place.rank not in state.ended_ranks]


class MachineTable:
    """All machines, and the allocations of jobs on them."""

    def __init__(self, reader: Reader, findings: Findings) -> None:
        self._findings = findings
        self._given: dict[str, Given] = defaultdict(Given)
        self.nodes: Mapping[str, NodeRecord] = {name: kept.record for name, kept in reader.all(kinds.NODES)}
        leases: dict[str, NodeLease] = {name: kept.record for name, kept in reader.all(kinds.LEASES)}
        removed = {name for name, _ in reader.all(kinds.REMOVED)}
        findings.looked("nodes", len(self.nodes) + len(leases) + len(removed))
        for what in _disagreeing(self.nodes, leases, removed):
            findings.wrong("nodes", what)

    def take(self, state: JobState) -> None:
        for place in held(state):
            self._findings.looked("capacity")
            node = self.nodes.get(place.node)
            if node is None:
                self._findings.wrong("capacity", f"job {state.id} holds room on {place.node}, which does not exist")
            elif place.incarnation > node.incarnation:
                self._findings.wrong(
                    "capacity",
                    f"job {state.id} was granted incarnation {place.incarnation} of {place.node}, "
                    f"which is at {node.incarnation}",
                )
            elif place.incarnation == node.incarnation:
                # What an earlier incarnation was given went away with it.
                self._given[place.node].add(place)

    def judge(self) -> None:
        for name, given in sorted(self._given.items()):
            for what in _overdrawn(self.nodes[name].info, given):
                self._findings.wrong("capacity", f"{name}: {what}")


def _disagreeing(nodes: Mapping[str, NodeRecord], leases: Mapping[str, NodeLease], removed: set[str]) -> Iterator[str]:
    for name in sorted(nodes.keys() | leases.keys() | removed):
        node, lease = nodes.get(name), leases.get(name)
        if node is not None and name in removed:
            yield f"{name} is registered, and removed"
        if node is not None and lease is None:
            yield f"{name} is registered and has no lease"
        if node is None and lease is not None:
            yield f"{name} has a lease and is not registered"
        if node is not None and lease is not None and node.incarnation != lease.incarnation:
            yield f"{name} is at incarnation {node.incarnation}, its lease at {lease.incarnation}"


def _overdrawn(info: NodeInfo, given: Given) -> Iterator[str]:
    if given.cpu_milli > info.cpu_milli:
        yield f"{given.cpu_milli} of {info.cpu_milli} thousandths of a CPU are given to {given.jobs} attempts"
    if given.memory_mib > info.memory_mib:
        yield f"{given.memory_mib} of {info.memory_mib} MiB are given to {given.jobs} attempts"
    there = devices_of(info)
    for name, share in sorted(given.shares.items()):
        if name not in there:
            yield f"{name} is given away and does not exist"
        elif share > _WHOLE:
            yield f"{share} thousandths of {name} are given away"


# ---- reservations


def check_reservations(reader: Reader, findings: Findings) -> None:
    booked: list[Reservation] = []
    for name, kept in reader.all(kinds.RESERVATIONS):
        reservation: Reservation = kept.record
        findings.looked("reservations")
        if reservation.until <= reservation.start:
            findings.wrong("reservations", f"{name} ends before it begins")
        if reservation.state in BOOKED:
            booked.append(reservation)
    by_device: dict[tuple[str, str], list[tuple[float, float, int, str]]] = defaultdict(list)
    for reservation in booked:
        for place in reservation.placements:
            for device, share in shares_of(place):
                by_device[place.node, device].append((reservation.start, reservation.until, share, reservation.name))
    for (node, device), turns in sorted(by_device.items()):
        for what in _booked_twice(turns):
            findings.wrong("reservations", f"{device} of {node} is booked {what}")


def _booked_twice(turns: list[tuple[float, float, int, str]]) -> Iterator[str]:
    turns.sort()
    for number, (start, _, share, name) in enumerate(turns):
        others = [(their, who) for _, until, their, who in turns[:number] if until > start]
        if share + sum(their for their, _ in others) > _WHOLE:
            yield f"by {name} and {', '.join(who for _, who in others)} at the same time"
