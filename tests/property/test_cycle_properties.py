"""Any cluster and any queue: what a plan may never do, judged by a slow checker of its own."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from ares.core.queue.order import LEVELS
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.schedule.plan import Plan
from ares.core.schedule.profile import Profile
from ares.model.job import PRIORITIES, JobSpec, Resources
from ares.model.node import Gpu, NodeInfo, NodeRecord
from ares.model.state import JobState, Placement

MODELS = ["NVIDIA A100", "AMD MI300X"]


class World(NamedTuple):
    nodes: list[NodeRecord]
    ready: set[str]
    held: dict[str, Placement]
    jobs: list[tuple[JobState, JobSpec]]


class Room(NamedTuple):
    """What is left of one node, the simple way."""

    cpu: int
    memory: int
    gpus: dict[int, str]


SPECS = st.builds(
    JobSpec,
    command=st.just(("true",)),
    resources=st.builds(
        Resources,
        cpu_milli=st.sampled_from([1, 500, 1000, 4000, 9000]),
        memory_mib=st.sampled_from([1, 300, 1000]),
        gpus=st.integers(0, 3),
        gpu_model=st.sampled_from([None, None, "A100", "MI300X", "H100"]),
    ),
    priority=st.sampled_from(PRIORITIES),
    selector=st.sampled_from([{}, {}, {"zone": "1"}, {"zone": "2", "disk": "ssd"}]),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    nodes: list[NodeRecord] = []
    held: dict[str, Placement] = {}
    for n in range(draw(st.integers(0, 5))):
        models = draw(st.lists(st.sampled_from(MODELS), max_size=4))
        gpus = tuple(Gpu(index=i, uuid=f"{n}.{i}", model=model, memory_mib=1) for i, model in enumerate(models))
        labels = draw(st.sampled_from([{}, {"zone": "1"}, {"zone": "2"}, {"zone": "2", "disk": "ssd"}]))
        cpu, memory = draw(st.integers(1, 9)) * 1000, draw(st.integers(1, 4)) * 500
        info = NodeInfo(name=f"n{n}", cpu_milli=cpu, memory_mib=memory, gpus=gpus, labels=labels)
        nodes.append(NodeRecord(info=info, incarnation=n + 1, registered_at=0.0, cordoned=draw(st.integers(0, 5)) == 0))
        if draw(st.booleans()):
            some = draw(st.sets(st.integers(0, 3), max_size=2))
            held[f"h{n}"] = Placement(
                node=f"n{n}", incarnation=1, cpu_milli=draw(st.integers(0, 3)) * 700, memory_mib=10,
                gpus=tuple(sorted(some)),
            )  # fmt: skip
    ready = {one.info.name for one in nodes if draw(st.integers(0, 4)) > 0}
    specs = draw(st.lists(SPECS, min_size=1, max_size=4))
    jobs = [
        (JobState(id=f"j{n:02d}", tenant="t", name="x", submitted_at=draw(st.integers(0, 9))), spec)
        for n, spec in enumerate(draw(st.lists(st.sampled_from(specs), max_size=24)))
    ]
    return World(nodes, ready, held, jobs)


def _cluster(world: World) -> Cluster:
    made = Cluster()
    for one in world.nodes:
        made.put_node(one)
    for name in world.ready:
        made.set_ready(name, True)
    for job, place in world.held.items():
        made.hold(job, (place,))
    for state, spec in world.jobs:
        made.enqueue(state, spec)
    return made


def _rooms(world: World) -> dict[str, Room]:
    rooms: dict[str, Room] = {}
    for one in world.nodes:
        info, mine = one.info, [place for place in world.held.values() if place.node == one.info.name]
        taken = {gpu for place in mine for gpu in place.gpus}
        rooms[info.name] = Room(
            info.cpu_milli - sum(place.cpu_milli for place in mine),
            info.memory_mib - sum(place.memory_mib for place in mine),
            {gpu.index: gpu.model for gpu in info.gpus if gpu.index not in taken},
        )
    return rooms


def _allowed(world: World, spec: JobSpec) -> list[NodeRecord]:
    """Nodes the job may use at all, whatever is free on them."""
    return [
        one for one in world.nodes
        if one.info.name in world.ready and not one.cordoned
        and all(one.info.labels.get(key) == value for key, value in spec.selector.items())
    ]  # fmt: skip


def _usable(room: Room, spec: JobSpec) -> list[int]:
    return [i for i, model in room.gpus.items() if (spec.resources.gpu_model or "") in model]


def _fits(room: Room, spec: JobSpec) -> bool:
    wants = spec.resources
    return room.cpu >= wants.cpu_milli and room.memory >= wants.memory_mib and len(_usable(room, spec)) >= wants.gpus


def _apply(world: World, plan: Plan) -> dict[str, Room]:
    """Plays the plan job by job; fails at the first placement that has no room or no right."""
    rooms, specs = _rooms(world), {state.id: spec for state, spec in world.jobs}
    incarnations = {one.info.name: one.incarnation for one in world.nodes}
    assert len({one.job for one in plan.placed}) == len(plan.placed)
    for one in plan.placed:
        (place,), spec = one.placements, specs[one.job]
        room = rooms[place.node]
        assert place.node in {node.info.name for node in _allowed(world, spec)}
        assert place.incarnation == incarnations[place.node]
        assert (place.cpu_milli, place.memory_mib) == (spec.resources.cpu_milli, spec.resources.memory_mib)
        assert _fits(room, spec)
        assert list(place.gpus) == sorted(_usable(room, spec))[: spec.resources.gpus]
        rooms[place.node] = Room(
            room.cpu - place.cpu_milli, room.memory - place.memory_mib,
            {i: model for i, model in room.gpus.items() if i not in place.gpus},
        )  # fmt: skip
    return rooms


def _key(state: JobState, spec: JobSpec) -> tuple[int, float, str]:
    return (LEVELS[spec.priority], state.submitted_at, state.id)


@settings(max_examples=300)
@given(worlds(), st.integers(1, 30))
def test_a_plan_is_sound_complete_and_in_order(world: World, limit: int) -> None:
    made, profile = _cluster(world), Profile(max_placements_per_cycle=limit)
    snapshot = made.snapshot()
    plan = cycle(snapshot, profile, 5.0)
    rooms = _apply(world, plan)
    placed = {one.job for one in plan.placed}
    waiting = [(state, spec) for state, spec in world.jobs if state.id not in placed]

    assert cycle(snapshot, profile, 5.0) == plan
    assert len(placed) <= limit
    keys = {state.id: _key(state, spec) for state, spec in world.jobs}
    assert [keys[one.job] for one in plan.placed] == sorted(keys[one.job] for one in plan.placed)
    # A class left out has its jobs counted, and truly fits nowhere.
    by_class = {one.class_id: one for one in plan.left}
    counts: dict[int | None, list[str]] = {}
    for state, spec in sorted(waiting, key=lambda job: keys[job[0].id]):
        counts.setdefault(made.class_of(state.id), []).append(state.id)
        if made.class_of(state.id) in by_class:
            assert not any(_fits(rooms[node.info.name], spec) for node in _allowed(world, spec))
    for class_id, one in by_class.items():
        assert (one.jobs, one.first_job) == (len(counts[class_id]), counts[class_id][0])
    # Nobody is forgotten: whoever is neither placed nor given a reason waits for the next cycle, and it is said.
    assert plan.more == (set(counts) > set(by_class))
    assert not plan.more or len(placed) == limit


@settings(max_examples=200)
@given(worlds())
def test_a_reason_is_true(world: World) -> None:
    made = _cluster(world)
    plan = cycle(made.snapshot(), Profile(), 0.0)
    specs = {state.id: spec for state, spec in world.jobs}
    for left in plan.left:
        spec, reason = specs[left.first_job], left.reason
        empty = [
            Room(one.info.cpu_milli, one.info.memory_mib, {gpu.index: gpu.model for gpu in one.info.gpus})
            for one in world.nodes
            if all(one.info.labels.get(key) == value for key, value in spec.selector.items())
        ]
        possible = any(_fits(room, spec) for room in empty)
        assert (reason.remedy in {"wait", "operator"}) == (possible or not world.nodes)
        assert (reason.code == "NO_NODES") == (not world.nodes)
        assert (reason.code == "SELECTOR_MISMATCH") == (bool(world.nodes) and not empty)
        if possible:
            assert (reason.code == "NO_READY_NODES") == (not _allowed(world, spec))
        if "asked" in reason.numbers:
            assert reason.numbers["free"] < reason.numbers["asked"]


@settings(max_examples=100)
@given(worlds(), st.randoms(use_true_random=False))
def test_the_picture_does_not_depend_on_the_order_of_news(world: World, chance: random.Random) -> None:
    """Holds, readiness and jobs in any order, repeated and taken back, end in the same plan."""
    straight, mixed = _cluster(world), Cluster()
    news: list[tuple[Callable[..., None], tuple[Any, ...]]]
    news = [(mixed.hold, (job, (place,))) for job, place in world.held.items()]
    news += [(mixed.set_ready, (name, True)) for name in world.ready]
    news += [(mixed.enqueue, job) for job in world.jobs]
    news = news + news
    chance.shuffle(news)
    for number, (act, arguments) in enumerate(news):
        if number == len(news) // 2:
            for one in world.nodes:
                mixed.put_node(one)
        act(*arguments)
    if not news:
        for one in world.nodes:
            mixed.put_node(one)
    for job, place in world.held.items():
        mixed.release(job)
        mixed.hold(job, (place,))
    for state, spec in world.jobs[::2]:
        mixed.dequeue(state.id)
        mixed.enqueue(state, spec)
    assert cycle(mixed.snapshot(), Profile(), 0.0).placed == cycle(straight.snapshot(), Profile(), 0.0).placed
    assert [mixed.position(state.id) for state, _ in world.jobs] == [straight.position(s.id) for s, _ in world.jobs]
    assert [mixed.free(one.info.name) for one in world.nodes] == [straight.free(one.info.name) for one in world.nodes]
