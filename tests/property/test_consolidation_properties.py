"""Plans that move running jobs: they fit at every step, give the room they promise, and leave the cluster as it was."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ares.core.ask import Ask
from ares.core.capacity.holding import Holding
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.consolidation import Consolidation, consolidation, still_fit
from ares.model.node import Gpu, NodeInfo, NodeRecord
from ares.model.state import Placement
from tests.searching import examples

NOW = 10_000.0
CPU, GPUS = 8000, 4


def node(name: str) -> NodeRecord:
    cards = tuple(Gpu(index=n, uuid=f"{name}-{n}", model="A100", memory_mib=1024) for n in range(GPUS))
    info = NodeInfo(name=name, cpu_milli=CPU, memory_mib=8192, gpus=cards)
    return NodeRecord(info=info, incarnation=1, registered_at=0.0)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Cluster, dict[str, Ask]]:
    """Nodes of four GPUs with jobs of one or two ranks on what was free when they came."""
    cluster, asks = Cluster(), dict[str, Ask]()
    names = [f"n{n}" for n in range(draw(st.integers(2, 6)))]
    free = {name: list(range(GPUS)) for name in names}
    for name in names:
        cluster.put_node(node(name))
        cluster.set_ready(name, True)
    # The first go to every node in turn: where one is empty there is nothing to plan.
    for number in range(draw(st.integers(len(names), 3 * len(names)))):
        gpus, ranks = draw(st.sampled_from([1, 1, 1, 2])), draw(st.sampled_from([1, 1, 1, 2]))
        places: list[Placement] = []
        for rank in range(ranks):
            name = names[number] if rank == 0 and number < len(names) else draw(st.sampled_from(names))
            if len(free[name]) < gpus:
                break
            taken = tuple(free[name].pop(draw(st.integers(0, len(free[name]) - 1))) for _ in range(gpus))
            places.append(
                Placement(node=name, incarnation=1, cpu_milli=500, memory_mib=64, gpus=tuple(sorted(taken)), rank=rank)
            )
        if len(places) < ranks:
            for place in places:
                free[place.node] += place.gpus
            continue
        job = f"j{number}"
        cluster.hold(
            Holding(
                job=job,
                tenant="a",
                account="a/default/u",
                level=3,
                placements=tuple(places),
                since=NOW - draw(st.integers(61, 5000)),
                preemptible=draw(st.integers(0, 9)) > 0,
            )
        )
        asks[job] = Ask(cpu_milli=500, memory_mib=64, gpus=gpus, ranks=ranks, min_ranks=ranks)
    return cluster, asks


def columns(cluster: Cluster) -> list[list[int]]:
    table = cluster.table
    return [np.asarray(column).tolist() for column in (table.cpu_free, table.memory_free, table.gpu_left)]


def in_use(cluster: Cluster) -> dict[str, tuple[Placement, ...]]:
    return {job: holding.placements for job, holding in cluster.holdings.items()}


def check_no_overlap(places: dict[str, tuple[Placement, ...]]) -> None:
    cards = Counter((place.node, gpu) for held in places.values() for place in held for gpu in place.gpus)
    cpus: Counter[str] = Counter()
    for held in places.values():
        for place in held:
            cpus[place.node] += place.cpu_milli
    assert max(cards.values(), default=0) <= 1
    assert max(cpus.values(), default=0) <= CPU


def roomy(cluster: Cluster, places: dict[str, tuple[Placement, ...]], gpus: int) -> int:
    used = Counter(place.node for held in places.values() for place in held for _ in place.gpus)
    return sum(GPUS - used[name] >= gpus for name in cluster.rows)


@settings(deadline=None, max_examples=examples(125))
@given(clusters(), st.integers(2, 4), st.integers(1, 2))
def test_a_plan_fits_at_every_step_and_gives_the_room_it_promises(
    made: tuple[Cluster, dict[str, Ask]], gpus: int, nodes: int
) -> None:
    cluster, asks = made
    before, places = columns(cluster), in_use(cluster)
    plan: Consolidation = consolidation(cluster, asks.get, gpus, nodes, NOW)
    assert columns(cluster) == before
    assert roomy(cluster, places, gpus) == plan.before
    for move in plan.moves:
        holding = cluster.holdings[move.job]
        assert holding.preemptible
        assert move.origin == places[move.job]
        assert [place.rank for place in move.hold] == list(range(len(move.origin)))
        # What is kept for it is free before anybody has left.
        check_no_overlap({**{job: held for job, held in in_use(cluster).items() if job != move.job}, "": move.hold})
        places[move.job] = move.hold
        check_no_overlap(places)
    assert still_fit(cluster, plan.moves) == ""
    if plan.moves:
        assert roomy(cluster, places, gpus) >= nodes
        assert plan.after >= nodes > plan.before
    else:
        assert plan.reason


@settings(deadline=None, max_examples=examples(30))
@given(clusters())
def test_the_same_world_gives_the_same_plan(made: tuple[Cluster, dict[str, Ask]]) -> None:
    cluster, asks = made
    assert consolidation(cluster, asks.get, 4, 1, NOW) == consolidation(cluster, asks.get, 4, 1, NOW)
