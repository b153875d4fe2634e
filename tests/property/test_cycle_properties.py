"""Any cluster through any course of events: what a plan may never do, judged by a slow judge of its own."""

from collections import Counter
from math import inf
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.core.lifecycle.ranks import held
from ares.core.queue.order import LEVELS
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.plan import Plan
from ares.model.state import Placement
from tests.property import judge
from tests.property.course import Course
from tests.property.worlds import World, crowded, worlds
from tests.searching import examples
from tests.unit.core.world import cycle_at

_EVENTS = st.sampled_from(["end", "gone", "gone", "silent", "back", "restart"])
EVENTS = st.lists(st.tuples(_EVENTS, st.integers(0, 9)), max_size=4)


def columns(cluster: Cluster) -> dict[str, Any]:
    """Every array of the picture, copied."""
    table = cluster.table
    names = (*table.PLAIN, *table.REAL, *table.BY_GPU, *table.BY_NUMA, "exists", "healthy")
    found: dict[str, Any] = {name: getattr(table, name).tolist() for name in names}
    found |= {f"{kind} free": table.free_devices(kind).tolist() for kind in list(table.devices_taken)}
    return found | {f"{kind} taken": list(bits) for kind, bits in table.devices_taken.items()}


def shown(plan: Plan) -> tuple[Any, ...]:
    """A plan without the numbers of classes, which are of one process only."""
    placed = tuple(replace(one, class_id=0) for one in plan.placed)
    left = tuple(replace(one, class_id=0) for one in plan.left)
    promises = tuple(replace(one, made_at=0.0) for one in plan.promises)
    return placed, left, promises, plan.evictions, plan.resized, plan.unheld, plan.more


# ---- the judge's look at one plan


def check_rank(course: Course, job: str, alternative: int, place: Placement) -> None:
    spec, room = course.spec(job), judge.rooms_of(course.world)[place.node]
    wants = judge.wants_of(spec)[alternative]
    assert (place.cpu_milli, place.memory_mib) == (wants.cpu_milli, wants.memory_mib)
    assert len(set(place.gpus)) == wants.gpus
    assert set(place.gpus) <= judge.gpus_wanted(room.record, wants)
    assert not place.gpus or place.gpu_milli == wants.gpu_milli
    assert {kind: len(set(names)) for kind, names in place.devices.items()} == wants.devices
    assert place.incarnation == room.record.incarnation
    if spec.numa == "required":
        numa_of = {gpu.index: gpu.numa_node for gpu in room.record.info.gpus}
        assert place.numa is not None
        assert {numa_of[gpu] for gpu in place.gpus} <= {place.numa}
    if judge.required_level(spec) == "nvlink" or (spec.topology and spec.topology.required and wants.gpus > 1):
        level = spec.topology.level if spec.topology else ""
        assert level != "nvlink" or any(set(place.gpus) <= one for one in judge.domains(room.record))


def check_shape(course: Course, job: str, places: tuple[Placement, ...]) -> None:
    """All or nothing, as close together and as spread out as asked."""
    spec = course.spec(job)
    least, most, per_node = judge.ranks_of(spec)
    assert least <= len(places) <= most
    assert max(Counter(place.node for place in places).values()) <= per_node
    level = judge.required_level(spec)
    records = {one.info.name: one for one in course.world.nodes}
    if level == "nvlink":
        assert len({place.node for place in places}) == 1
        gpus = {gpu for place in places for gpu in place.gpus}
        assert any(gpus <= one for one in judge.domains(records[places[0].node]))
    elif level != "cluster":
        names = {judge.place_name(records[place.node], level) for place in places}
        assert len(names) == 1
        assert None not in names or len({place.node for place in places}) == 1


def check_allowed(course: Course, job: str, place: Placement, alternative: int) -> None:
    spec, record = course.spec(job), judge.rooms_of(course.world)[place.node].record
    assert judge.lasting(record, spec, judge.wants_of(spec)[alternative]) == ""
    assert place.node in course.world.ready
    assert not record.cordoned


def check_room(course: Course, plan: Plan) -> None:
    """Nothing is given twice: not now, and not when everybody is gone who was asked to go."""
    now, then = judge.rooms_of(course.world), judge.rooms_of(course.world)
    in_use = course.in_use()
    gone = {victim for eviction in plan.evictions for victim in eviction.victims} | asked_to_go(course)
    resized = {one.job: one.placements for one in plan.resized}
    placed = {one.job: one.placements for one in plan.placed}
    for job, places in in_use.items():
        judge.take_all(now, places)
        left = {place.rank for place in course.state(job).leaving}
        stay = resized.get(job, tuple(place for place in places if place.rank not in left))
        judge.take_all(then, () if job in gone else stay)
    for job, places in resized.items():
        judge.take_all(now, tuple(place for place in places if place not in course.state(job).placements))
    for places in placed.values():
        judge.take_all(now, places)
        judge.take_all(then, places)
    for job in course.jobs:
        if job not in placed and job not in plan.unheld:
            judge.take_all(then, course.state(job).hold)
    for one in plan.evictions:
        judge.take_all(then, one.hold)
    for rooms in (now, then):
        assert {name: room.overfull() for name, room in rooms.items() if room.overfull()} == {}


def check_counted(course: Course, plan: Plan) -> None:
    """Licences and hard limits, over all tenants and teams."""
    places = {job: held(course.state(job)) for job in course.in_use()}
    places |= {one.job: one.placements for one in (*plan.placed, *plan.resized)}
    used = [(course.state(job), judge.amounts(mine)) for job, mine in places.items()]
    assert judge.beyond_limits(course.world.profile, used) == ""
    assert judge.beyond_licences(course.world.profile, [course.spec(job) for job in places]) == ""


def check_left_out(course: Course, plan: Plan) -> None:
    """Whoever is left out truly fits nowhere, in none of its alternatives."""
    rooms = judge.rooms_of(course.world)
    placed = {one.job: one for one in plan.placed}
    judge.take_all(rooms, judge.held_by(course.pairs()))
    for job in course.jobs:
        mine, hold = (placed[job].placements if job in placed else ()), course.state(job).hold
        judge.take_all(rooms, mine)
        # Whoever found another place than the one kept for it gives that up in the next cycle.
        judge.take_all(rooms, () if mine == hold else hold)
    jobs = [
        (replace(state, phase="RUNNING", placements=placed[state.id].placements) if state.id in placed else state, spec)
        for state, spec in course.pairs()
    ]
    counted = [(state, judge.amounts(held(state))) for state, _ in jobs]
    for left in plan.left:
        state, spec = course.state(left.first_job), course.spec(left.first_job)
        others = [spec for other, spec in jobs if judge.holds(other)]
        if judge.beyond_licences(course.world.profile, [*others, spec]):
            continue
        for wants in judge.wants_of(spec):
            if not judge.beyond_limits(course.world.profile, [*counted, (state, judge.asked(spec, wants))]):
                # Nor did it before others were placed that it must be near to: the next cycle sees them.
                now = judge.fits(course.world, rooms, state, spec, wants, jobs)
                assert not now or not judge.fits(course.world, rooms, state, spec, wants, course.pairs()), (left, wants)


def asked_to_go(course: Course) -> set[str]:
    return {job for job in course.lingering() if course.state(job).phase != "RUNNING"}


def kept_rooms(course: Course, plan: Plan) -> list[tuple[str, tuple[Placement, ...]]]:
    """Of those for whom room was made before, and who do not have it yet."""
    placed = {one.job for one in plan.placed}
    return [(job, course.state(job).hold) for job in course.jobs if job not in placed and job not in plan.unheld]


def check_promises(course: Course, plan: Plan) -> None:
    """By the estimates, there is room for all promises together: whoever starts, grows or evicts leaves it alone."""
    now, changed = course.now, {one.job: one.placements for one in plan.resized}
    steps: list[tuple[float, int, Placement, str]] = []
    # The room of a job that was asked to go is counted once: for the job that it is kept for.
    for job in sorted(course.jobs.keys() - asked_to_go(course)):
        ends = course.cluster.future.ends_at(job)
        places = changed.get(job, held(course.state(job)))
        steps += [(now, -1, place, job) for place in places]
        steps += [(max(now, ends), +1, place, job) for place in places if ends is not None and ends < inf]
    for job, places in [(one.job, one.placements) for one in plan.placed] + kept_rooms(course, plan):
        ends = now + course.cluster.waiting.runs_of(job)
        steps += [(now, -1, place, job) for place in places]
        steps += [(ends, +1, place, job) for place in places if ends < inf]
    for one in plan.promises:
        steps += [(one.start, -1, place, one.job) for place in one.placements]
        steps += [(one.until, +1, place, one.job) for place in one.placements if one.until is not None]
    rooms = judge.rooms_of(course.world)
    for at, sign, place, job in sorted(steps, key=lambda step: (step[0], -step[1])):
        rooms[place.node].take(place, -sign)
        assert at == now or sign > 0 or not rooms[place.node].overfull(), (at, job, rooms[place.node].overfull())


def check_evictions(course: Course, plan: Plan) -> None:
    """Only those go who may, never more than the bound allows, and never twice."""
    policy = course.world.profile.preemption
    seen: set[str] = set()
    for one in plan.evictions:
        spec = course.spec(one.job)
        wants = judge.wants_of(spec)[one.alternative]
        unit = wants.gpus * wants.gpu_milli or wants.cpu_milli
        # What matters less counts less, and BEST_EFFORT is nothing to CRITICAL.
        counted = 0.0
        resource = "gpu" if wants.gpus else "cpu"
        for victim in one.victims:
            assert victim not in seen
            seen.add(victim)
            state, theirs = course.state(victim), course.spec(victim)
            assert theirs.preemption.allowed
            assert not state.lingering
            assert course.now - (state.bound_at or 0.0) >= policy.min_runtime_s
            assert state.preemptions < policy.cap
            if one.rule == "priority":
                assert LEVELS[theirs.priority] - LEVELS[spec.priority] >= policy.gap
            apart = LEVELS[theirs.priority] - LEVELS[spec.priority]
            part = 2.0 ** -max(0, apart - policy.gap) if one.rule == "priority" else 1.0
            counted += 0.0 if (one.rule, apart) == ("priority", 4) else part * judge.amounts(held(state))[resource]
        assert counted <= policy.disruption_max * unit * judge.ranks_of(spec)[0] + len(one.victims)
        for gang in one.shrunk:
            assert LEVELS[course.spec(gang).priority] >= LEVELS[spec.priority]


def check_near(course: Course, plan: Plan) -> None:
    """Required closeness and distance hold at the moment a job is placed, those placed before it included."""
    jobs = {state.id: (state, spec) for state, spec in course.pairs()}
    for one in plan.placed:
        state, spec = jobs[one.job]
        for place in one.placements:
            record = judge.rooms_of(course.world)[place.node].record
            others = [pair for job, pair in jobs.items() if job != one.job]
            assert not judge.kept_off(course.world, state.tenant, spec.labels, record, others)
            for term in spec.job_affinity:
                assert not term.required or judge.near_holds(
                    course.world, term, state.tenant, spec.labels, record, others
                )
        jobs[one.job] = (replace(state, phase="RUNNING", placements=one.placements), spec)


def check_plan(course: Course, plan: Plan) -> None:
    for one in plan.placed:
        check_shape(course, one.job, one.placements)
        for place in one.placements:
            check_rank(course, one.job, one.alternative, place)
            check_allowed(course, one.job, place, one.alternative)
    for eviction in plan.evictions:
        check_shape(course, eviction.job, eviction.hold)
        for place in eviction.hold:
            check_rank(course, eviction.job, eviction.alternative, place)
    for one in plan.resized:
        check_shape(course, one.job, one.placements)
        for place in one.placements:
            check_rank(course, one.job, course.state(one.job).alternative, place)
    assert len({one.job for one in plan.placed}) == len(plan.placed)
    check_room(course, plan)
    check_counted(course, plan)
    check_near(course, plan)
    check_evictions(course, plan)
    if course.world.profile.backfill.strategy != "aggressive" and not plan.evictions:
        # Whoever evicts others goes before what is promised: the next plan promises anew.
        check_promises(course, plan)
    if not plan.more and course.world.profile.backfill.strategy == "greedy":
        check_left_out(course, plan)


def happen(course: Course, what: str, which: int) -> None:
    """One event, if there is anybody it can happen to."""
    names = [one.info.name for one in course.world.nodes]
    name = names[which % len(names)]
    if what == "end" and (running := course.running()):
        course.end(running[which % len(running)])
    elif what == "gone" and (gone := course.lingering()):
        course.release(gone[which % len(gone)])
    elif what in ("silent", "back"):
        course.set_ready(name, what == "back")
    elif what == "restart" and not any(place.node == name for places in course.in_use().values() for place in places):
        course.restart(name)


@settings(max_examples=examples(75))
@given(worlds(), st.lists(EVENTS, min_size=1, max_size=4))
def test_plans_are_sound_through_any_course_of_events(world: World, course_of: list[Any]) -> None:
    check_course(world, course_of)


@settings(max_examples=examples(75))
@given(crowded(), st.lists(EVENTS, min_size=2, max_size=6))
def test_plans_are_sound_where_there_is_little_room(world: World, course_of: list[Any]) -> None:
    check_course(world, course_of)


def check_course(world: World, course_of: list[Any]) -> None:
    later, world.waiting = world.waiting[len(world.waiting) // 2 :], world.waiting[: len(world.waiting) // 2]
    course = Course.of(world)
    for events in course_of:
        before = columns(course.cluster)
        plan = cycle_at(course.cluster, world.profile, course.now)
        note(f"{plan}")
        # Columns of kinds that nobody asked for before are new.
        assert before.items() <= columns(course.cluster).items()
        fresh = cycle_at(course.fresh(), world.profile, course.now)
        note(f"fresh: {fresh}")
        assert shown(fresh) == shown(plan)
        check_plan(course, plan)
        course.carry_out(plan)
        course.now += 100.0
        for what, which in events:
            happen(course, what, which)
        for state, spec in later[:3]:
            course.submit(state, spec)
        later = later[3:]
