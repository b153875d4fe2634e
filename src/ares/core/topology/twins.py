"""Sets of GPUs on machines with very many: GPUs with the same links and NUMA node are twins, and what a set is worth
depends on how many of each kind of twins it has. Real machines are built of few kinds, so this is exact."""

from collections.abc import Iterator
from math import prod
from typing import Final

import numpy as np

from ares.core.topology.links import LinkGraph
from ares.core.topology.rings import CONSECUTIVE, NO_PATH, Ints, RingScale, pair_score

# Numbers in a table: beyond, it takes long to fill. Many may be kept, and machines say of themselves what they like.
_TABLE_MAX: Final = 1 << 20
# Equally good counts that are tried out.
_TRIED_MAX: Final = 64


class TwinRings(RingScale):
    """Ring costs by how many GPUs of each kind a set has. Masks are by position, as in `MachineShape`."""

    def __init__(self, graph: LinkGraph) -> None:
        super().__init__(graph)
        self._graph = graph
        self._kind = _kinds(graph)
        self._sizes = [self._kind.count(kind) for kind in range(max(self._kind, default=-1) + 1)]
        # Whether the counts fit into a table.
        self.counted = len(self._sizes) * prod(size + 1 for size in self._sizes) <= _TABLE_MAX
        if self.counted:
            self._fill()

    def _fill(self) -> None:
        sizes, kinds = self._sizes, range(len(self._sizes))
        self._strides = [prod(size + 1 for size in sizes[:kind]) for kind in kinds]
        cells = np.arange(prod(size + 1 for size in sizes), dtype=np.int64)
        # By kind, then by cell: how many of the kind a set has.
        self._amounts = np.array([cells // self._strides[kind] % (sizes[kind] + 1) for kind in kinds], np.int16)
        self._totals: Ints = self._amounts.sum(axis=0, dtype=np.int64)
        first = [self._kind.index(kind) for kind in kinds]
        other = [next((at for at, k in enumerate(self._kind) if k == kind and at != first[kind]), first[kind])
                 for kind in kinds]  # fmt: skip
        self._between: Ints = np.array(
            [[self.weights[first[a], other[b] if a == b else first[b]] for b in kinds] for a in kinds], np.int64
        )
        self._pairs = [[_plain_pair(self._graph, first[a], other[b] if a == b else first[b]) for b in kinds]
                       for a in kinds]  # fmt: skip
        self._costs = self._ring_costs()

    def _ring_costs(self) -> Ints:
        """Shortest rings by dynamic programming over counts: a path starts at the set's first kind."""
        kinds, cells = range(len(self._sizes)), len(self._totals)
        paths: Ints = np.full((len(self._sizes), cells), NO_PATH, np.int64)
        costs: Ints = np.zeros(cells, np.int64)
        lowest: Ints = np.argmax(self._amounts > 0, axis=0).astype(np.int64)
        for kind in kinds:
            paths[kind, self._strides[kind]] = 0
        for total in range(1, int(sum(self._sizes)) + 1):
            at = np.flatnonzero(self._totals == total)
            so_far = paths[:, at]
            if total > 1:
                costs[at] = (so_far + self._between[:, lowest[at]]).min(axis=0)
            for kind in kinds:
                room = (self._amounts[kind, at] < self._sizes[kind]) & (lowest[at] <= kind)
                onward = (so_far[:, room] + self._between[:, kind, None]).min(axis=0)
                paths[kind, at[room] + self._strides[kind]] = np.minimum(onward, NO_PATH)
        return costs

    def worth(self, mask: int) -> tuple[int, int]:
        """The cost of the set's best ring, and its pair score."""
        places = [at for at in range(mask.bit_length()) if mask >> at & 1]
        pairs = sum(pair_score(self._graph, a, b) for at, a in enumerate(places) for b in places[:at])
        return int(self._costs[self._cell(mask)]), pairs

    def least(self, count: int) -> int:
        """The cost of the best ring of that many GPUs when all are free."""
        return int(self._costs[self._totals == count].min())

    def candidates(self, free: int, pool: int, count: int) -> Iterator[int]:
        """Sets of the pool with the best ring there is: for each count of kinds that has it, those with most GPUs whose
        numbers follow each other, in the set and in what is left."""
        has = [sum(pool >> at & 1 for at, k in enumerate(self._kind) if k == kind) for kind in range(len(self._sizes))]
        if sum(has) < count:
            return
        fits = (self._totals == count) & np.logical_and.reduce(
            [self._amounts[kind] <= most for kind, most in enumerate(has)]
        )
        at = np.flatnonzero(fits)
        at = at[self._costs[at] == self._costs[at].min()]
        scores = self._plain_pairs(at)
        # A set whose pairs are worse by more than its numbers can make up for is not the one.
        at = at[scores + CONSECUTIVE * (count - 1) >= scores.max()]
        order = np.argsort(-self._plain_pairs(at), kind="stable")
        for cell in at[order][:_TRIED_MAX]:
            yield self._arranged(free, pool, tuple(int(amount) for amount in self._amounts[:, cell]))

    def _plain_pairs(self, cells: Ints) -> Ints:
        """Pair scores without what consecutive numbers add."""
        counts: Ints = self._amounts[:, cells].astype(np.int64)
        score: Ints = np.zeros(len(cells), np.int64)
        for a in range(len(self._sizes)):
            score += counts[a] * (counts[a] - 1) // 2 * self._pairs[a][a]
            for b in range(a):
                score += counts[a] * counts[b] * self._pairs[a][b]
        return score

    def _cell(self, mask: int) -> int:
        return sum(self._strides[kind] for at, kind in enumerate(self._kind) if mask >> at & 1)

    def _arranged(self, free: int, pool: int, wanted: tuple[int, ...]) -> int:
        """Which GPUs of each kind to take: along the machine, the best so far for what is still to take."""
        count = len(self._kind)
        strides = [prod(amount + 1 for amount in wanted[:kind]) for kind in range(len(wanted))]
        ahead = [sum(pool >> at & 1 for at, k in enumerate(self._kind) if k == kind) for kind in range(len(wanted))]
        # By what was taken of each kind, as one number, and whether the last GPU was taken (1) or stayed free (2): more
        # neighbours in the set, then in the rest, then the lowest numbers, as bits from the highest.
        best: _Arrangements = {(0, 0): (0, 0, 0)}
        previous = -2
        for at, kind in enumerate(self._kind):
            index = self._graph.indexes[at]
            follows, previous = index == previous + 1, index
            in_pool, left = pool >> at & 1, 2 if free >> at & 1 else 0
            stride, most, bit = strides[kind], wanted[kind], 1 << (count - 1 - at)
            ahead[kind] -= in_pool
            onward: _Arrangements = {}
            for (taken, last), (inside, rest, places) in best.items():
                amount = taken // stride % (most + 1)
                if in_pool and amount < most:
                    more = (inside + (follows and last == 1), rest, places | bit)
                    _keep(onward, (taken + stride, 1), more)
                # Not where too few of its kind are left to come.
                if amount + ahead[kind] >= most:
                    _keep(onward, (taken, left), (inside, rest + (follows and left == last == 2), places))
            best = onward
        places = max(best.values())[2]
        return sum(1 << at for at in range(count) if places >> (count - 1 - at) & 1)


_Arrangement = tuple[int, int, int]
_Arrangements = dict[tuple[int, int], _Arrangement]


def _keep(best: _Arrangements, state: tuple[int, int], found: _Arrangement) -> None:
    if state not in best or found > best[state]:
        best[state] = found


def _plain_pair(graph: LinkGraph, one: int, other: int) -> int:
    consecutive = abs(graph.indexes[one] - graph.indexes[other]) == 1
    return pair_score(graph, one, other) - CONSECUTIVE * consecutive


def _kinds(graph: LinkGraph) -> tuple[int, ...]:
    """The kind of each GPU, numbered in order of their first ones."""
    count = len(graph.indexes)
    firsts = list[int]()
    kinds = list[int]()
    for at in range(count):
        twin = next((kind for kind, first in enumerate(firsts) if _twins(graph, first, at)), None)
        if twin is None:
            twin = len(firsts)
            firsts.append(at)
        kinds.append(twin)
    return tuple(kinds)


def _twins(graph: LinkGraph, one: int, other: int) -> bool:
    rows = graph.links[one], graph.links[other]
    return graph.numa[one] == graph.numa[other] and all(
        rows[0][at] == rows[1][at] for at in range(len(graph.indexes)) if at not in {one, other}
    )
