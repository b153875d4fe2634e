"""What sets of GPUs are worth: the costs of their best rings, and pair scores."""

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ares.core.topology.links import JOINING, LinkGraph

Ints = NDArray[np.int64]

NO_PATH: Final = 1 << 62
_COST_MAX: Final = 1 << 61
# The pair score.
_SAME_NODE, _NVLINK, _PCIE, _SAME_NUMA, CONSECUTIVE = 100, 50, -30, 20, 10


def pair_score(graph: LinkGraph, one: int, other: int) -> int:
    joined = graph.links[one][other].kind in JOINING
    same_numa = graph.numa[one] == graph.numa[other]
    consecutive = abs(graph.indexes[one] - graph.indexes[other]) == 1
    return _SAME_NODE + (_NVLINK if joined else _PCIE) + _SAME_NUMA * same_numa + CONSECUTIVE * consecutive


@cache
def sets_of(gpus: int, count: int) -> Ints:
    """All sets of `count` GPUs, as masks in increasing order."""
    masks = np.arange(1 << gpus, dtype=np.int64)
    return masks[np.bitwise_count(masks) == count]


class RingScale:
    """What rings cost. A lower cost is a better ring.

    A ring's cost counts its links by speed, in digits of a number: the slowest speed is the highest digit.
    """

    def __init__(self, graph: LinkGraph) -> None:
        count = len(graph.indexes)
        self._base = count + 1
        speeds = sorted({graph.gbps(a, b) for a in range(count) for b in range(a)})
        # More speeds than digits: the fastest ones are not told apart.
        digits = next(n for n in range(len(speeds), -1, -1) if self._base**n <= _COST_MAX)
        self._speeds = tuple(speeds[:digits])
        weight = {speed: self._base ** (digits - 1 - min(at, digits - 1)) for at, speed in enumerate(speeds)}
        # By two positions, the cost of the link between them.
        self.weights: Ints = np.array(
            [[0 if a == b else weight[graph.gbps(a, b)] for b in range(count)] for a in range(count)], np.int64
        ).reshape(count, count)

    def slowest(self, cost: int) -> float:
        """The speed of the slowest link in the ring, in GB/s; 0 when it has no links."""
        counts = self._counts(cost)
        return next((self._speeds[at] for at, links in enumerate(counts) if links), 0.0)

    def effective(self, cost: int) -> float:
        """One figure in GB/s that orders rings as their costs do: the slowest link, raised towards the next speed by
        the share of links that are faster."""
        return self._effective(self._counts(cost), 0)

    def _effective(self, counts: tuple[int, ...], first: int) -> float:
        total = sum(counts[first:])
        if not total:
            return 0.0
        at = next(at for at in range(first, len(counts)) if counts[at])
        faster = total - counts[at]
        if not faster:
            return self._speeds[at]
        low, high, top = self._speeds[at], self._speeds[at + 1], self._speeds[-1]
        # How good the faster ones are counts for half a link, so it never outweighs their number.
        rest = (self._effective(counts, at + 1) - high) / (top - high) if top > high else 1.0
        return low + (high - low) * (faster - 1 + (1 + rest) / 2) / total

    def _counts(self, cost: int) -> tuple[int, ...]:
        """Links in the ring by speed, slowest first."""
        counts = list[int]()
        for _ in self._speeds:
            cost, links = divmod(cost, self._base)
            counts.append(links)
        return tuple(reversed(counts))


class Rings(RingScale):
    """Costs and pair scores of all sets of up to 16 GPUs."""

    def __init__(self, graph: LinkGraph) -> None:
        super().__init__(graph)
        count = len(graph.indexes)
        self.costs = self._ring_costs(count)
        self.pair_scores = _sums(
            np.array([[0 if a == b else pair_score(graph, a, b) for b in range(count)] for a in range(count)], np.int64)
        )

    def _ring_costs(self, count: int) -> Ints:
        """Shortest rings by dynamic programming over sets: a path starts at its set's lowest GPU."""
        sizes = np.bitwise_count(np.arange(1 << count)).astype(np.int64)
        if len(self._speeds) <= 1:
            return np.where(sizes > 1, sizes, 0)
        # By end of the path, then by set.
        paths: Ints = np.full((count, 1 << count), NO_PATH, np.int64)
        paths[np.arange(count), 1 << np.arange(count)] = 0
        costs: Ints = np.zeros(1 << count, np.int64)
        for size in range(1, count + 1):
            sets = sets_of(count, size)
            lowest = np.bitwise_count((sets & -sets) - 1).astype(np.int64)
            so_far = paths[:, sets]
            if size > 1:
                costs[sets] = (so_far + self.weights[:, lowest]).min(axis=0)
            for end in range(1, count):
                extends = (lowest < end) & (sets >> end & 1 == 0)
                onward = (so_far[:, extends] + self.weights[:, end, None]).min(axis=0)
                paths[end, sets[extends] | 1 << end] = onward
        return costs


def _sums(pairs: Ints) -> Ints:
    """The sum over all pairs, for every set: each GPU doubles the table."""
    sums: Ints = np.zeros(1, np.int64)
    for at in range(len(pairs)):
        to_earlier: Ints = np.zeros(1, np.int64)
        for earlier in range(at):
            to_earlier = np.concatenate((to_earlier, to_earlier + pairs[at, earlier]))
        sums = np.concatenate((sums, sums + to_earlier))
    return sums
