"""Shortcuts of the engine against the long way round: many jobs at once, and an order that is looked at lazily."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.core.ask import Ask, asks_of
from ares.core.capacity.fit import Evaluations
from ares.core.capacity.node_slice import ClusterFacts
from ares.core.capacity.node_table import NodeTable
from ares.core.capacity.transaction import Transaction
from ares.core.queue.factors import rank
from ares.core.queue.order import job_of
from ares.core.queue.waiting import facts_of
from ares.core.schedule.place import place_many, place_one
from ares.core.schedule.trial import Trial
from ares.model.job import JobSpec
from ares.model.node import Taint
from tests.property.course import Course
from tests.property.worlds import GREEDY, NOW, SPECS, World, worlds
from tests.searching import examples
from tests.unit.core.world import cluster, cycle_at, node, state
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


SIZES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([0.5, 1, 3]),
        "memory": st.sampled_from([100, 300]),
        "gpus": st.sampled_from([0, 0, 1, 2]),
        "model": st.sampled_from([None, None, "A10"]),
    }
)


def by_columns(_table: NodeTable, _facts: ClusterFacts, _ask: Ask) -> None:
    """No row is scored by itself."""


@settings(max_examples=examples(60))
@given(
    st.lists(SIZES, min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 23)), max_size=40),
    st.booleans(),
)
def test_a_row_alone_is_scored_as_it_is_among_all(
    sizes: list[dict[str, Any]], steps: list[tuple[int, bool, int]], tainted: bool
) -> None:
    """To the last bit, with the same best row, while jobs come and go, and nodes get ready or are tainted."""
    kinds: list[dict[str, Any]] = [{"gpus": 4}, {"gpus": 2, "model": "NVIDIA A10", "cpu": 4}, {}]
    made = cluster(*(node(f"n{at}", **kinds[at % 3]) for at in range(24)))
    asks = [asks_of(small(**size), "t")[0] for size in sizes]
    for number, size in enumerate(sizes):
        made.enqueue(state(f"j{number}"), small(**size))
    made.prepare()
    evaluations, columns = made.evaluations, Evaluations(made.table, made.matching)
    columns.rules = evaluations.rules._replace(by_row=by_columns)
    columns.facts = evaluations.facts
    txn, alone = Transaction(evaluations), 0
    for ask in asks:
        evaluations.best(ask)
    for which, takes, row in steps:
        ask = asks[which % len(asks)]
        if takes:
            place_one(evaluations, txn, ask)
        elif tainted and row % 5 == 0:
            made.put_node(node(f"n{row}", taints=(Taint(key="k", value="v", effect="prefer-not"),), **kinds[row % 3]))
        else:
            made.set_ready(f"n{row}", not made.table.healthy[row])
        columns.forget()
        for each in asks[: 1 + which]:
            (mine, best), (theirs, expected) = evaluations.best(each), columns.best(each)
            assert (mine.score.tolist(), best) == (theirs.score.tolist(), expected)
            alone += mine.by_row is not None
    assert alone or not steps


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
