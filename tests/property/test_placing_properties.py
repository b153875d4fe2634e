"""Shortcuts of the engine against the long way round: many jobs at once, and an order that is looked at lazily."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.core.ask import asks_of
from ares.core.capacity.transaction import Transaction
from ares.core.queue.factors import rank
from ares.core.queue.order import job_of
from ares.core.queue.waiting import facts_of
from ares.core.schedule.place import place_many, place_one
from ares.core.schedule.trial import Trial
from ares.model.job import JobSpec
from tests.property.course import Course
from tests.property.worlds import GREEDY, NOW, SPECS, World, worlds
from tests.searching import examples
from tests.unit.core.world import cluster, cycle_at, node
from tests.unit.core.world import spec as small


def started(world: World) -> Course:
    """With what fits of the queue running, and the rest gone."""
    world.profile = replace(world.profile, actions=("allocate", "backfill"), backfill=GREEDY)
    course = Course.of(world)
    course.carry_out(cycle_at(course.cluster, world.profile, course.now))
    course.cluster.prepare()
    return course


@settings(max_examples=examples(100))
@given(worlds(jobs=5), SPECS.filter(lambda spec: spec.gang is None and not spec.job_affinity), st.integers(1, 12))
def test_many_at_once_are_placed_as_one_by_one(world: World, spec: JobSpec, wanted: int) -> None:
    """The same rows, the same GPUs, in the same order; and as many as there is room for."""
    evaluations = started(world).cluster.evaluations
    ask = asks_of(spec, "a")[0]
    txn = Transaction(evaluations)
    many = place_many(evaluations, txn, ask, wanted)
    assert len(many) >= wanted or place_one(evaluations, txn, ask) is None
    txn.rollback(0)
    assert many == [place_one(evaluations, txn, ask) for _ in many]
    txn.rollback(0)


def test_a_few_small_jobs_do_not_fill_a_large_node() -> None:
    """Looking ahead costs as much as is looked for, however many would fit."""
    evaluations = cluster(node("a", cpu=64, memory=1 << 20)).evaluations
    assert len(place_many(evaluations, Transaction(evaluations), asks_of(small(cpu=0.01), "t")[0], 3)) == 3


def naively(course: Course) -> tuple[list[str], list[str]]:
    """The same cycle with all ranks computed anew before every step: who is placed, and who is left out, in order."""
    trial = Trial(course.cluster, course.world.profile, course.now)
    lines = {one.id: (one, list(one.line.heads(1000))) for one in course.cluster.waiting.active.values()}
    left: list[str] = []

    def key(number: int) -> tuple[float, float, object]:
        one, line = lines[number]
        facts = facts_of(line[0], one.key)
        primary, secondary = rank(facts, trial.shares, trial.profile.order, trial.now)
        return -primary, -secondary, line[0]

    while lines and not trial.full:
        number = min(lines, key=key)
        one, line = lines[number]
        found = trial.find(one.key)
        if found is None:
            left.append(job_of(line[0]))
            del lines[number]
            continue
        trial.note_placed(job_of(line.pop(0)), one.key, one.id, found)
        if not line:
            del lines[number]
    trial.close()
    return [one.job for one in trial.placed], left


@settings(max_examples=examples(100))
@given(worlds(jobs=24))
def test_the_lazy_order_is_the_order_of_ranks_at_every_step(world: World) -> None:
    world.profile = replace(world.profile, actions=("allocate", "backfill"), backfill=GREEDY)
    course = Course.of(world)
    plan = cycle_at(course.cluster, world.profile, NOW)
    assert ([one.job for one in plan.placed], [one.first_job for one in plan.left]) == naively(course)


@settings(max_examples=examples(50))
@given(worlds(jobs=24))
def test_within_a_class_nobody_is_overtaken(world: World) -> None:
    world.profile = replace(world.profile, backfill=GREEDY)
    course = Course.of(world)
    lines = [[job_of(place) for place in one.line.heads(1000)] for one in course.cluster.waiting.active.values()]
    placed = {one.job for one in cycle_at(course.cluster, world.profile, NOW).placed}
    for line in lines:
        waits = [job not in placed for job in line]
        assert waits == sorted(waits)
