"""Any job that waits: the reason is true, what is removed changes it, and the named change starts the job."""

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.api.reasons import Reason, ReasonCode
from ares.core.admit.admission import decide
from ares.core.ask import Ask, asks_of
from ares.core.explain.smallest_change import smallest_change
from ares.core.explain.why import explain_ask, infeasible, reason
from ares.core.lifecycle.ranks import held, holds
from ares.core.queue.waiting import class_key
from ares.core.refusal import Admission
from ares.model.job import JobSpec, Resources, Toleration
from ares.model.state import JobState
from tests.changed_spec import changed_spec
from tests.property import judge
from tests.property.course import Course
from tests.property.worlds import GREEDY, SPECS, World, job, worlds
from tests.searching import examples
from tests.unit.core.schedule.filters.codes import CODES
from tests.unit.core.world import cycle_at

# What stands behind each code, in the order in which nodes are asked; a gang comes last.
STAGES: dict[str, set[ReasonCode]] = {
    "isolation": {"ISOLATION_UNMET"},
    # No node of these worlds makes pods.
    "pods": set(),
    **CODES,
    "devices": {"INSUFFICIENT_DEVICE"},
    "": {"INSUFFICIENT_GANG", "INFEASIBLE_GANG", "INSUFFICIENT_TOPOLOGY", "INFEASIBLE_TOPOLOGY"},
}
ORDER = list(STAGES)


def busy(world: World) -> Course:
    """A few cycles later: half the queue has been placed as far as it goes, and all is calm."""
    actions = ("allocate", "backfill")
    world.profile = replace(world.profile, max_placements_per_cycle=512, actions=actions, backfill=GREEDY)
    course = Course.of(world)
    course.carry_out(cycle_at(course.cluster, world.profile, course.now))
    for name in [name for name, one in course.jobs.items() if one.state.phase == "PENDING"]:
        course.cluster.dequeue(name)
        del course.jobs[name]
    return course


def rooms_now(course: Course) -> dict[str, judge.Room]:
    rooms = judge.rooms_of(course.world)
    judge.take_all(rooms, judge.held_by(course.pairs()))
    return rooms


def gated(course: Course, state: JobState, spec: JobSpec, wants: Resources) -> bool:
    """Licences or limits stand in the way."""
    running = [(one, judge.amounts(held(one))) for one, _ in course.pairs() if holds(one)]
    licences = [other for one, other in course.pairs() if holds(one)]
    over = judge.beyond_limits(course.world.profile, [*running, (state, judge.asked(spec, wants))])
    return bool(over or judge.beyond_licences(course.world.profile, [*licences, spec]))


def never_gated(course: Course, state: JobState, spec: JobSpec, wants: Resources) -> bool:
    profile = course.world.profile
    over = judge.beyond_limits(profile, [(state, judge.asked(spec, wants))])
    return bool(over or judge.beyond_licences(profile, [spec]))


def starts(course: Course, state: JobState, spec: JobSpec) -> bool:
    """By the judge alone: in any of its alternatives."""
    rooms = rooms_now(course)
    return any(
        not gated(course, state, spec, wants) and judge.fits(course.world, rooms, state, spec, wants, course.pairs())
        for wants in judge.wants_of(spec)
    )


def why(course: Course, state: JobState, spec: JobSpec, ask: Ask | None = None) -> Reason | None:
    asks = asks_of(spec, state.tenant)
    return reason(course.cluster, class_key(state, spec), ask or asks[0], course.now)


def furthest(course: Course, state: JobState, spec: JobSpec, *, emptied: bool) -> str:
    """The filter that the nodes which came furthest fail at, by the judge; nothing when some node passes all."""
    wants = spec.resources
    if emptied:
        rooms = judge.rooms_of(course.world).values()
        found = [judge.lasting(one.record, spec, wants) or judge.short_of(one, spec, wants) for one in rooms]
    else:
        rooms = rooms_now(course).values()
        found = [judge.refused_by(course.world, one, state, spec, wants, course.pairs()) for one in rooms]
    return max(found, key=ORDER.index)


ANYBODY = st.tuples(SPECS, st.sampled_from(["a", "b"]))


@settings(max_examples=examples(100))
@given(worlds(), ANYBODY)
def test_a_reason_is_true(world: World, who: tuple[JobSpec, str]) -> None:
    """None if and only if it fits; lasting if and only if it would not fit on the empty cluster; and the filter it
    comes from is the one that the nodes which came furthest fail at."""
    course = busy(world)
    state, spec = job(99, who[1], replace(who[0], alternatives=()), course.now)
    found = why(course, state, spec)
    assert (found is None) == starts(course, state, spec)
    if found is None:
        return
    wants = spec.resources
    ever = judge.fits_empty(world, spec, wants) and not never_gated(course, state, spec, wants)
    assert (found.remedy == "yours") == (not ever)
    assert (infeasible(course.cluster, class_key(state, spec), course.now) is None) == ever
    if "asked" in found.numbers and "free" in found.numbers:
        assert found.numbers["free"] < found.numbers["asked"]
    if found.code in ("INSUFFICIENT_LICENCE", "INFEASIBLE_LICENCE", "HARD_LIMIT", "INFEASIBLE_LIMIT"):
        assert gated(course, state, spec, wants)
        return
    stage = furthest(course, state, spec, emptied=not judge.fits_empty(world, spec, wants))
    assert found.code in STAGES[stage], (found, stage)


@settings(max_examples=examples(50))
@given(worlds(), ANYBODY)
def test_the_funnel_counts_the_nodes_that_pass_each_filter(world: World, who: tuple[JobSpec, str]) -> None:
    course = busy(world)
    state, spec = job(99, who[1], replace(who[0], alternatives=()), course.now)
    told = explain_ask(course.cluster, class_key(state, spec), asks_of(spec, state.tenant)[0], course.now)
    rooms = rooms_now(course).values()
    fails = [judge.refused_by(world, one, state, spec, spec.resources, course.pairs()) for one in rooms]
    assert told.funnel[0].nodes == len(fails)
    for step in told.funnel[1:]:
        assert step.nodes == sum(not stage or ORDER.index(stage) > ORDER.index(step.filter) for stage in fails), step
    if told.reason is not None and told.nearest:
        names = {one.record.info.name: stage for one, stage in zip(rooms, fails, strict=True)}
        assert [names[miss.node] for miss in told.nearest] == [miss.refused_by for miss in told.nearest]
        refused = [ORDER.index(stage) for stage in fails if stage]
        assert ORDER.index(told.nearest[0].refused_by) == max(refused)


def _all_big(world: World, **sizes: int) -> World:
    return World(
        [replace(one, info=replace(one.info, **sizes)) for one in world.nodes],
        world.ready, world.running, world.waiting, world.profile,
    )  # fmt: skip


def without(course: Course, state: JobState, spec: JobSpec, code: str) -> tuple[Course, JobSpec]:
    """The same without the constraint that the code names, and nothing else."""
    world, kind = course.world, code.split("_", 1)[-1]
    if code == "NO_READY_NODES":
        nodes = [replace(one, cordoned=False) for one in world.nodes]
        world = World(nodes, {one.info.name for one in nodes}, [], [], world.profile)
    elif kind in ("CPU", "MEMORY"):
        world = _all_big(world, **{"CPU": {"cpu_milli": 10**9}, "MEMORY": {"memory_mib": 10**9}}[kind])
    elif kind == "LIMIT":
        world = World(world.nodes, world.ready, [], [], replace(world.profile, shares={}))
    changes: dict[str, dict[str, Any]] = {
        "SELECTOR_MISMATCH": {"selector": {}}, "AFFINITY_UNMET": {"affinity": ()}, "RESIDENCY_UNMET": {"residency": ()},
        "JOB_AFFINITY_UNMET": {"job_affinity": ()}, "TAINTED": {"tolerations": (Toleration(key="spot"),)},
        "NUMA": {"numa": "none"}, "TOPOLOGY": {"topology": None}, "GANG": {"gang": None}, "LICENCE": {"licences": {}},
        "GPU": {"resources": replace(spec.resources, gpus=0), "topology": None},
        "GPU_MODEL": {"resources": replace(spec.resources, gpu_model=None, gpu_memory_mib=0)},
        "DEVICE": {"resources": replace(spec.resources, devices={})},
    }  # fmt: skip
    relaxed = Course.of(World(world.nodes, world.ready, [], [], world.profile))
    for one in course.jobs.values():
        relaxed.submit(one.state, one.spec)
    return relaxed, replace(spec, **changes.get(code, changes.get(kind, {})))


@settings(max_examples=examples(100))
@given(worlds(), ANYBODY)
def test_without_the_constraint_it_names_the_outcome_is_another(world: World, who: tuple[JobSpec, str]) -> None:
    """By the judge: the job starts, or the nodes that come furthest come further, or it is for another reason."""
    course = busy(world)
    state, spec = job(99, who[1], replace(who[0], alternatives=()), course.now)
    found = why(course, state, spec)
    assume(found is not None)
    assert found is not None
    relaxed, easier = without(course, state, spec, found.code)
    assert (relaxed.world, easier) != (course.world, spec), found
    again = why(relaxed, state, easier)
    assert again is None or again.code != found.code, (found, again)
    if found.code not in ("INSUFFICIENT_LICENCE", "INFEASIBLE_LICENCE", "HARD_LIMIT", "INFEASIBLE_LIMIT"):
        emptied = not judge.fits_empty(world, spec, spec.resources)
        before, after = (furthest(c, state, s, emptied=emptied) for c, s in ((course, spec), (relaxed, easier)))
        assert ORDER.index(after) >= ORDER.index(before)


# The fields of a single change that are numbers, and how to ask for a little more.
_AMOUNTS = {
    "resources.cpuMilli": "cpu_milli", "resources.memoryMib": "memory_mib", "resources.gpus": "gpus",
    "resources.gpuMilli": "gpu_milli", "resources.gpuMemoryMib": "gpu_memory_mib",
}  # fmt: skip


@settings(max_examples=examples(100))
@given(worlds(), ANYBODY)
def test_the_smallest_change_starts_the_job(world: World, who: tuple[JobSpec, str]) -> None:
    course = busy(world)
    state, spec = job(99, who[1], who[0], course.now)
    change = smallest_change(course.cluster, state, spec, course.now)
    if starts(course, state, spec):
        assert change is None
        return
    if change is None:
        assert not any(starts(course, state, one) for one in singly_changed(spec)), "some change would have helped"
        return
    changed = changed_spec(spec, change)
    assert isinstance(decide(changed), Admission)
    assert starts(course, state, changed)
    for field, value in change.fields.items():
        if len(change.fields) == 1 and field in _AMOUNTS:
            more = replace(spec.resources, **{_AMOUNTS[field]: value + 1})
            assert more == spec.resources or not starts(course, state, replace(spec, resources=more)), "more would do"
    course.submit(state, changed)
    assert [one.job for one in cycle_at(course.cluster, world.profile, course.now).placed] == [state.id]


def singly_changed(spec: JobSpec) -> list[JobSpec]:
    """The job with as much as can be given up of one thing."""
    wants = spec.resources
    less = [replace(wants, cpu_milli=1), replace(wants, memory_mib=1), replace(wants, gpus=min(wants.gpus, 1))]
    less += [replace(wants, gpu_memory_mib=0), replace(wants, gpu_model=None)]
    found = [replace(spec, resources=one) for one in less]
    found += [replace(spec, selector={}), replace(spec, residency=()), replace(spec, licences={})]
    found += [replace(spec, numa="none"), replace(spec, affinity=()), replace(spec, job_affinity=())]
    found += [replace(spec, tolerations=(Toleration(key="spot"),))]
    return found if spec.topology is None else [*found, replace(spec, topology=None)]
