"""Throttled arrays: so many tasks have a place at once, whatever room there is."""

from msgspec.structs import replace

from ares.core.admit.arrays import indices
from ares.core.admit.arrays import throttle as throttle_of
from ares.core.explain.why import why_waiting
from ares.core.refusal import Refusal
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.follower import follow, throttle
from ares.model.state import JobState
from tests.unit.core.world import NOW, cluster, node, placed, plan, spec, state


def task(index: int, array: str = "a1") -> JobState:
    return replace(state(f"{array}_{index}"), array=array, index=index)


def waiting(made: Cluster, count: int, array: str = "a1") -> list[JobState]:
    tasks = [task(index, array) for index in range(count)]
    for one in tasks:
        follow(made, None, one, spec(), NOW)
    return tasks


def names(made: Cluster) -> list[str]:
    return [item.job for item in plan(made).placed]


def test_only_so_many_are_placed() -> None:
    made = cluster(node("n", cpu=8))
    throttle(made, "a1", 3, ())
    waiting(made, 6)
    assert names(made) == ["a1_0", "a1_1", "a1_2"]


def test_tasks_that_have_a_place_count_until_they_are_gone() -> None:
    made = cluster(node("n", cpu=8))
    throttle(made, "a1", 2, ())
    tasks = waiting(made, 4)
    running = replace(tasks[0], phase="RUNNING", placements=(placed("n"),), bound_at=NOW)
    follow(made, tasks[0], running, spec(), NOW)
    assert names(made) == ["a1_1"]
    left = replace(running, phase="CANCELLED", lingering=True)
    follow(made, running, left, spec(), NOW)
    assert names(made) == ["a1_1"]
    follow(made, left, replace(left, lingering=False), spec(), NOW)
    assert names(made) == ["a1_1", "a1_2"]


def test_another_array_and_single_jobs_are_not_held_up() -> None:
    made = cluster(node("n", cpu=8))
    throttle(made, "a1", 1, ())
    waiting(made, 2)
    waiting(made, 2, "a2")
    follow(made, None, state("single"), spec(), NOW)
    assert sorted(names(made)) == ["a1_0", "a2_0", "a2_1", "single"]


def test_a_throttle_comes_changes_and_goes() -> None:
    made = cluster(node("n", cpu=8))
    tasks = [(one, spec()) for one in waiting(made, 6)]
    assert len(names(made)) == 6
    throttle(made, "a1", 2, tasks)
    assert len(names(made)) == 2
    throttle(made, "a1", 4, tasks)
    assert len(names(made)) == 4
    throttle(made, "a1", None, tasks)
    assert len(names(made)) == 6


def test_running_tasks_count_when_a_throttle_comes_later() -> None:
    made = cluster(node("n", cpu=8))
    tasks = waiting(made, 4)
    running = replace(tasks[0], phase="RUNNING", placements=(placed("n"),), bound_at=NOW)
    follow(made, tasks[0], running, spec(), NOW)
    throttle(made, "a1", 1, [(one, spec()) for one in (running, *tasks[1:])])
    assert names(made) == []
    found = made.waiting.class_of("a1_1")
    assert found is not None
    why = why_waiting(made, found.key, NOW)
    assert why is not None
    assert (why.code, why.numbers, why.remedy) == ("ARRAY_THROTTLE", {"running": 1, "limit": 1}, "wait")
    assert why.message == "1 of its array's tasks have a place, and 1 may at once"


def test_how_it_is_written() -> None:
    assert (throttle_of("0-199%8"), throttle_of("0-199")) == (8, None)
    assert indices("0-3%2") == (0, 1, 2, 3)
    for wrong in ("0-3%0", "0-3%00"):
        refused = indices(wrong)
        assert isinstance(refused, Refusal)
        assert refused.message == f"array {wrong} lets no task run at once"
