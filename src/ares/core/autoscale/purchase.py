"""What to buy: machines that are not there are put into the picture, the real cycle runs, and they are taken out again.

Jobs that the cycle places on them are what they are bought for: filters, gangs, shares and
all else that keeps a job waiting count as they do in earnest.
"""

from collections.abc import Generator, Sequence, Set
from contextlib import contextmanager
from typing import NamedTuple

from ares.core.autoscale.worth import Stakes, Worth, preference, worth
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.steps import Steps, in_steps
from ares.model.node import Gpu, NodeInfo, NodeRecord
from ares.model.scaling import ScalingPool

# Of one pool at a time: the next look buys more.
STEP_MAX = 64
_PARTS_MAX = 4
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
    worth: Worth


def virtual(name: str, pool: ScalingPool) -> NodeRecord:
    """A machine as its agent will report it, as far as that can be known."""
    shape = pool.shape
    gpus = tuple(
        Gpu(index=index, uuid=f"{name}-{index}", model=shape.gpu_model or "", memory_mib=shape.gpu_memory_mib)
        for index in range(shape.gpus)
    )
    info = NodeInfo(
        name=name, cpu_milli=shape.cpu_milli, memory_mib=shape.memory_mib, gpus=gpus, pool=pool.name,
        labels=shape.labels, isolation_level="sandbox", sandbox=pool.features,
    )  # fmt: skip
    return NodeRecord(info=info, incarnation=_NOT_YET, registered_at=0.0)


@in_steps
def purchases(
    cluster: Cluster, coming: Sequence[NodeRecord], pools: Sequence[Growth], stakes: Stakes, now: float
) -> Steps[tuple[Purchase, ...]]:
    """Machines worth buying now, the best first. `coming` are on their way already; `stakes` tells what it costs that a
    job waits. A step is one cycle."""
    found: list[Purchase] = []
    there = list(coming)
    left = {growth.pool.name: growth for growth in pools if growth.room > 0}
    started: Set[str] = _started(cluster, there, now).keys()
    while left:
        offers: list[Purchase] = []
        for growth in left.values():
            others = [other.pool for other in left.values()]
            offer = yield from _offer(cluster, there, growth, others, started, stakes, now)
            offers += [] if offer is None else [offer]
        if not offers:
            break
        best = max(offers, key=lambda offer: (preference(offer.worth, offer.machines, len(offer.jobs)), offer.pool))
        found.append(best)
        there += _fresh(left.pop(best.pool).pool, best.machines)
        started = started | set(best.jobs)
    return tuple(found)


def _fresh(pool: ScalingPool, count: int) -> list[NodeRecord]:
    return [virtual(f"{pool.name}-new-{number}", pool) for number in range(count)]


class _Gain(NamedTuple):
    """Jobs that more machines start, wherever the cycle puts them, and those machines that it uses, with their jobs."""

    jobs: Set[str]
    machines: dict[str, list[str]]


def _offer(
    cluster: Cluster, there: Sequence[NodeRecord], growth: Growth, others: Sequence[ScalingPool], started: Set[str],
    stakes: Stakes, now: float,
) -> Steps[Purchase | None]:  # fmt: skip
    """The fewest machines of the pool that start as many jobs as all that it may have would, if that pays; else as many
    as would pay each by itself, for the jobs that have waited longest."""
    pool = growth.pool

    def gained(count: int) -> _Gain:
        fresh = _fresh(pool, count)
        placed = _started(cluster, (*there, *fresh), now)
        used: dict[str, list[str]] = {}
        names = {record.info.name for record in fresh}
        for job, nodes in placed.items():
            for name in nodes & names:
                used.setdefault(name, []).append(job)
        return _Gain(placed.keys() - started, used)

    def offered(gain: _Gain) -> tuple[Purchase, bool]:
        found, count = worth(pool, gain.machines, stakes, now, others), len(gain.machines)
        ripe = bool(found.urgent) or any(stakes(job).waited_s >= pool.after_s for job in gain.jobs)
        made = Purchase(pool.name, count, tuple(sorted(gain.jobs)), count * pool.node_hour, found)
        return made, ripe and found.pays and count > 0 and bool(gain.jobs)

    yield
    best = gained(min(growth.room, STEP_MAX))
    # A cycle spreads jobs where there is room to: fewer may do. Fewer than `least` do not.
    least = 1
    while least < len(best.machines):
        middle = (least + len(best.machines)) // 2
        yield
        if len((fewer := gained(middle)).jobs) >= len(best.jobs):
            best = fewer
        else:
            least = middle + 1
    found, is_wanted = offered(best)
    for _ in range(_PARTS_MAX):
        if is_wanted or not 0 < found.worth.paying < found.machines:
            break
        yield
        # Which jobs they start is for the cycle to say: these may be worth less.
        found, is_wanted = offered(gained(found.worth.paying))
    return found if is_wanted else None


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
