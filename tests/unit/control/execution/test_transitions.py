"""Changes of a job's state: decided once, written once, whatever races or goes unanswered."""

import asyncio

import pytest

from ares.adapters.store.memory import StoreFault
from ares.control.execution.transitions import GuardFailed, JobChange, MissingJob, Outcome, Written
from ares.core import keys
from ares.core.lifecycle.inputs import Cancel, Exit, Input, LeaseLost, RankStarted, RetryNow
from ares.core.refusal import Refusal
from ares.model.state import ExitInfo, Fence
from ares.ports.store import Compare
from tests.world import World


def change(job: str, *inputs: Input, guards: tuple[Compare, ...] = ()) -> JobChange:
    return JobChange(job, "alpha", inputs, guards)


async def apply(world: World, *changes: JobChange) -> list[Outcome]:
    """On the second replica, with time enough for retries."""
    call = asyncio.create_task(world.two.transitions.apply(changes))
    await world.advance(3)
    return call.result()


async def test_two_writers_of_one_job_both_decide_and_one_writes() -> None:
    async with World(replicas=2) as world:
        _, job = await world.running()
        fence = world.state(job).fence
        world.faults(StoreFault("delayed", 0.2), StoreFault("delayed", 0.1))
        calls = [
            asyncio.create_task(replica.transitions.apply([change(job, what)]))
            for replica, what in zip(
                world.replicas, (Cancel(by="a"), Exit(fence=fence, exit=ExitInfo(code=0))), strict=True
            )
        ]
        await world.advance(1)
        (cancelled,), (exited,) = [call.result() for call in calls]
        assert isinstance(exited, Written)
        assert isinstance(cancelled, Refusal)
        assert cancelled.code == "terminal"
        assert world.state(job).phase == "SUCCEEDED"


@pytest.mark.parametrize(
    "faults",
    [
        [StoreFault("reply_lost")],
        [StoreFault("request_lost")],
        [StoreFault("late", 0.02)],
        # The first try lands while the second is on its way.
        [StoreFault("late", 0.1), StoreFault("delayed", 0.3)],
        [StoreFault("request_lost"), StoreFault("reply_lost"), StoreFault("request_lost")],
    ],
)
@pytest.mark.parametrize("size", [1, 3])
async def test_a_change_whose_answer_was_lost_happens_once_and_is_reported_as_done(
    faults: list[StoreFault], size: int
) -> None:
    async with World(replicas=2) as world:
        jobs = await world.submit_many(size)
        await world.settle()
        world.faults(*faults)
        outcomes = await apply(world, *(change(job, Cancel(by="a")) for job in jobs))
        assert [type(outcome) for outcome in outcomes] == [Written] * size
        assert all(world.kinds(job) == ["submitted", "cancelled"] for job in jobs)


async def test_one_loser_in_a_pack_costs_the_others_nothing() -> None:
    async with World(replicas=2) as world:
        jobs = await world.submit_many(5)
        await world.settle()
        world.two.wire.hold_watch()
        await world.one.transitions.apply([change(jobs[2], Cancel(by="first"))])
        wanted = [*(change(job, Cancel(by="second")) for job in jobs), change("nosuchjob0000000", Cancel(by="x"))]
        outcomes = await apply(world, *wanted)
        assert [type(o) for o in outcomes] == [Written, Written, Refusal, Written, Written, MissingJob]
        world.two.wire.release_watch()


async def test_a_guard_that_fell_decides_for_its_own_change_only() -> None:
    async with World(replicas=2) as world:
        jobs = await world.submit_many(2)
        await world.settle()
        gone = Compare(keys.lease("nowhere"), "mod_revision", 7)
        outcomes = await apply(world, change(jobs[0], Cancel(by="a"), guards=(gone,)), change(jobs[1], Cancel(by="a")))
        assert [type(outcome) for outcome in outcomes] == [GuardFailed, Written]
        assert world.state(jobs[0]).phase == "PENDING"


async def test_two_changes_of_one_job_in_one_call_take_effect_in_turn() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent()
        job = await world.submit()
        await world.settle()
        fence = agent.starts[job].ref.fence
        outcomes = await apply(
            world, change(job, RankStarted(fence=fence)), change(job, Exit(fence=fence, exit=ExitInfo(code=0)))
        )
        assert isinstance(outcomes[1], Written)
        assert world.state(job).phase == "SUCCEEDED"


async def test_fences_of_earlier_attempts_change_nothing() -> None:
    async with World(replicas=2) as world:
        agent, job = await world.running()
        old = agent.starts[job].ref.fence
        agent.exited(agent.starts[job], 1)
        await world.until(lambda: world.state(job).phase == "STAGING")
        new = world.state(job)
        ok = ExitInfo(code=0)
        stale: list[Input] = [RankStarted(fence=old), Exit(fence=old, exit=ok), LeaseLost(fence=old, reason="x")]
        stale.append(Exit(fence=Fence(epoch=new.fence.epoch + 1, counter=new.fence.counter), exit=ok))
        for what in stale:
            (outcome,) = await apply(world, change(job, what))
            assert isinstance(outcome, Refusal)
            assert outcome.code == "stale-fence"
        assert world.state(job) == new


async def test_a_no_is_read_from_the_store_and_not_from_a_view_that_lags() -> None:
    async with World(replicas=2) as world:
        agent, job = await world.running()
        world.two.wire.hold_watch()
        agent.exited(agent.starts[job], 1)
        await world.settle()
        assert world.state(job).phase == "RETRYING"
        (outcome,) = await apply(world, change(job, RetryNow(by="alice")))
        assert isinstance(outcome, Written)
        assert outcome.state.manual_retries == 1
        world.two.wire.release_watch()


async def test_a_job_learned_ahead_of_the_watch_keeps_its_place_in_lists() -> None:
    async with World(replicas=2) as world:
        world.two.wire.hold_watch()
        first, second = await world.submit(), await world.submit()
        await apply(world, change(first, Cancel(by="a")))
        world.two.wire.release_watch()
        await world.settle()
        assert world.two.view.order == world.one.view.order
        assert [job for _, job in world.two.view.order["alpha"]] == [first, second]
