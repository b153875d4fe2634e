"""What to buy: machines that are not there are put into the picture, the real cycle runs, and they are taken out again.

Jobs that the cycle places on them are what they are bought for: filters, gangs, shares and
all else that keeps a job waiting count as they do in earnest.
"""

from collections.abc import Callable, Generator, Sequence, Set
from contextlib import contextmanager
from typing import NamedTuple

from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.steps import Steps, in_steps
from ares.model.node import Gpu, NodeInfo, NodeRecord
from ares.model.scaling import NodeShape, ScalingPool

# Of one pool at a time: the next look buys more.
STEP_MAX = 64
WaitedFor = Callable[[str], float]
# No node has this incarnation.
_NOT_YET = 0


class Growth(NamedTuple):
    """A pool, and how many machines more it may have now."""

    pool: ScalingPool
    room: int


class Purchase(NamedTuple):
    """Machines of a pool, and the jobs that start on them."""

    pool: str
    machines: int
    jobs: tuple[str, ...]
    # An hour, of all of them.
    cost: float


def virtual(name: str, pool: str, shape: NodeShape) -> NodeRecord:
    """A machine as its agent will report it, as far as that can be known."""
    gpus = tuple(
        Gpu(index=index, uuid=f"{name}-{index}", model=shape.gpu_model or "", memory_mib=shape.gpu_memory_mib)
        for index in range(shape.gpus)
    )
    info = NodeInfo(
        name=name, cpu_milli=shape.cpu_milli, memory_mib=shape.memory_mib, gpus=gpus, pool=pool, labels=shape.labels,
        isolation_level="sandbox",
    )  # fmt: skip
    return NodeRecord(info=info, incarnation=_NOT_YET, registered_at=0.0)


@in_steps
def purchases(
    cluster: Cluster, coming: Sequence[NodeRecord], pools: Sequence[Growth], waited_s: WaitedFor, now: float
) -> Steps[tuple[Purchase, ...]]:
    """Machines worth buying now, in the order of what they start for their price. `coming` are on their way already;
    `waited_s` tells how long a job has waited. A step is one cycle."""
    found: list[Purchase] = []
    there = list(coming)
    left = {growth.pool.name: growth for growth in pools if growth.room > 0}
    started: Set[str] = _started(cluster, there, now).keys()
    while left:
        offers: list[Purchase] = []
        for growth in left.values():
            offer = yield from _offer(cluster, there, growth, started, waited_s, now)
            offers += [] if offer is None else [offer]
        if not offers:
            break
        best = max(offers, key=lambda offer: (_worth(offer), offer.pool))
        found.append(best)
        there += _fresh(left.pop(best.pool).pool, best.machines)
        started = started | set(best.jobs)
    return tuple(found)


def _fresh(pool: ScalingPool, count: int) -> list[NodeRecord]:
    return [virtual(f"{pool.name}-new-{number}", pool.name, pool.shape) for number in range(count)]


class _Gain(NamedTuple):
    """Jobs that more machines start, wherever the cycle puts them, and how many of these it uses."""

    jobs: Set[str]
    machines: int


def _offer(
    cluster: Cluster, there: Sequence[NodeRecord], growth: Growth, started: Set[str], waited_s: WaitedFor, now: float
) -> Steps[Purchase | None]:
    """The fewest machines of the pool that start as many jobs as all that it may have would."""
    pool = growth.pool

    def gained(count: int) -> _Gain:
        fresh = _fresh(pool, count)
        placed = _started(cluster, (*there, *fresh), now)
        names = {record.info.name for record in fresh}
        used = {node for nodes in placed.values() for node in nodes if node in names}
        return _Gain(placed.keys() - started, len(used))

    yield
    best = gained(min(growth.room, STEP_MAX))
    if not any(waited_s(job) >= pool.after_s for job in best.jobs):
        return None
    # A cycle spreads jobs where there is room to: fewer may do. Fewer than `least` do not.
    least = 1
    while least < best.machines:
        middle = (least + best.machines) // 2
        yield
        if len((fewer := gained(middle)).jobs) >= len(best.jobs):
            best = fewer
        else:
            least = middle + 1
    return Purchase(pool.name, best.machines, tuple(sorted(best.jobs)), best.machines * pool.node_hour)


def _worth(offer: Purchase) -> tuple[float, float]:
    """Jobs started for each unit of money, where machines cost some; then for each machine."""
    return len(offer.jobs) / offer.cost if offer.cost else float("inf"), len(offer.jobs) / offer.machines


def _started(cluster: Cluster, there: Sequence[NodeRecord], now: float) -> dict[str, frozenset[str]]:
    """The jobs that a cycle would start with these nodes besides, each with its nodes. Nothing is taken away from
    running jobs, and the picture is left as it was."""
    with _standing(cluster, there):
        plan = cycle(cluster, now, gentle=True, tells=False)
    return {placed.job: frozenset(place.node for place in placed.placements) for placed in plan.placed}


@contextmanager
def _standing(cluster: Cluster, records: Sequence[NodeRecord]) -> Generator[None]:
    """With these nodes, as if they were there and ready."""
    fresh = [record for record in records if record.info.name not in cluster.rows]
    try:
        for record in fresh:
            cluster.put_node(record)
            cluster.set_ready(record.info.name, True)
        yield
    finally:
        for record in fresh:
            cluster.set_ready(record.info.name, False)
            cluster.drop_node(record.info.name)
