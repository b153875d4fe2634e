"""What-ifs over long queues in steps: each looks at a bounded part, and leaves the cluster as it was in between."""

from collections.abc import Callable

import pytest

from ares.core.explain.smallest_change import smallest_change
from ares.core.queue.position import position
from ares.core.schedule.cluster import Cluster
from ares.core.starts import starts as starts_module
from ares.core.starts.alternatives import offers
from ares.core.starts.deadlines import ways
from ares.core.starts.starts import ROWS_AT_A_TIME, Course, Starts, course
from ares.core.steps import Steps, at_once
from ares.model.job import JobSpec
from ares.model.node import NodeRecord
from ares.model.profile import Pool, Profile
from tests.unit.core.world import NOW, cluster, node, placed, run, spec, state

NODES, JOBS = 500, 90
NEW = state("planned", at=NOW)


def distinct(number: int) -> JobSpec:
    return spec(cpu=5 + number % 3, memory=1 + number, expected_runtime_s=600.0 + number, deadline_at=NOW + 1.0)


def full(jobs: int = JOBS) -> Cluster:
    """Nothing is free for those who wait; they all differ."""
    made = cluster(*(node(f"n{number:03}") for number in range(NODES)))
    for number in range(NODES):
        ends = spec(cpu=4, expected_runtime_s=60.0 + number)
        run(made, f"r{number}", ends, placed(f"n{number:03}", cpu=4), since=NOW)
    for number in range(jobs):
        made.enqueue(state(f"j{number:05}", at=NOW - jobs + number), distinct(number))
    return made


def walked(steps: Steps[object], made: Cluster, between: Callable[[], None] = lambda: None) -> tuple[int, object]:
    """How many steps it took, and what was found. After each the cluster is what it was."""
    free, pending, count = made.table.cpu_free.copy(), set(made.waiting.active), 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return count, done.value
        count += 1
        assert NEW.id not in made.waiting
        assert (made.table.cpu_free == free).all()
        assert set(made.waiting.active) == pending
        between()
        free, pending = made.table.cpu_free.copy(), set(made.waiting.active)


def test_a_start_behind_many_is_found_a_few_jobs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made, looks, most = full(), [0], [0]
    earliest = starts_module.earliest

    def counted(*args: object) -> object:
        looks[0] += 1
        return earliest(*args)  # type: ignore[arg-type]

    def between() -> None:
        most[0], looks[0] = max(most[0], looks[0]), 0

    monkeypatch.setattr(starts_module, "earliest", counted)
    count, found = walked(course.steps(made, NEW, distinct(JOBS), NOW), made, between)
    assert isinstance(found, Course)
    assert count > JOBS // (ROWS_AT_A_TIME // NODES)
    assert most[0] * NODES <= ROWS_AT_A_TIME
    assert found == course(made, NEW, distinct(JOBS), NOW), "in steps or at once, the answer is one"


def test_who_waits_is_told_the_same_however_often_it_is_asked() -> None:
    made = full()
    shared = Starts(made, NOW)
    for number in (60, 5, 30, 5, JOBS - 1):
        job = state(f"j{number:05}", at=NOW - JOBS + number)
        (found,) = at_once(shared.steps(job, (distinct(number),)))
        assert found == course(made, job, distinct(number), NOW)


def test_the_world_may_change_between_two_steps() -> None:
    made = full()
    changes = iter(
        [
            lambda: made.drop_node("n000"),
            lambda: made.dequeue("j00020"),
            lambda: made.release("r1"),
            lambda: made.put_node(node("new")),
            lambda: made.dequeue("j00000"),
        ]
    )

    def between() -> None:
        next(changes, bool)()

    _, found = walked(course.steps(made, NEW, distinct(JOBS), NOW), made, between)
    assert found
    assert next(changes, None) is None, "there were steps enough"


def test_ways_leave_the_job_in_its_place_and_end_when_it_left() -> None:
    made, job, wanted = full(), state("j00003", at=NOW - JOBS + 3), distinct(3)
    place = made.waiting.place_of(job.id)
    assert place is not None

    def between() -> None:
        stands = made.waiting.place_of(job.id)
        assert stands is not None
        assert stands[:4] == place[:4]

    count, _ = walked(ways.steps(made, job, wanted, NOW), made, between)
    assert count > 3
    _, found = walked(ways.steps(made, job, wanted, NOW), made, lambda: made.dequeue(job.id))
    assert found == ()


def test_offers_and_the_smallest_change_are_found_in_steps() -> None:
    made, wanted = full(8), distinct(8)
    assert walked(offers.steps(made, NEW, wanted, NOW), made) == (2, offers(made, NEW, wanted, NOW))
    count, found = walked(smallest_change.steps(made, NEW, wanted, NOW), made)
    assert count > 10
    assert found == smallest_change(made, NEW, wanted, NOW)


def test_the_place_among_5000_kinds_of_jobs_is_counted_in_steps() -> None:
    made = cluster(node("a"))
    for number in range(5000):
        made.enqueue(state(f"j{number:05}", at=NOW + number), spec(memory=1 + number))
    steps = position.steps(made.waiting, "j04999", made.shares(NOW), made.profile.order, NOW)
    count, found = walked(steps, made)
    assert count >= 9
    assert found == (4999, 4999)


def test_another_profile_puts_only_nodes_again_whose_pool_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = {"a": Pool(gpu_hour=1.0), "b": Pool(gpu_hour=2.0)}
    made = cluster(node("x", pool="a"), node("y", pool="b"), node("z"), profile=Profile(pools=pools))
    put: list[str] = []
    plain = made.put_node

    def noted(record: NodeRecord) -> None:
        put.append(record.info.name)
        plain(record)

    monkeypatch.setattr(made, "put_node", noted)
    made.configure(Profile(pools=pools, actions=("allocate",)))
    assert put == []
    made.configure(Profile(pools={**pools, "b": Pool(gpu_hour=3.0)}))
    assert put == ["y"]
    made.configure(Profile())
    assert put == ["y", "x", "y"]
