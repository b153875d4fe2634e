"""The scheduler's picture of the cluster, kept up to date in any order."""

import random

import pytest
from msgspec.structs import replace

from ares.core.queue.line import Line
from ares.core.queue.order import Place
from ares.core.queue.position import position
from ares.core.schedule.cluster import Cluster
from ares.core.topology.subset import machine_shape
from ares.model.job import JobTerm
from ares.model.node import NodeRecord
from ares.model.profile import Pool, Profile
from tests.unit.core.world import NOW, cluster, left_out, node, nodes_of, placed, plan, reserve, run, spec, state


def _free(made: Cluster, name: str = "a") -> tuple[int, int, int, tuple[int, ...]] | None:
    """Attempts, CPU, memory, and whole GPUs."""
    free = made.free(name)
    return None if free is None else (free.jobs, free.cpu_milli, free.memory_mib, free.gpus)


def _ahead(made: Cluster, job: str) -> int | None:
    found = position(made.waiting, job, made.shares(NOW), made.profile.order, NOW)
    return None if found is None else found.ahead


def test_holds_may_come_before_their_node_and_outlive_its_restart() -> None:
    made = Cluster()
    run(made, "j1", spec(), placed("a", cpu=3, memory=10, gpus=(1,)))
    made.set_ready("a", True)
    made.put_node(node("a", gpus=2))
    assert _free(made) == (1, 5000, 1014, (0,))
    made.put_node(node("a", gpus=4, cpu=16, incarnation=2))
    assert _free(made) == (1, 13000, 1014, (0, 2, 3))
    made.drop_node("a")
    assert _free(made) is None
    made.put_node(node("a", gpus=2))
    made.release("j1")
    assert _free(made) == (0, 8000, 1024, (0, 1))


def test_holding_and_releasing_twice_counts_once() -> None:
    made = cluster(node("a", gpus=2), profile=Profile(licences={"x": 3}))
    for _ in range(2):
        run(made, "j1", spec(licences={"x": 1}), placed("a", gpus=(0,)))
    run(made, "j1", spec(licences={"x": 2}), placed("a", cpu=2, gpus=(1,)))
    assert _free(made) == (1, 6000, 1023, (0,))
    assert (made.licences_used["x"], made.held_below("t", "gpu")) == (2, 1000)
    for _ in range(2):
        made.release("j1")
    assert _free(made) == (0, 8000, 1024, (0, 1))
    assert (made.licences_used["x"], made.held_below("t", "gpu"), made.on_node["a"]) == (0, 0, {})


def test_a_gpu_held_twice_is_free_only_when_both_are_gone() -> None:
    made = cluster(node("a", gpus=1))
    run(made, "j1", spec(), placed("a", gpus=(0,)))
    run(made, "j2", spec(), placed("a", gpus=(0,)))
    made.release("j1")
    assert _free(made) == (1, 7000, 1023, ())
    made.release("j2")
    assert _free(made) == (0, 8000, 1024, (0,))


def test_shares_of_gpus_and_devices_add_up() -> None:
    made = cluster(node("a", gpus=2, numa=2, devices={"fpga": ("f0", "f1")}))
    run(made, "j1", spec(), placed("a", gpus=(0,), gpu_milli=300, devices={"fpga": ("f1",)}, numa=1))
    run(made, "j2", spec(), placed("a", gpus=(0, 1), gpu_milli=600))
    free = made.free("a")
    assert free is not None
    assert free.gpu_shares == {0: 100, 1: 400}
    assert made.table.free_devices("fpga")[made.rows["a"]] == 1
    assert made.table.numa_cpu_free[made.rows["a"]].tolist() == [4000, 3000]
    made.release("j1")
    made.release("j2")
    assert made.table.free_devices("fpga")[made.rows["a"]] == 2
    assert made.table.gpu_left[made.rows["a"], :2].tolist() == [1000, 1000]


def test_readiness_may_come_before_the_node_and_goes_with_it() -> None:
    made = Cluster()
    made.set_ready("a", True)
    made.put_node(node("a"))
    made.enqueue(state("j"), spec())
    assert len(plan(made).placed) == 1
    made.drop_node("a")
    made.put_node(node("a"))
    assert plan(made).placed == ()


def test_many_nodes_come_and_go_and_rows_are_used_again() -> None:
    made = cluster(*(node(f"n{n}", devices={"fpga": ("f",)}) for n in range(40)))
    for n in range(0, 40, 2):
        made.drop_node(f"n{n}")
    for n in range(100, 115):
        made.put_node(node(f"n{n}", gpus=1))
        made.set_ready(f"n{n}", True)
    assert int(made.table.exists.sum()) == 35
    assert sorted(made.rows.values()) == sorted(set(made.rows.values()))
    assert max(made.rows.values()) < 40
    made.enqueue(state("gpu"), spec(gpus=1, model="A100"))
    made.enqueue(state("device"), spec(devices={"fpga": 1}, priority="LOW"))
    # Row 0 was that of a node with a device, and now is that of one with a GPU.
    assert nodes_of(plan(made)) == [("gpu", "n100"), ("device", "n1")]


def test_a_node_that_is_another_machine_each_time_leaves_nothing_behind() -> None:
    made = Cluster()
    made.put_node(node("b", gpus=4))
    made.set_ready("b", True)

    def says(number: int) -> NodeRecord:
        plain = node("a", gpus=2, incarnation=number + 1)
        names = {name: f"{name}-{number}" for name in ("pool", "region", "zone", "rack")}
        links = (("X", f"NV{number + 1}"), (f"NV{number + 1}", "X"))
        return replace(plain, info=replace(plain.info, gpu_links=links, labels={"hall": f"{number}"}, **names))

    table = made.table
    for number in range(100):
        made.put_node(says(number))
        row, other = made.rows["a"], made.rows["b"]
        assert table.labels.of("hall")[row] == table.values.known(f"{number}")
        assert table.domains.known(f"region-{number}") == table.region[row] > 0
        assert table.machines[table.machine.item(row)].id == machine_shape(says(number).info).id
        assert table.machines[table.machine.item(other)].id == machine_shape(node("b", gpus=4).info).id
        assert table.machine[row] != table.machine[other]
    assert (len(table.pools), len(table.domains), len(table.machines)) == (2, 3, 4)
    made.drop_node("a")
    assert (len(table.pools), len(table.domains)) == (1, 0)
    assert table.domains.known("region-99") == -1


def test_a_wide_machine_is_known_whole() -> None:
    made = cluster(node("small", gpus=1), node("wide", cpu=64, gpus=16, numa=4))
    made.enqueue(state("j"), spec(gpus=16))
    assert plan(made).placed[0].placements[0].gpus == tuple(range(16))


def test_queueing_twice_counts_once_and_moves_on_change() -> None:
    made = cluster(node("a"))
    made.enqueue(state("j1", 1), spec())
    made.enqueue(state("j1", 1), spec())
    made.enqueue(state("j2", 2), spec())
    assert (made.pending, _ahead(made, "j1"), _ahead(made, "j2")) == (2, 0, 1)
    made.enqueue(state("j1", 3), spec(memory=2))
    assert (made.pending, _ahead(made, "j1"), _ahead(made, "j2")) == (2, 1, 0)
    made.dequeue("j1")
    made.dequeue("j1")
    assert (made.pending, _ahead(made, "j1"), made.waiting.class_of("j1")) == (1, None, None)


def test_positions_count_better_priorities_and_earlier_jobs_of_every_class() -> None:
    made = Cluster()
    made.enqueue(state("n1", 1), spec())
    made.enqueue(state("n2", 2), spec(cpu=2))
    made.enqueue(state("n3", 3), spec())
    made.enqueue(state("c", 9), spec(priority="CRITICAL"))
    made.enqueue(state("l", 0), spec(priority="LOW"))
    found = {job: _ahead(made, job) for job in ("c", "n1", "n2", "n3", "l")}
    assert found == {"c": 0, "n1": 1, "n2": 2, "n3": 3, "l": 4}


def test_classes_that_ran_empty_are_forgotten_and_come_back() -> None:
    made = cluster(node("a", gpus=2))
    made.enqueue(state("stays"), spec(gpus=1))
    for n in range(2000):
        made.enqueue(state(f"j{n}"), spec(memory=n + 1))
        made.dequeue(f"j{n}")
    assert len(made.waiting.active) == 1
    made.enqueue(state("late", 1), spec(gpus=1))
    assert [job for job, _ in nodes_of(plan(made))] == ["stays", "late"]


def test_a_reservation_is_kept_until_it_is_changed_taken_or_given_up() -> None:
    made = cluster(node("a", gpus=2), node("b", gpus=2))
    reserve(made, "j", placed("a", gpus=(0, 1)))
    assert _free(made) == (1, 7000, 1023, ())
    reserve(made, "j", placed("b", gpus=(0, 1)))
    assert (_free(made), _free(made, "b")) == ((0, 8000, 1024, (0, 1)), (1, 7000, 1023, ()))
    run(made, "j", spec(gpus=2), placed("b", gpus=(0, 1)))
    assert _free(made, "b") == (1, 7000, 1023, ())
    made.release("j")
    assert _free(made, "b") == (0, 8000, 1024, (0, 1))
    reserve(made, "j", placed("a", gpus=(0,)))
    reserve(made, "j")
    assert made.reserved == {}


NEAR_DB = spec(job_affinity=(JobTerm(labels={"app": "db"}, level="node"),))


@pytest.mark.parametrize("late", [True, False])
def test_whom_jobs_want_to_be_near_is_found_wherever_its_node_is_now(late: bool) -> None:
    """The hold may come before the node, and another node may get the row that its node had."""
    made = Cluster()
    nodes = [node("first"), node("db"), node("other")]
    if late:
        run(made, "db", spec(labels={"app": "db"}), placed("db"))
    for one in nodes:
        made.put_node(one)
        made.set_ready(one.info.name, True)
    if not late:
        run(made, "db", spec(labels={"app": "db"}), placed("db"))
    made.enqueue(state("j"), NEAR_DB)
    assert nodes_of(plan(made)) == [("j", "db")]
    made.drop_node("db")
    assert plan(made).placed == ()
    made.put_node(node("stranger"))
    made.set_ready("stranger", True)
    assert plan(made).placed == ()
    made.put_node(node("db"))
    made.set_ready("db", True)
    assert nodes_of(plan(made)) == [("j", "db")]


def test_another_profile_counts_at_once() -> None:
    made = cluster(node("dear", pool="dear"), node("cheap", pool="cheap"))
    made.enqueue(state("j"), spec())
    pools = {"dear": Pool(cpu_hour=9.0), "cheap": Pool(cpu_hour=1.0)}
    assert nodes_of(plan(made)) == [("j", "dear")]
    assert nodes_of(plan(made, pools=pools)) == [("j", "cheap")]
    assert nodes_of(plan(made, pools={"cheap": pools["dear"], "dear": pools["cheap"]})) == [("j", "dear")]
    assert left_out(plan(made, filters=("cpu", "memory"))) == {}


@pytest.mark.parametrize("seed", range(5))
def test_a_line_is_a_sorted_list(seed: int) -> None:
    """Against a plain list, through appends, latecomers in small and large numbers, and removals anywhere."""
    chance, line, model = random.Random(seed), Line(), list[Place]()
    for n in range(6000):
        draw = chance.random()
        if model and draw < 0.3:
            place = model.pop(0)
            line.remove(place)
        elif model and draw < 0.35:
            place = model.pop(chance.randrange(len(model)))
            line.remove(place)
        else:
            place = (0.0, float(n) if draw < 0.9 else chance.uniform(0, n), 0, f"j{n}", 1)
            line.add(place)
            model.append(place)
            model.sort()
        if n % 50 == 0:
            probe = (0.0, chance.uniform(0, n), 0, "", 0)
            assert line.before(probe) == sum(one < probe for one in model)
            assert line.heads(7) == tuple(model[:7])
            assert len(line) == len(model)
            if model:
                at = chance.randrange(len(model))
                assert (line.nth(at), line.nth(-1)) == (model[at], model[-1])
