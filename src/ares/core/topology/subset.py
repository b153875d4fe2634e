"""The best GPUs of one machine for a job: exact, and remembered by machine shape, free GPUs and count.

Collective operations run in rings, so a set is worth what its best ring is worth. Rings are compared link by link from
the slowest: first the speed of the slowest link, then how many links are that slow, then the next slowest. Of all sets
the one with the best ring is taken, then the one with the highest pair score, then the one that leaves the best rest,
then the one with the lowest indexes.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from hashlib import blake2b
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

import msgspec
import numpy as np

from ares.core.topology.links import LinkGraph, link_graph, nearness
from ares.core.topology.rings import Rings, pair_score, sets_of
from ares.core.topology.twins import TwinRings
from ares.model.node import Gpu, NodeInfo

# Beyond it there are too many sets for a table of all of them.
TABLE_GPUS_MAX: Final = 16
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

    __slots__ = ("_rings", "_twins", "answers", "domain_masks", "graph", "id", "nearness")

    def __init__(self, graph: LinkGraph, id_: str, nearness: tuple[int, ...] = ()) -> None:
        self.id = id_
        self.graph = graph
        # How near each GPU is to a network card; nothing where none is known.
        self.nearness = nearness or (0,) * len(graph.indexes)
        # By position in the graph, as all masks in here.
        self.domain_masks = tuple(
            sum(1 << at for at, domain in enumerate(graph.domain) if domain == number)
            for number in range(max(graph.domain, default=-1) + 1)
        )
        self._rings: Rings | None = None
        self._twins: TwinRings | None = None
        # What was asked about it, remembered as long as it is.
        self.answers: dict[tuple[object, ...], Any] = {}

    @property
    def rings(self) -> Rings | None:
        """None where there are too many GPUs for a table."""
        if self._rings is None and len(self.graph.indexes) <= TABLE_GPUS_MAX:
            self._rings = Rings(self.graph)
        return self._rings

    @property
    def twins(self) -> TwinRings | None:
        """None where too many of the GPUs are unlike all others."""
        if self._twins is None:
            self._twins = TwinRings(self.graph)
        return self._twins if self._twins.counted else None

    def near(self, mask: int) -> int:
        """How near to network cards the GPUs of a set are, together."""
        return sum(near for at, near in enumerate(self.nearness) if mask >> at & 1)

    def inside(self, mask: int) -> int:
        """From bits by GPU index to bits by position."""
        return sum(1 << at for at, index in enumerate(self.graph.indexes) if mask >> index & 1)


def machine_shape(info: NodeInfo) -> MachineShape:
    gpus = tuple((gpu.index, gpu.model, gpu.numa_node) for gpu in info.gpus)
    near = tuple(max((nearness(nic.links[at]) for nic in info.nics if at < len(nic.links)), default=0)
                 for at in range(len(gpus)))  # fmt: skip
    return _shape(gpus, info.gpu_links, near if any(near) else ())


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
def _shape(
    gpus: tuple[tuple[int, str, int], ...], links: tuple[tuple[str, ...], ...], near: tuple[int, ...]
) -> MachineShape:
    plain = [Gpu(index=index, uuid="", model=model, memory_mib=0, numa_node=numa) for index, model, numa in gpus]
    content = msgspec.msgpack.encode((gpus, links, near) if near else (gpus, links))
    graph = link_graph(plain, links)
    by_index = {index: nearness for (index, _, _), nearness in zip(gpus, near, strict=False)}
    at_position = tuple(by_index.get(index, 0) for index in graph.indexes) if near else ()
    return MachineShape(graph, blake2b(content, digest_size=8).hexdigest(), at_position)


def _domain_sizes(shape: MachineShape, mask: int) -> tuple[int, ...]:
    sizes = sorted(((mask & domain).bit_count() for domain in shape.domain_masks), reverse=True)
    return tuple(size for size in sizes if size)


def _positions(mask: int) -> tuple[int, ...]:
    return tuple(at for at in range(mask.bit_length()) if mask >> at & 1)


def _choose(shape: MachineShape, free: int, pools: tuple[int, ...], count: int) -> GpuSet:
    """The best set inside any one of the pools."""
    rings = shape.rings
    if rings is None:
        return _by_twins(shape, free, pools, count)
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

    def by_rest(mask: int) -> tuple[tuple[int, ...], int, int, int, tuple[int, ...]]:
        rest = free & ~mask
        sizes = tuple(-size for size in _domain_sizes(shape, rest))
        return sizes, int(rings.costs[rest]), -int(rings.pair_scores[rest]), -shape.near(mask), _positions(mask)

    return min(equal, key=by_rest)


def _by_twins(shape: MachineShape, free: int, pools: tuple[int, ...], count: int) -> GpuSet:
    """For machines beyond the table of all sets: sets that differ in GPUs with the same links are one."""
    twins = shape.twins
    if twins is None:
        return _in_order(shape, pools, count)

    def worth(mask: int) -> tuple[int, int, tuple[int, ...], int, int, int, tuple[int, ...]]:
        rest = free & ~mask
        sizes = tuple(-size for size in _domain_sizes(shape, rest))
        cost, pairs, rest_cost, rest_pairs = *twins.worth(mask), *twins.worth(rest)
        return cost, -pairs, sizes, rest_cost, -rest_pairs, -shape.near(mask), _positions(mask)

    chosen = min((mask for pool in pools for mask in twins.candidates(free, pool, count)), key=worth)
    cost, pairs = twins.worth(chosen)
    ideal = twins.effective(twins.least(count))
    return _answer(shape, chosen, twins.slowest(cost), twins.effective(cost) / ideal if ideal else 1.0, pairs)


def _in_order(shape: MachineShape, pools: tuple[int, ...], count: int) -> GpuSet:
    """For machines of very many GPUs of which none is like another: whole domains, the smallest that suffices first, by
    NUMA node and index. Its bandwidth is that of the ring in this order, so a better one may exist."""
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
