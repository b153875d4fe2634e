"""Whatever happens in a cluster with caps on power: no plan brings a pool above its cap, by a judge's own sum."""

from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.core.schedule.plan import Plan
from ares.model.profile import Pool
from ares.model.state import BOUND, Placement
from tests.property import judge
from tests.property.course import Course
from tests.property.test_cycle_properties import EVENTS, happen, shown
from tests.property.worlds import World, crowded, worlds
from tests.searching import examples
from tests.unit.core.world import cycle_at

POOLS = ("default", "spot")
FULL, IDLE, CPU = 400.0, 50.0, 10.0


def with_caps(world: World, caps: tuple[float, float]) -> World:
    """Each cap is what idle GPUs draw, and a share of what could be drawn beyond that."""
    pools: dict[str, Pool] = {}
    for name, share in zip(POOLS, caps, strict=True):
        infos = [one.info for one in world.nodes if one.info.pool == name]
        idle = IDLE * sum(len(info.gpus) for info in infos)
        most = (FULL - IDLE) * sum(len(info.gpus) for info in infos) + CPU * sum(one.cpu_milli for one in infos) / 1000
        pools[name] = Pool(gpu_watts=FULL, gpu_idle_watts=IDLE, cpu_watts=CPU, power_cap_watts=1 + idle + share * most)
    world.profile = replace(world.profile, pools=pools)
    return world


def in_use(course: Course) -> list[Placement]:
    return [place for places in course.in_use().values() for place in places]


def check_power(course: Course, plan: Plan) -> None:
    """Neither now, with all who run, nor once those are gone who were asked to go."""
    placed = {one.job: one.placements for one in plan.placed}
    resized = {one.job: one.placements for one in plan.resized}
    now = in_use(course)
    now += [place for places in placed.values() for place in places]
    now += [place for job, places in resized.items() for place in places if place not in course.state(job).placements]
    gone = {victim for one in plan.evictions for victim in one.victims}
    # Whoever was asked to go by an earlier plan, and is still there, is gone by then as well.
    bound = {job: one.state.placements for job, one in course.jobs.items() if one.state.phase in BOUND}
    stay = [(job, places) for job, places in bound.items() if job not in gone]
    then = [place for job, places in stay for place in resized.get(job, places)]
    then += [place for places in placed.values() for place in places]
    then += [place for one in plan.evictions for place in one.hold]
    for job, one in course.jobs.items():
        if job not in placed and job not in plan.unheld:
            then += one.state.hold
    for pool in POOLS:
        cap = round(1000 * course.world.profile.pools[pool].power_cap_watts)
        note(
            f"{pool}: {judge.drawn(course.world, pool, now)} now, {judge.drawn(course.world, pool, then)} then of {cap}"
        )
        # Slices of GPUs are rounded.
        assert judge.drawn(course.world, pool, now) <= cap + 1
        assert judge.drawn(course.world, pool, then) <= cap + 1


CAPS = st.tuples(*[st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.8])] * 2)


@settings(max_examples=examples(75))
@given(st.one_of(worlds(), crowded()), CAPS, st.lists(EVENTS, min_size=1, max_size=5))
def test_no_plan_brings_a_pool_above_its_cap(world: World, caps: tuple[float, float], course_of: list[Any]) -> None:
    world = with_caps(world, caps)
    later, world.waiting = world.waiting[len(world.waiting) // 2 :], world.waiting[: len(world.waiting) // 2]
    course = Course.of(world)
    for events in course_of:
        plan = cycle_at(course.cluster, world.profile, course.now)
        note(f"{plan}")
        fresh = cycle_at(course.fresh(), world.profile, course.now)
        assert shown(fresh) == shown(plan)
        check_power(course, plan)
        course.carry_out(plan)
        course.now += 100.0
        for what, which in events:
            happen(course, what, which)
        for state, spec in later[:3]:
            course.submit(state, spec)
        later = later[3:]


@settings(max_examples=examples(30))
@given(st.one_of(worlds(), crowded()), st.lists(EVENTS, min_size=1, max_size=3))
def test_a_cap_that_is_never_reached_changes_nothing(world: World, course_of: list[Any]) -> None:
    without = {
        name: replace(pool, power_cap_watts=0.0) for name, pool in with_caps(world, (9.0, 9.0)).profile.pools.items()
    }
    free = replace(world.profile, pools=without)
    course = Course.of(world)
    for events in course_of:
        plan = cycle_at(course.cluster, world.profile, course.now)
        assert shown(plan) == shown(cycle_at(course.cluster, free, course.now))
        course.carry_out(plan)
        course.now += 100.0
        for what, which in events:
            happen(course, what, which)
