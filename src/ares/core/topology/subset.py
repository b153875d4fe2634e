"""The best GPUs of one machine for a job: exact, and remembered by machine shape, free GPUs and count.

Collective operations run in rings, so a set is worth what its best ring is worth. Rings are compared link by link from
the slowest: first the speed of the slowest link, then how many links are that slow, then the next slowest. Of all sets
the one with the best ring is taken, then the one with the highest pair score, then the one that leaves the best rest,
then the one with the lowest indexes.
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache, wraps
from hashlib import blake2b
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ares.core.topology.links import LinkGraph, link_graph
from ares.model.node import Gpu, NodeInfo

Ints = NDArray[np.int64]

# Beyond it there are too many sets for a table.
TABLE_GPUS_MAX: Final = 16
_NO_PATH: Final = 1 << 62
_COST_MAX: Final = 1 << 61
# The pair score.
_SAME_NODE, _NVLINK, _PCIE, _SAME_NUMA, _CONSECUTIVE = 100, 50, -30, 20, 10


def pair_score(graph: LinkGraph, one: int, other: int) -> int:
    joined = graph.links[one][other].kind in {"nvlink", "xgmi"}
    same_numa = graph.numa[one] == graph.numa[other]
    consecutive = abs(graph.indexes[one] - graph.indexes[other]) == 1
    return _SAME_NODE + (_NVLINK if joined else _PCIE) + _SAME_NUMA * same_numa + _CONSECUTIVE * consecutive


@cache
def sets_of(gpus: int, count: int) -> Ints:
    """All sets of `count` GPUs, as masks in increasing order."""
    masks = np.arange(1 << gpus, dtype=np.int64)
    return masks[np.bitwise_count(masks) == count]


class Rings:
    """Costs of all sets of up to 16 GPUs. A lower cost is a better ring.

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
        self._weights: Ints = np.array(
            [[0 if a == b else weight[graph.gbps(a, b)] for b in range(count)] for a in range(count)], np.int64
        ).reshape(count, count)
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
        paths: Ints = np.full((count, 1 << count), _NO_PATH, np.int64)
        paths[np.arange(count), 1 << np.arange(count)] = 0
        costs: Ints = np.zeros(1 << count, np.int64)
        for size in range(1, count + 1):
            sets = sets_of(count, size)
            lowest = np.bitwise_count((sets & -sets) - 1).astype(np.int64)
            so_far = paths[:, sets]
            if size > 1:
                costs[sets] = (so_far + self._weights[:, lowest]).min(axis=0)
            for end in range(1, count):
                extends = (lowest < end) & (sets >> end & 1 == 0)
                onward = (so_far[:, extends] + self._weights[:, end, None]).min(axis=0)
                paths[end, sets[extends] | 1 << end] = onward
        return costs

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


def _sums(pairs: Ints) -> Ints:
    """The sum over all pairs, for every set: each GPU doubles the table."""
    sums: Ints = np.zeros(1, np.int64)
    for at in range(len(pairs)):
        to_earlier: Ints = np.zeros(1, np.int64)
        for earlier in range(at):
            to_earlier = np.concatenate((to_earlier, to_earlier + pairs[at, earlier]))
        sums = np.concatenate((sums, sums + to_earlier))
    return sums


# A table of sets takes a megabyte, and machines may say of themselves what they like.
_SHAPES_MAX: Final = 64
_CHOICES_MAX: Final = 1 << 14

Question = ParamSpec("Question")
Answer = TypeVar("Answer")


class GpuSet(NamedTuple):
    """A set of GPUs, and what it is worth."""

    gpus: tuple[int, ...]
    mask: int
    # The speed of the slowest link in its best ring, in GB/s; 0 for one GPU.
    bandwidth_gbps: float
    # 0..1, against the best that this machine gives for as many GPUs when it is empty.
    score: float
    # Sum over all pairs.
    pair_score: int
    # All pairs are joined equally by NVLink.
    nvswitch: bool
    # How many NVLink domains it spans.
    domains: int
    # All pairs are equally fast: another set would have done as well.
    uniform: bool


class MachineShape:
    """Machines with equal links, NUMA nodes and models have one shape. Made by `machine_shape` only."""

    __slots__ = ("_rings", "answers", "domain_masks", "graph", "id")

    def __init__(self, graph: LinkGraph, id_: str) -> None:
        self.id = id_
        self.graph = graph
        # By position in the graph, as all masks in here.
        self.domain_masks = tuple(
            sum(1 << at for at, domain in enumerate(graph.domain) if domain == number)
            for number in range(max(graph.domain, default=-1) + 1)
        )
        self._rings: Rings | None = None
        # What was asked about it, remembered as long as it is.
        self.answers: dict[tuple[object, ...], Any] = {}

    @property
    def rings(self) -> Rings | None:
        """None where there are too many GPUs for a table."""
        if self._rings is None and len(self.graph.indexes) <= TABLE_GPUS_MAX:
            self._rings = Rings(self.graph)
        return self._rings

    def inside(self, mask: int) -> int:
        """From bits by GPU index to bits by position."""
        return sum(1 << at for at, index in enumerate(self.graph.indexes) if mask >> index & 1)


def machine_shape(info: NodeInfo) -> MachineShape:
    return _shape(tuple((gpu.index, gpu.model, gpu.numa_node) for gpu in info.gpus), info.gpu_links)


def _remembered(
    compute: Callable[Concatenate[MachineShape, Question], Answer],
) -> Callable[Concatenate[MachineShape, Question], Answer]:
    """With the shape: a cache of its own would hold the tables of shapes that no machine has any more."""

    @wraps(compute)
    def answer(shape: MachineShape, *question: Question.args, **named: Question.kwargs) -> Answer:
        key = (compute, *question)
        if key not in shape.answers:
            if len(shape.answers) >= _CHOICES_MAX:
                shape.answers.clear()
            shape.answers[key] = compute(shape, *question, **named)
        return shape.answers[key]

    return answer


@_remembered
def best(shape: MachineShape, free_mask: int, count: int) -> GpuSet:
    """The best `count` of the free GPUs, of which there must be as many. Masks have one bit per GPU index."""
    free = shape.inside(free_mask)
    if not 1 <= count <= free.bit_count():
        raise ValueError(f"{count} GPUs asked of {free.bit_count()} free ones")
    return _choose(shape, free, (free,), count)


@_remembered
def best_in_domain(shape: MachineShape, free_mask: int, count: int) -> GpuSet | None:
    """The best set inside one NVLink domain; None when no domain has as many free."""
    free = shape.inside(free_mask)
    pools = tuple(free & domain for domain in shape.domain_masks if (free & domain).bit_count() >= count)
    return _choose(shape, free, pools, count) if pools and count >= 1 else None


@_remembered
def largest_in_domain(shape: MachineShape, free_mask: int) -> tuple[int, ...]:
    """How many GPUs are free in each NVLink domain that has any, most first: 8 free may be 6 + 2."""
    return _domain_sizes(shape, shape.inside(free_mask))


@lru_cache(maxsize=_SHAPES_MAX)
def _shape(gpus: tuple[tuple[int, str, int], ...], links: tuple[tuple[str, ...], ...]) -> MachineShape:
    plain = [Gpu(index=index, uuid="", model=model, memory_mib=0, numa_node=numa) for index, model, numa in gpus]
    content = msgspec.msgpack.encode((gpus, links))
    return MachineShape(link_graph(plain, links), blake2b(content, digest_size=8).hexdigest())


def _domain_sizes(shape: MachineShape, mask: int) -> tuple[int, ...]:
    sizes = sorted(((mask & domain).bit_count() for domain in shape.domain_masks), reverse=True)
    return tuple(size for size in sizes if size)


def _positions(mask: int) -> tuple[int, ...]:
    return tuple(at for at in range(mask.bit_length()) if mask >> at & 1)


def _choose(shape: MachineShape, free: int, pools: tuple[int, ...], count: int) -> GpuSet:
    """The best set inside any one of the pools."""
    rings = shape.rings
    if rings is None:
        return _in_order(shape, pools, count)
    sets = sets_of(len(shape.graph.indexes), count)
    candidates = sets[np.logical_or.reduce([sets & ~pool == 0 for pool in pools])]
    costs = rings.costs[candidates]
    candidates = candidates[costs == costs.min()]
    scores = rings.pair_scores[candidates]
    equal = [int(mask) for mask in candidates[scores == scores.max()]]
    chosen = equal[0] if len(equal) == 1 else _leaving_most(shape, rings, free, equal)
    cost = int(rings.costs[chosen])
    ideal = rings.effective(int(rings.costs[sets].min()))
    return _answer(
        shape, chosen, rings.slowest(cost), rings.effective(cost) / ideal if ideal else 1.0, int(scores.max())
    )


def _leaving_most(shape: MachineShape, rings: Rings, free: int, equal: Iterable[int]) -> int:
    """The one of equally good sets whose rest is best, by the same yardsticks."""

    def by_rest(mask: int) -> tuple[tuple[int, ...], int, int, tuple[int, ...]]:
        rest = free & ~mask
        sizes = tuple(-size for size in _domain_sizes(shape, rest))
        return sizes, int(rings.costs[rest]), -int(rings.pair_scores[rest]), _positions(mask)

    return min(equal, key=by_rest)


def _in_order(shape: MachineShape, pools: tuple[int, ...], count: int) -> GpuSet:
    """For machines beyond the table: whole domains, the smallest that suffices first, by NUMA node and index. Its
    bandwidth is that of the ring in this order, so a better one may exist."""
    graph = shape.graph
    pool = min(pools, key=lambda pool: (pool.bit_count(), pool))

    def place(at: int) -> tuple[bool, int, int, int, int]:
        size = (pool & shape.domain_masks[graph.domain[at]]).bit_count()
        suffices = size >= count
        return not suffices, size if suffices else -size, graph.domain[at], graph.numa[at], at

    taken = sorted(sorted(_positions(pool), key=place)[:count])
    slowest = min(graph.gbps(taken[at - 1], taken[at]) for at in range(count)) if count > 1 else 0.0
    total = sum(pair_score(graph, a, b) for at, a in enumerate(taken) for b in taken[:at])
    score = slowest / graph.fastest if count > 1 and graph.fastest else 1.0
    return _answer(shape, sum(1 << at for at in taken), slowest, score, total)


def _answer(shape: MachineShape, chosen: int, slowest: float, score: float, pairs: int) -> GpuSet:
    graph = shape.graph
    gpus = tuple(graph.indexes[at] for at in _positions(chosen))
    return GpuSet(
        gpus=gpus,
        mask=sum(1 << index for index in gpus),
        bandwidth_gbps=slowest,
        score=score,
        pair_score=pairs,
        nvswitch=graph.nvswitch,
        domains=len(_domain_sizes(shape, chosen)),
        uniform=graph.uniform,
    )
