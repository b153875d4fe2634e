"""How many ranks of a request a node has room for: over whole columns, and for one node whose holders come and go."""

import numpy as np

from ares.core.schedule.preempt.holders import Freed, Ints, RoomColumns, RoomRequest


def ranks_everywhere(request: RoomRequest, rooms: RoomColumns) -> Ints:
    """For each node. A rank needs `gpus` different GPUs, so a GPU serves at most as many ranks as are on the node."""
    ranks = np.minimum(rooms.ranks_max, request.ranks)
    for free, asked in ((rooms.cpu_milli, request.cpu_milli), (rooms.memory_mib, request.memory_mib)):
        if asked:
            ranks = np.minimum(ranks, free // asked)
    for kind, asked in request.devices:
        ranks = np.minimum(ranks, rooms.devices.get(kind, np.zeros(len(rooms), np.int64)) // asked)
    ranks = np.maximum(ranks, 0)
    if not request.gpus:
        return ranks
    shares = np.where(rooms.answers, np.maximum(rooms.gpus, 0) // request.gpu_milli, 0)
    # The most ranks with sum(min(shares, ranks)) >= ranks * gpus, by bisection: the ranks that fit have no gaps.
    low, high = np.zeros(len(rooms), np.int64), np.minimum(ranks, shares.sum(axis=1) // request.gpus)
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = np.minimum(shares, middle[:, None]).sum(axis=1) >= middle * request.gpus
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return low


class Site:
    """One node's room in plain numbers, many times faster than arrays of length one."""

    __slots__ = ("_answers", "_ranks_max", "_request", "cpu_milli", "devices", "gpus", "memory_mib", "ranks")

    def __init__(self, request: RoomRequest, rooms: RoomColumns, row: int) -> None:
        self._request = request
        self._ranks_max = min(rooms.ranks_max.item(row), request.ranks)
        self._answers: list[bool] = rooms.answers[row].tolist()
        self.cpu_milli: int = rooms.cpu_milli.item(row)
        self.memory_mib: int = rooms.memory_mib.item(row)
        self.gpus: list[int] = rooms.gpus[row].tolist()
        self.devices: dict[str, int] = {kind: free.item(row) for kind, free in rooms.devices.items()}
        self.ranks = self._count()

    def give(self, freed: Freed, sign: int) -> int:
        """Adds what is freed, or takes it back with -1. Returns how many more ranks fit."""
        self.cpu_milli += sign * freed.cpu_milli
        self.memory_mib += sign * freed.memory_mib
        if self._request.gpus:
            for index, milli in freed.gpus:
                self.gpus[index] += sign * milli
        for kind, count in freed.devices:
            self.devices[kind] = self.devices.get(kind, 0) + sign * count
        before = self.ranks
        self.ranks = self._count()
        return self.ranks - before

    def _count(self) -> int:
        asked, ranks = self._request, self._ranks_max
        if asked.cpu_milli:
            ranks = min(ranks, self.cpu_milli // asked.cpu_milli)
        if asked.memory_mib:
            ranks = min(ranks, self.memory_mib // asked.memory_mib)
        for kind, count in asked.devices:
            ranks = min(ranks, self.devices.get(kind, 0) // count)
        if ranks <= 0 or not asked.gpus:
            return max(ranks, 0)
        milli = asked.gpu_milli
        shares = [left // milli for left, mine in zip(self.gpus, self._answers, strict=True) if mine and left >= milli]
        ranks = min(ranks, sum(shares) // asked.gpus)
        while ranks and sum([min(share, ranks) for share in shares]) < ranks * asked.gpus:
            ranks -= 1
        return ranks
