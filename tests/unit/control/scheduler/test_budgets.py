"""Budgets: what jobs will cost by the server's estimate, what they did cost, and what counts until the month ends."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core.lifecycle.inputs import Cancel
from ares.core.quota.measures import month_of
from ares.core.refusal import Refusal
from ares.model.profile import Pool, Profile
from ares.model.state import BOUND, JobState
from tests.quotas import admitted, ask, give, quota, refused
from tests.world import ADMIN, ALICE, KEEP_S, World, spec

HOUR = 3600.0


async def price(world: World, **hour: float) -> None:
    """Of each GPU, by pool."""
    pools = {name: Pool(gpu_hour=gpu_hour) for name, gpu_hour in hour.items()}
    await world.one.profiles.put(ADMIN, Profile(pools=pools))
    await world.settle()


async def test_of_fifty_at_once_those_are_admitted_that_the_budget_pays_for() -> None:
    """N38: at 89 % of the budget, through two replicas."""
    async with World(replicas=2, scheduling=False) as world:
        await price(world, big=2.0)
        await give(world, quota(1.0, budget=100))
        before = await ask(world, 1, gpus=1, expected_runtime_s=44.5 * HOUR, tag="before")
        assert admitted(before) == 1
        answers = await ask(world, 50, gpus=1, expected_runtime_s=HOUR)
        # 89 + 5 x 2 = 99.
        assert admitted(answers) == 5
        for no in refused(answers):
            assert no.code == "budget-exceeded"
            tenant = no.levels[0]
            assert (tenant.measure, tenant.asked, tenant.used, tenant.limit, tenant.free) == (
                "budget", 2.0, 99.0, 100.0, 1.0,
            )  # fmt: skip
            # Room comes with the next month.
            now = datetime.fromtimestamp(world.clock.wall(), UTC)
            ahead = datetime.fromtimestamp(world.clock.wall() + (no.retry_after_s or 0.0), UTC)
            assert (ahead.day, ahead.hour, ahead.month != now.month) == (1, 0, True)


async def test_the_dearest_pool_that_the_job_may_go_to_counts() -> None:
    async with World(scheduling=False) as world:
        await price(world, cheap=1.0, dear=3.0)
        await give(world, quota(budget=6))
        assert admitted(await ask(world, 9, gpus=1, expected_runtime_s=HOUR)) == 2
        await give(world, quota(budget=12))
        assert admitted(await ask(world, 9, tag="b", gpus=1, expected_runtime_s=HOUR, selector={"pool": "cheap"})) == 6


async def test_arrays_and_gangs_cost_as_often_as_they_have_tasks_and_ranks() -> None:
    from ares.model.job import Gang

    async with World(scheduling=False) as world:
        await price(world, big=1.0)
        await give(world, quota(budget=10))
        assert admitted(await ask(world, 3, gpus=1, expected_runtime_s=HOUR, array="0-3")) == 2
        assert admitted(await ask(world, 3, tag="g", gpus=1, expected_runtime_s=HOUR, gang=Gang(ranks=2))) == 1
        await world.settle()
        assert world.one.quotas.usage("alpha").spent == pytest.approx(10.0)


async def test_what_a_job_did_cost_takes_the_place_of_its_estimate_when_it_ends() -> None:
    async with World(scheduling=False) as world:
        await price(world, default=2.0)
        await give(world, quota(budget=10))
        await world.agent("n1", gpus=1)
        job = await world.submit(gpus=1, expected_runtime_s=5 * HOUR)
        assert world.state(job).cost_estimate == pytest.approx(10.0)
        assert admitted(await ask(world, 1, gpus=1, expected_runtime_s=HOUR)) == 0
        await world.apply(job, Cancel(by="test"))
        assert world.one.quotas.usage("alpha").spent == 0.0
        assert admitted(await ask(world, 1, tag="b", gpus=1, expected_runtime_s=5 * HOUR)) == 1


def _ended(world: World, job: str, cost: float, gpu_s: float) -> JobState:
    from msgspec.structs import replace

    from ares.model.state import Spent

    state = world.state(job)
    return replace(
        state, phase="CANCELLED", ended_at=world.clock.wall(), gpu_s=gpu_s, spent=(Spent(cost=cost, gpu_s=gpu_s),)
    )


async def test_what_forgotten_jobs_cost_this_month_still_counts_and_next_month_nothing_does() -> None:
    async with World(scheduling=False) as world:
        await price(world, big=2.0)
        await give(world, quota(budget=10, gpu_hours=100))
        job = await world.submit(gpus=1, expected_runtime_s=HOUR)
        await world.settle()
        counts = world.one.quotas._counting.counts("alpha")  # pyright: ignore[reportPrivateUsage]
        state = _ended(world, job, cost=7.5, gpu_s=HOUR)
        counts.drop(job)
        counts.end(state)
        assert world.one.quotas.usage("alpha").spent == 7.5
        assert admitted(await ask(world, 1, tag="b", gpus=1, expected_runtime_s=2 * HOUR)) == 0
        # As retention does it: the job goes, what it used stays.
        (compare, put) = await world.one.retention._rolled_up(state, month_of(world.clock.wall()))  # pyright: ignore[reportPrivateUsage]
        assert compare.equals == 0
        await world.store.txn([compare], [put])
        counts.end(state, -1)
        await world.settle()
        assert world.one.quotas.usage("alpha").spent == 7.5
        assert world.one.quotas.usage("alpha", user="alice-token").gpu_hours == 1.0
        world.later(32 * 86_400.0)
        await world.advance(2.0)
        assert world.one.quotas.usage("alpha").spent == 0.0


async def test_retention_within_the_month_rolls_up_in_the_transaction_that_forgets() -> None:
    async with World(scheduling=False) as world:
        await give(world, quota(budget=10))
        job = await world.submit()
        await world.apply(job, Cancel(by="test"))
        await world.advance(2.0)
        retention = world.one.retention
        retention._keep_s = 1.0  # pyright: ignore[reportPrivateUsage]
        await retention.sweep()
        assert job not in world.audit.states
        (record,) = world.one.view.kept.spent.values()
        assert set(record.levels) == {"tenant", "user/alice-token"}
        world.later(KEEP_S + 2 * 86_400.0)
        await retention.sweep()
        assert world.one.view.kept.spent == {}


async def test_a_running_job_that_outlives_its_estimate_goes_on_costing() -> None:
    async with World() as world:
        await price(world, default=2.0)
        await give(world, quota(budget=100))
        agent = await world.agent("n1", gpus=1)
        job = await world.submit(gpus=1, expected_runtime_s=HOUR)
        await world.settle()
        agent.started(agent.starts[job])
        await world.settle()
        assert world.one.quotas.usage("alpha").spent == pytest.approx(2.0)
        world.later(2 * HOUR)
        await world.advance(2.0)
        assert world.one.quotas.usage("alpha").spent == pytest.approx(4.0, rel=0.01)


async def test_the_estimate_of_the_client_counts_for_nothing() -> None:
    """N39: a job that says it ends at once, and does not say how long it may run, is taken to run an hour."""
    async with World(scheduling=False) as world:
        await price(world, big=2.0)
        await give(world, quota(budget=3))
        (first,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(gpus=1))])
        assert isinstance(first, AcceptedJob)
        (second,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(gpus=1))])
        assert isinstance(second, Refusal)
        assert second.code == "budget-exceeded"


@pytest.mark.parametrize("over", ["warn", "stop"])
async def test_jobs_that_outlive_their_estimate_are_told_of_and_stopped_where_the_quota_says_so(over: str) -> None:
    """60 long jobs were admitted as short ones, and 90 were spent of a budget of 10."""
    async with World() as world:
        await price(world, default=2.0)
        await give(world, replace(quota(1.0, budget=6), over_budget=over))
        agent = await world.agent("n1", gpus=1)
        runs = await world.submit(gpus=1, expected_runtime_s=HOUR / 2)
        await world.advance(0.5)
        waits = await world.submit(gpus=1, expected_runtime_s=HOUR / 2)
        await world.until(lambda: world.state(runs).phase in BOUND)
        agent.started(agent.starts[runs])
        await world.settle()
        world.later(2 * HOUR)
        await world.advance(1)
        await world.one.budget_watch.look()
        kinds = {alert.kind for alert in world.one.view.kept.alerts.values()}
        assert ("budget-exceeded" in kinds) is False
        world.later(2 * HOUR)
        await world.advance(10)
        kinds = {alert.kind for alert in world.one.view.kept.alerts.values()}
        assert "budget-exceeded" in kinds
        ended = {world.state(job).phase for job in (runs, waits)}
        assert (ended == {"CANCELLED"}) is (over == "stop"), ended


@pytest.mark.parametrize("over", ["warn", "stop"])
async def test_what_the_budget_no_longer_pays_for_does_not_start_where_the_quota_says_so(over: str) -> None:
    """Both were admitted; the first outlived its estimate and ate what the second was to cost."""
    async with World() as world:
        await price(world, default=2.0)
        await give(world, replace(quota(1.0, budget=6), over_budget=over))
        agent = await world.agent("n1", gpus=1)
        long = await world.submit(gpus=1, expected_runtime_s=HOUR)
        await world.advance(0.5)
        waits = await world.submit(gpus=1, expected_runtime_s=HOUR)
        await world.until(lambda: world.state(long).phase in BOUND)
        agent.started(agent.starts[long])
        await world.settle()
        await world.one.budget_watch.look()
        # No look comes in between: the start itself is judged.
        world.one.budget_watch.look = _nothing  # pyright: ignore[reportAttributeAccessIssue]
        # 5 are spent, 2 would come.
        world.later(2.5 * HOUR)
        await world.advance(1)
        agent.exited(agent.starts[long])
        await world.until(lambda: world.state(waits).phase != "PENDING")
        ended = world.state(waits)
        assert (ended.phase == "CANCELLED") is (over == "stop"), ended
        if over == "stop":
            assert "of the tenant's budget of 6 are spent" in ended.reason
            assert waits not in agent.starts


async def _nothing() -> None:
    return


async def test_a_start_holds_its_estimate_against_the_next_one() -> None:
    """The budget was made smaller while both waited: it pays for one of them."""
    async with World(scheduling=False) as world:
        await price(world, default=2.0)
        await give(world, quota(budget=10))
        jobs = [await world.submit(gpus=1, expected_runtime_s=HOUR) for _ in range(3)]
        await give(world, replace(quota(budget=5), over_budget="stop"))
        states = [world.state(job) for job in jobs]
        assert list(world.one.budget_watch.unpaid(states)) == [jobs[2]]
        await give(world, quota(budget=5))
        assert world.one.budget_watch.unpaid(states) == {}, "the quota says warn"


@pytest.mark.parametrize(
    ("said", "cost"), [({"expected_runtime_s": 1.0}, 1.0), ({"expected_runtime_s": 1.0, "time_limit_s": 60}, 0.1)]
)
async def test_a_tiny_stated_time_that_nothing_ends_is_not_cheap(said: dict[str, Any], cost: float) -> None:
    async with World(scheduling=False) as world:
        await price(world, default=6.0)
        await give(world, quota(budget=10))
        job = await world.submit(gpus=1, **said)
        assert world.state(job).cost_estimate == pytest.approx(cost)
