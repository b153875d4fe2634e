"""What every place where plans are made must do, whichever it is."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from math import inf

import msgspec
import psutil
import pytest

from ares.adapters.clocks import SystemClock
from ares.adapters.planning.inline import InlinePlanning
from ares.adapters.planning.process import ProcessPlanning
from ares.control.planner.messages import JobNews, News, PlannerAnswer, PlannerRules, PlanRequest, Question
from ares.control.planner.mirror import Mirror
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.follower import follow
from ares.model.job import JobSpec, Resources
from ares.model.node import NodeInfo, NodeRecord
from ares.model.profile import Profile
from ares.model.state import JobState
from ares.ports.planning import PlannerLost, Planning
from tests.unit.core.world import cycle_at

NOW = 1_000_000.0
LONG_S = 60.0
SPEC = JobSpec(command=("true",), resources=Resources(cpu_milli=1000, memory_mib=256))
NODES = tuple(
    NodeRecord(info=NodeInfo(name=name, cpu_milli=2000, memory_mib=4096), incarnation=1, registered_at=NOW)
    for name in ("a", "b")
)
JOBS = tuple(
    JobState(id=f"job{n}", tenant="acme", name="x", submitted_by="u", queued_at=NOW - 10 + n) for n in range(6)
)


@dataclass
class Place:
    """Plans are made here, and the planner dies or hangs when it is told to."""

    planning: Planning
    die: Callable[[], None]
    hang: Callable[[], None]


@pytest.fixture(params=["inline", "process"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    if request.param == "process":
        child = ProcessPlanning((sys.executable, "-m", "ares.app.planner"))

        def send(number: int) -> None:
            assert child.pid is not None
            os.kill(child.pid, number)

        yield Place(child, lambda: send(signal.SIGKILL), lambda: send(signal.SIGSTOP))
        await child.close()
    else:
        moods: list[float] = []
        clock = SystemClock()
        inline = InlinePlanning(lambda: Mirror(clock.monotonic).handle, clock, lambda: moods.pop() if moods else 0.0)
        yield Place(inline, lambda: moods.append(-1.0), lambda: moods.append(inf))


def everything() -> News:
    raw = msgspec.json.encode(SPEC)
    return News(
        now=NOW, rules=PlannerRules(Profile()), nodes=NODES, ready={"a": True, "b": True},
        specs={state.id: raw for state in JOBS}, jobs=tuple(JobNews(state) for state in JOBS),
    )  # fmt: skip


async def ask(planning: Planning, question: Question, within_s: float = LONG_S) -> PlannerAnswer:
    raw = await planning.ask(msgspec.msgpack.encode(question), within_s)
    return msgspec.msgpack.decode(raw, type=PlannerAnswer)


async def test_a_plan_is_the_one_that_the_cycle_makes_of_the_same_records(place: Place) -> None:
    cluster = Cluster(Profile())
    for record in NODES:
        cluster.put_node(record)
        cluster.set_ready(record.info.name, True)
    for state in JOBS:
        follow(cluster, None, state, SPEC, NOW)
    await place.planning.open()
    answer = await ask(place.planning, Question(everything(), PlanRequest(NOW, LONG_S, keep=64)))
    assert answer.plan is not None
    assert answer.plan == cycle_at(cluster, cluster.profile, NOW, keep=64)
    assert len(answer.plan.placed) == 4, "two nodes with two CPUs each"
    assert answer.seqs == {one.job: 0 for one in answer.plan.placed}


async def test_news_adds_to_what_was_told(place: Place) -> None:
    await place.planning.open()
    await ask(place.planning, Question(everything()))
    gone = News(now=NOW, nodes_gone=("a",), jobs_gone=("job0",))
    answer = await ask(place.planning, Question(gone, PlanRequest(NOW, LONG_S)))
    assert answer.plan is not None
    assert [(one.job, one.placements[0].node) for one in answer.plan.placed] == [("job1", "b"), ("job2", "b")]


async def test_one_of_several_fills_its_own_nodes_first_and_proposes_its_part(place: Place) -> None:
    await place.planning.open()
    for whose, node in ((1, "b"), (0, "a")):
        rules = PlannerRules(Profile(max_placements_per_cycle=6), planner=whose, planners=2)
        told = msgspec.structs.replace(everything(), rules=rules, homes={"a": 0, "b": 1})
        answer = await ask(place.planning, Question(told, PlanRequest(NOW, LONG_S, keep=64)))
        assert answer.plan is not None
        # Two fit on a node; the third spills. Both planners together place as many at once as one would.
        nodes = [placed.placements[0].node for placed in answer.plan.placed]
        assert (nodes[:2], len(nodes)) == ([node, node], 3)
        assert set(nodes) == {"a", "b"}


async def test_jobs_that_wait_with_another_planner_are_not_placed(place: Place) -> None:
    await place.planning.open()
    jobs = tuple(JobNews(state, foreign=number % 2 == 1) for number, state in enumerate(JOBS))
    told = msgspec.structs.replace(everything(), jobs=jobs)
    answer = await ask(place.planning, Question(told, PlanRequest(NOW, LONG_S)))
    assert answer.plan is not None
    assert [placed.job for placed in answer.plan.placed] == ["job0", "job2", "job4"]


async def test_a_planner_that_died_is_lost_and_the_next_one_knows_nothing(place: Place) -> None:
    await place.planning.open()
    life = place.planning.life
    await ask(place.planning, Question(everything()))
    place.die()
    with pytest.raises(PlannerLost) as lost:
        await ask(place.planning, Question(News(now=NOW), PlanRequest(NOW, LONG_S)))
    assert not lost.value.late
    await place.planning.open()
    assert place.planning.life == life + 1
    answer = await ask(place.planning, Question(News(now=NOW), PlanRequest(NOW, LONG_S)))
    assert answer.plan is not None
    assert not answer.plan.placed


async def test_a_planner_that_hangs_is_ended(place: Place) -> None:
    await place.planning.open()
    life = place.planning.life
    place.hang()
    with pytest.raises(PlannerLost) as lost:
        await ask(place.planning, Question(News(now=NOW)), within_s=0.2)
    assert lost.value.late
    await place.planning.open()
    assert place.planning.life == life + 1
    assert (await ask(place.planning, Question(everything(), PlanRequest(NOW, LONG_S)))).plan is not None


async def test_an_answer_that_nobody_waits_for_is_nobody_elses(place: Place) -> None:
    await place.planning.open()
    place.hang()
    asking = asyncio.create_task(ask(place.planning, Question(everything(), PlanRequest(NOW, LONG_S))))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await place.planning.open()
    assert (await ask(place.planning, Question(everything()))).plan is None


async def test_the_process_ends_with_its_pipe() -> None:
    planning = ProcessPlanning((sys.executable, "-m", "ares.app.planner"))
    await planning.open()
    pid = planning.pid
    assert pid is not None
    await planning.close()
    assert not psutil.pid_exists(pid)
