"""The scheduler's picture of the cluster, kept up to date in any order."""

import random

import pytest

from ares.core.queue.line import Line
from ares.core.schedule.cluster import Cluster
from ares.model.state import Placement
from tests.unit.core.world import cluster, node, plan, spec, state


def _held(name: str, cpu: int = 1, gpus: tuple[int, ...] = ()) -> tuple[Placement, ...]:
    return (Placement(node=name, incarnation=1, cpu_milli=cpu * 1000, memory_mib=10, gpus=gpus),)


def test_holds_may_come_before_their_node_and_outlive_its_restart() -> None:
    made = Cluster()
    made.hold("j1", _held("a", cpu=3, gpus=(1,)))
    made.set_ready("a", True)
    made.put_node(node("a", gpus=2))
    assert made.free("a") == (1, 5000, 1014, (0,))
    made.put_node(node("a", gpus=4, cpu=16, incarnation=2))
    assert made.free("a") == (1, 13000, 1014, (0, 2, 3))
    made.drop_node("a")
    assert made.free("a") is None
    made.put_node(node("a", gpus=2))
    made.release("j1")
    assert made.free("a") == (0, 8000, 1024, (0, 1))


def test_holding_and_releasing_twice_counts_once() -> None:
    made = cluster(node("a", gpus=2))
    for _ in range(2):
        made.hold("j1", _held("a", gpus=(0,)))
    made.hold("j1", _held("a", cpu=2, gpus=(1,)))
    assert made.free("a") == (1, 6000, 1014, (0,))
    for _ in range(2):
        made.release("j1")
    assert made.free("a") == (0, 8000, 1024, (0, 1))


def test_a_gpu_held_twice_is_free_only_when_both_are_gone() -> None:
    made = cluster(node("a", gpus=1))
    made.hold("j1", _held("a", gpus=(0,)))
    made.hold("j2", _held("a", gpus=(0,)))
    made.release("j1")
    assert made.free("a") == (1, 7000, 1014, ())
    made.release("j2")
    assert made.free("a") == (0, 8000, 1024, (0,))


def test_readiness_may_come_before_the_node_and_goes_with_it() -> None:
    made = Cluster()
    made.set_ready("a", True)
    made.put_node(node("a"))
    made.enqueue(state("j"), spec())
    assert len(plan(made).placed) == 1
    made.drop_node("a")
    made.put_node(node("a"))
    assert plan(made).left[0].reason.code == "NO_READY_NODES"


def test_many_nodes_come_and_go_and_slots_are_used_again() -> None:
    made = cluster(*(node(f"n{n}") for n in range(40)))
    for n in range(0, 40, 2):
        made.drop_node(f"n{n}")
    for n in range(100, 115):
        made.put_node(node(f"n{n}", gpus=1))
        made.set_ready(f"n{n}", True)
    made.enqueue(state("j"), spec(gpus=1, model="A100"))
    snapshot = made.snapshot()
    assert int(snapshot.columns.exists.sum()) == 35
    assert len(snapshot.nodes) == len(snapshot.columns.exists) == 64
    assert plan(made).placed[0].placements[0].node == "n100"


def test_columns_nobody_asks_for_any_more_are_dropped() -> None:
    made = cluster(node("a", gpus=2))
    made.enqueue(state("stays"), spec(cpu=3, gpus=1, model="A100"))
    for n in range(600):
        made.enqueue(state(f"j{n}"), spec(gpus=1, model=f"m{n}", selector={"k": str(n)}))
        made.dequeue(f"j{n}")
    columns = made.snapshot().columns
    assert len(columns.gpus) + len(columns.selected) < 20
    # What is still needed goes on working.
    made.hold("h", _held("a", gpus=(0,)))
    made.enqueue(state("late", 1), spec(gpus=1))
    assert [(one.job, one.placements[0].gpus) for one in plan(made).placed] == [("stays", (1,))]
    assert made.position("late") == 1


def test_queueing_twice_counts_once_and_moves_on_change() -> None:
    made = cluster(node("a"))
    made.enqueue(state("j1", 1), spec())
    made.enqueue(state("j1", 1), spec())
    made.enqueue(state("j2", 2), spec())
    assert (made.pending, made.position("j1"), made.position("j2")) == (2, 0, 1)
    made.enqueue(state("j1", 3), spec(cpu=2))
    assert (made.pending, made.position("j1"), made.position("j2")) == (2, 1, 0)
    made.dequeue("j1")
    made.dequeue("j1")
    assert (made.pending, made.position("j1"), made.class_of("j1")) == (1, None, None)


def test_positions_count_better_priorities_and_earlier_jobs_of_every_class() -> None:
    made = Cluster()
    made.enqueue(state("n1", 1), spec())
    made.enqueue(state("n2", 2), spec(cpu=2))
    made.enqueue(state("n3", 3), spec())
    made.enqueue(state("c", 9), spec(priority="CRITICAL"))
    made.enqueue(state("l", 0), spec(priority="LOW"))
    found = {job: made.position(job) for job in ("c", "n1", "n2", "n3", "l")}
    assert found == {"c": 0, "n1": 1, "n2": 2, "n3": 3, "l": 4}


@pytest.mark.parametrize("seed", range(5))
def test_a_line_is_a_sorted_list(seed: int) -> None:
    """Against a plain list, through appends, latecomers in small and large numbers, and removals anywhere."""
    chance, line, model = random.Random(seed), Line(), list[tuple[float, int, str, int]]()
    for n in range(6000):
        draw = chance.random()
        if model and draw < 0.3:
            rank = model.pop(0)
            line.remove(rank)
        elif model and draw < 0.35:
            rank = model.pop(chance.randrange(len(model)))
            line.remove(rank)
        else:
            rank = (float(n) if draw < 0.9 else chance.uniform(0, n), 0, f"j{n}", 1)
            line.add(rank)
            model.append(rank)
            model.sort()
        if n % 50 == 0:
            probe = (chance.uniform(0, n), 0, "", 0)
            assert line.heads(7) == tuple(model[:7])
            assert line.before(probe) == sum(rank < probe for rank in model)
    assert len(line) == len(model)
    assert line.heads(10_000) == tuple(model)


@pytest.mark.parametrize("late", [1, 32, 33, 500])
def test_latecomers_find_their_place_after_others_have_left(late: int) -> None:
    line, ranks = Line(), [(float(n), 0, f"j{n}", 1) for n in range(1000)]
    late_ones, in_time = ranks[200 : 200 + late], ranks[:200] + ranks[200 + late :]
    for rank in in_time:
        line.add(rank)
    for rank in in_time[:100]:
        line.remove(rank)
    for rank in reversed(late_ones):
        line.add(rank)
    assert line.heads(1000) == tuple(ranks[100:])
    assert len(line) == 900
