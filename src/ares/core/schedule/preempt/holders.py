"""What victims are chosen from and for: running jobs, what is lost with each, room on nodes, and the request, as plain
values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
# Counts by kind of device, such as (("mig-1g.10gb", 2),).
Devices = tuple[tuple[str, int], ...]


class Freed(NamedTuple):
    """What one rank of a running job gives back."""

    cpu_milli: int
    memory_mib: int
    # (index of the GPU, its share in thousandths).
    gpus: tuple[tuple[int, int], ...] = ()
    devices: Devices = ()


class EvictionCandidate(NamedTuple):
    """One running job that could be evicted. Jobs already on their way out are not holders."""

    job: str
    # 0 is CRITICAL, 4 is BEST_EFFORT.
    level: int
    # "tenant/team/user".
    account: str
    # All that the job holds, over all nodes.
    gpus_milli: int
    cpu_milli: int
    # How long the current attempt has run, and how much of that would be lost.
    ran_s: float
    since_checkpoint_s: float
    preemptions: int
    preempted_s_ago: float | None
    preemptible: bool
    # (node slot, what is freed there), one entry for each rank.
    at: tuple[tuple[int, Freed], ...]
    # Of a job that saves its work: what its service counts, its turn by that, and whether it has held its place for
    # long enough since it went on. None: it does not take turns.
    service: "ServedTurn | None" = None


class ServedTurn(NamedTuple):
    """Whose turn it is by service: of two jobs the one with the smaller turn that has had less."""

    counted_s: float
    at: float
    rested: bool = True


class Asker(NamedTuple):
    """The job that wants room. `standing` is use minus soft limit of each account that has one, in units of `asked`."""

    job: str
    level: int
    account: str
    standing: Mapping[str, int] = {}
    # All that the job asks for: what its account would hold more.
    asked: int = 0
    service: ServedTurn | None = None


class RoomRequest(NamedTuple):
    """How much room is wanted: so many ranks, each of this size. A gang's ranks may share a node."""

    ranks: int
    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    # The share of each GPU.
    gpu_milli: int = 1000
    devices: Devices = ()

    @property
    def milli(self) -> int:
        """All that the request asks for in the unit of disruption: GPUs, or CPUs when it has none."""
        return self.ranks * (self.gpus * self.gpu_milli or self.cpu_milli)


class NodeRoom(NamedTuple):
    """What is free on one node, as the request sees it."""

    slot: int
    cpu_milli: int
    memory_mib: int
    # Thousandths left of each GPU, by index, and the mask of the GPUs that answer to the request.
    gpus: tuple[int, ...] = ()
    answering: int = -1
    devices: Devices = ()
    # At most so many of the request's ranks may be here; 0 keeps the node out.
    ranks_max: int = 1_000_000


@dataclass(frozen=True, slots=True)
class RoomColumns:
    """Many rooms as columns. A scheduler with columns of its own makes this directly."""

    # Ascending: the answer is then the same whatever order nodes come in.
    slots: Ints
    cpu_milli: Ints
    memory_mib: Ints
    # One row per node, one column per GPU index; GPUs that a node does not have do not answer.
    gpus: Ints
    answers: Bools
    devices: dict[str, Ints]
    ranks_max: Ints

    def __len__(self) -> int:
        return len(self.slots)


def columns(rooms: Iterable[NodeRoom]) -> RoomColumns:
    rows = sorted(rooms)
    count, width = len(rows), max((len(room.gpus) for room in rows), default=0)
    gpus, answers = np.zeros((count, width), np.int64), np.zeros((count, width), np.bool_)
    devices = {kind: np.zeros(count, np.int64) for room in rows for kind, _ in room.devices}
    for row, room in enumerate(rows):
        gpus[row, : len(room.gpus)] = room.gpus
        answers[row, : len(room.gpus)] = [room.answering >> index & 1 for index in range(len(room.gpus))]
        for kind, free in room.devices:
            devices[kind][row] = free
    return RoomColumns(
        slots=np.array([room.slot for room in rows], np.int64),
        cpu_milli=np.array([room.cpu_milli for room in rows], np.int64),
        memory_mib=np.array([room.memory_mib for room in rows], np.int64),
        gpus=gpus,
        answers=answers,
        devices=devices,
        ranks_max=np.array([room.ranks_max for room in rows], np.int64),
    )


# So many CPUs are worth one GPU, for jobs that hold no accelerator.
CPUS_PER_GPU = 32
# What one device of a kind is worth in thousandths of a GPU: the first prefix that fits decides.
DEVICE_MILLI: tuple[tuple[str, int], ...] = (
    ("mig-1g", 143), ("mig-2g", 286), ("mig-3g", 429), ("mig-4g", 571), ("", 1000),
)  # fmt: skip


def lost_gpu_ms(holder: EvictionCandidate) -> int:
    """An integer, so that sums do not depend on their order."""
    milli = holder.gpus_milli
    for _, freed in holder.at:
        for kind, count in freed.devices:
            milli += count * next(worth for prefix, worth in DEVICE_MILLI if kind.startswith(prefix))
    return round((milli or holder.cpu_milli / CPUS_PER_GPU) * holder.since_checkpoint_s)


def lost_gpu_s(holder: EvictionCandidate) -> float:
    return lost_gpu_ms(holder) / 1000
