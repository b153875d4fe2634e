"""Nothing that is computed for one caller, or taken in at once, keeps everybody else waiting: it comes in parts."""

import asyncio

import msgspec
import pytest

from ares.control.execution.transitions import JobChange, Written
from ares.control.planner.messages import News
from ares.control.scheduler.feed import AT_ONCE, Feed
from ares.control.scheduler.sharding import Sharding
from ares.control.state.pacing import PACE, TAKEN_IN, parts
from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core import keys
from ares.core.lifecycle.inputs import Cancel
from ares.model.job import JobSpec
from ares.model.node import NodeInfo, NodeRecord
from ares.ports.store import KV, Changes, Put, StoreChange
from tests.world import ALICE, World, spec

JOBS = 300


class Turns:
    """Counts how often others had their turn."""

    def __init__(self) -> None:
        self.count = 0

    async def rest(self) -> None:
        self.count += 1
        await asyncio.sleep(0)

    def taken(self) -> int:
        count, self.count = self.count, 0
        return count


@pytest.fixture
def turns() -> Turns:
    made = Turns()
    PACE.set(made)
    return made


def distinct(number: int, **more: float) -> JobSpec:
    return spec(cpu_milli=1 + number, expected_runtime_s=600.0 + number, **more)


async def waiting(world: World) -> list[str]:
    requests = [SubmitRequest(spec=distinct(number)) for number in range(JOBS)]
    outcomes = await world.one.submit.submit(ALICE, requests)
    await world.settle()
    return [outcome.job for outcome in outcomes if isinstance(outcome, AcceptedJob)]


async def test_answers_about_a_long_queue_let_others_have_their_turn(turns: Turns) -> None:
    async with World(scheduling=False) as world:
        await world.agent()
        jobs, one = await waiting(world), world.one
        assert len(jobs) == JOBS
        assert turns.taken() >= JOBS // 64, "many jobs are drafted a few at a time"
        assert await one.explain.job(ALICE, jobs[-1]) is not None
        assert turns.taken() >= 2
        assert (await one.explain.plan(ALICE, distinct(JOBS))).offers
        assert turns.taken() >= 2
        assert await one.pools.list(ALICE)
        assert turns.taken() >= JOBS // 64 + 2, "shapes, and kinds of jobs that wait"
        assert await one.jobs.get(ALICE, jobs[-1]) is not None
        assert turns.taken() >= 1
        soon = world.clock.wall() + 1.0
        dated = [distinct(number, deadline_at=soon) for number in range(20)]
        assert sum(found is not None for found in await one.deadlines.forecast(ALICE, dated, shown=True)) == 16
        assert turns.taken() >= 16, "each is a look of its own"


async def test_many_changes_at_once_are_decided_a_few_at_a_time(turns: Turns) -> None:
    async with World(scheduling=False) as world:
        jobs = await waiting(world)
        turns.taken()
        changes = [JobChange(job, ALICE.tenant, (Cancel(by="alice"),)) for job in jobs]
        outcomes = await world.one.transitions.apply(changes)
        assert all(isinstance(outcome, Written) for outcome in outcomes)
        assert turns.taken() >= (JOBS - 1) // 64


def test_a_batch_is_taken_in_by_parts_and_no_transaction_is_cut() -> None:
    changes = tuple(StoreChange(KV(f"k{number}", b"", 1, 1 + number // 25, 1)) for number in range(262))
    found = list(parts(Changes(20, changes)))
    assert [change for part in found for change in part.changes] == list(changes)
    assert [part.revision for part in found] == [3, 6, 9, 20]
    assert max(len(part.changes) for part in found) <= TAKEN_IN + 25
    whole = Changes(7, changes[:25])
    assert list(parts(whole)) == [whole]
    assert list(parts(Changes(9, ()))) == [Changes(9, ())]


async def test_the_planner_is_told_of_many_nodes_and_jobs_by_parts_and_of_nodes_first() -> None:
    async with World() as world:
        nodes = [f"n{number:04}" for number in range(AT_ONCE * 2 + 1)]
        for name in nodes:
            info = NodeInfo(name=name, cpu_milli=1000, memory_mib=64)
            record = NodeRecord(info=info, incarnation=1, registered_at=1.0)
            await world.store.txn([], [Put(keys.node(name), msgspec.json.encode(record))])
        jobs = await waiting(world)
        view, planner = world.one.view, world.one.planner
        feed = Feed(view, planner, world.clock.wall, Sharding(1, view, planner), 0, {})
        told: list[News] = []
        while feed.more or not told:
            told.append(feed.take())
        told.append(feed.take())
        assert [len(news.nodes) for news in told] == [AT_ONCE, AT_ONCE, 1, 0]
        assert [len(news.jobs) for news in told] == [0, 0, AT_ONCE, len(jobs) - AT_ONCE]
        assert [bool(news.used) for news in told][:-1] == [False] * 3
        assert told[-1].used is not None
        assert told[-1].promises is not None
