"""Admission within quotas, through replicas with views of their own."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ares.adapters.store.memory import StoreFault
from ares.control.execution.transitions import JobChange
from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core import keys
from ares.core.lifecycle.inputs import Cancel
from ares.core.quota.counts import TENANT
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.quota import Limit, Limits, Quota
from ares.ports.store import Page
from tests.quotas import Ceiling, admitted, ask, give, limits, quota, refused
from tests.world import ALICE, BOB, World, spec

ANNA = Principal(token_id="t1", tenant="alpha", role="submitter", user="anna")
BEN = Principal(token_id="t2", tenant="alpha", role="submitter", user="ben")
OPERATOR = Principal(token_id="op", tenant="alpha", role="admin")


@pytest.mark.parametrize(("threshold", "fits"), [(1.0, 11), (0.99, 9), (0.9, 0)])
async def test_of_fifty_at_once_through_two_replicas_those_that_fit_are_admitted(threshold: float, fits: int) -> None:
    """N38: at 89 % of a limit."""
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(threshold, cpu=100))
        await give_before(world, 89)
        ceiling = Ceiling(world)
        answers = await ask(world, 50)
        assert admitted(answers) == fits
        assert ceiling.most == fits
        for no in refused(answers):
            assert no.code == "quota-exceeded"
            (tenant, user) = no.levels
            assert (tenant.level, tenant.measure, tenant.asked, tenant.limit) == ("tenant", "cpu", 1.0, 100.0)
            assert (user.level, user.name, user.used, user.limit, user.free) == (
                "user", "alice-token", 89.0 + fits, None, None,
            )  # fmt: skip
            assert tenant.used == 89.0 + fits
            assert tenant.exceeded
            assert tenant.free is not None
            assert tenant.free < 1.0
            assert no.retry_after_s is not None


async def give_before(world: World, count: int) -> None:
    """Jobs that are there already, whatever the threshold says of them."""
    others = Principal(token_id="alice-token", tenant="alpha", role="submitter")
    answers = await world.one.submit.submit(others, [SubmitRequest(spec=spec())] * count)
    missing = count - admitted(answers)
    assert missing == 0, refused(answers)[:1]
    await world.settle()


async def test_whole_arrays_fit_or_not_from_the_moment_they_are_there() -> None:
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(jobs=30))
        ceiling = Ceiling(world)
        answers = await ask(world, 50, array="0-3")
        await world.settle()
        assert admitted(answers) == 7
        assert ceiling.most == ceiling.now == 28
        assert admitted(await ask(world, 5, tag="single")) == 2


async def test_a_team_and_a_user_have_limits_of_their_own() -> None:
    async with World(replicas=2, scheduling=False) as world:
        users = {"anna": limits(cpu=4)}
        await give(world, replace(quota(cpu=20), users=users, user_default=limits(cpu=9), teams={"a": limits(cpu=6)}))
        mixed = await ask(world, 40, (ANNA, BEN), team="a")
        assert admitted(mixed) == 6
        assert world.one.quotas.usage("alpha", team="a").cores == 6.0
        answers = await ask(world, 40, (ANNA, BEN), tag="b", team="b")
        await world.settle()
        assert world.one.quotas.usage("alpha", user="anna").cores == 4.0
        assert world.one.quotas.usage("alpha", user="ben").cores == 9.0
        levels = {(one.level, one.name) for no in refused(answers) for one in no.levels if one.exceeded}
        assert levels == {("user", "anna"), ("user", "ben")}


@pytest.mark.parametrize(
    ("limit", "job", "fits"),
    [
        ({"gpus": 10}, {"gpus": 3}, 3),
        ({"gpus": 1}, {"gpus": 1, "gpu_milli": 250}, 4),
        ({"memory": 1}, {"memory_mib": 100}, 10),
        ({"jobs_queued": 7}, {}, 7),
        ({"gpu_hours": 6}, {"gpus": 2, "expected_runtime_s": 1800.0}, 6),
        # Nobody knows how long it runs: an hour.
        ({"gpu_hours": 6}, {"gpus": 2}, 3),
    ],
)
async def test_every_measure_holds(limit: dict[str, float], job: dict[str, Any], fits: int) -> None:
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(**limit))
        assert admitted(await ask(world, 20, **job)) == fits


async def test_what_ends_makes_room_and_nobody_is_ever_above_the_limit() -> None:
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(cpu=5))
        ceiling = Ceiling(world)
        for trial in range(4):
            answers = await ask(world, 20, tag=f"{trial}-")
            jobs = [one.job for one in answers if isinstance(one, AcceptedJob)]
            assert len(jobs) == 5
            await world.settle()
            ends = [[JobChange(job, "alpha", (Cancel(by="test"),))] for job in jobs]
            await asyncio.gather(
                *(world.replicas[n % 2].transitions.apply(end) for n, end in enumerate(ends)),
                ask(world, 3, tag=f"{trial}-meanwhile-"),
            )
            await world.settle()
            for job, state in list(world.audit.states.items()):
                if state.phase == "PENDING":
                    await world.apply(job, Cancel(by="test"))
        assert ceiling.most == 5


async def test_a_replica_that_does_not_see_what_others_admit_admits_nothing_by_it() -> None:
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(cpu=3))
        world.two.wire.hold_watch()
        assert (
            admitted([(await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec())]))[0] for _ in range(3)]) == 3
        )
        call = asyncio.create_task(world.two.submit.submit(ALICE, [SubmitRequest(spec=spec())]))
        await world.settle()
        assert not call.done()
        world.two.wire.release_watch()
        (answer,) = await call
        assert isinstance(answer, Refusal)
        assert answer.levels[0].used == 3.0


async def test_what_a_replica_admitted_counts_before_its_view_shows_it() -> None:
    async with World(scheduling=False) as world:
        await give(world, quota(cpu=3))
        world.one.wire.hold_watch()
        answers = [(await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec())]))[0] for _ in range(3)]
        assert admitted(answers) == 3
        call = asyncio.create_task(world.one.submit.submit(ALICE, [SubmitRequest(spec=spec())]))
        await world.settle()
        # It would refuse by what it knows, and looks first whether that is still so.
        assert not call.done()
        world.one.wire.release_watch()
        assert isinstance((await call)[0], Refusal)
        assert len(world.audit.states) == 3


async def test_a_quota_that_came_a_moment_ago_holds_for_who_has_not_seen_it() -> None:
    async with World(replicas=2, scheduling=False) as world:
        world.two.wire.hold_watch()
        await give(world, quota(cpu=2))
        calls = [asyncio.create_task(world.two.submit.submit(ALICE, [SubmitRequest(spec=spec())] * 3))]
        await world.settle()
        world.two.wire.release_watch()
        assert admitted(await calls[0]) == 2
        assert len(world.audit.states) == 2


async def test_repeats_are_known_when_nothing_fits_any_more() -> None:
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(cpu=2))
        first = await ask(world, 2)
        again = await ask(world, 2)
        assert [one.job for one in again if isinstance(one, AcceptedJob)] == [
            one.job for one in first if isinstance(one, AcceptedJob)
        ]
        assert all(isinstance(one, AcceptedJob) and one.replayed for one in again)
        (other,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(name="other"), request_id="0")])
        assert isinstance(other, Refusal)
        assert other.code == "request-conflict"


async def test_one_request_sent_twice_at_once_makes_one_job() -> None:
    async with World(scheduling=False) as world:
        await give(world, quota(cpu=10))
        request = SubmitRequest(spec=spec(), request_id="same")
        answers = await asyncio.gather(*(world.one.submit.submit(ALICE, [request]) for _ in range(6)))
        assert len({one.job for (one,) in answers if isinstance(one, AcceptedJob)}) == 1
        assert len(world.audit.states) == 1


@pytest.mark.parametrize("kind", ["reply_lost", "request_lost", "refused", "late"])
@pytest.mark.parametrize("request_id", ["r", ""])
async def test_an_unknown_outcome_neither_doubles_nor_loses_nor_exceeds(kind: Any, request_id: str) -> None:
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(cpu=4))
        world.faults(StoreFault(kind, 0.05 if kind == "late" else 0.0))
        wanted = [SubmitRequest(spec=spec(), request_id=(request_id and f"r{n}") or None) for n in range(6)]
        call = asyncio.create_task(world.one.submit.submit(ALICE, wanted))
        await world.advance(2)
        answers = call.result()
        jobs = {one.job for one in answers if isinstance(one, AcceptedJob) and not one.replayed}
        assert len(jobs) == 4
        assert jobs == set(world.audit.states)
        assert admitted(await ask(world, 3, tag="more")) == 0


async def test_a_caller_that_leaves_does_not_hold_up_those_who_wait_behind_it() -> None:
    async with World(scheduling=False) as world:
        await give(world, quota(cpu=10))
        world.faults(StoreFault("delayed", 5.0))
        leaves = asyncio.create_task(world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(), request_id="a")]))
        await world.settle()
        stays = asyncio.create_task(world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(), request_id="b")]))
        await world.settle()
        leaves.cancel()
        await world.advance(1)
        assert isinstance(stays.result()[0], AcceptedJob)


async def test_other_tenants_are_not_held_up_by_a_tenant_whose_transaction_takes_long() -> None:
    async with World(scheduling=False) as world:
        await give(world, quota(cpu=10))
        await give(world, quota(cpu=10), "beta")
        world.faults(StoreFault("delayed", 5.0))
        slow = asyncio.create_task(world.one.submit.submit(ALICE, [SubmitRequest(spec=spec())]))
        await world.settle()
        assert admitted(await ask(world, 3, BOB)) == 3
        assert not slow.done()
        await world.advance(6)
        assert admitted(slow.result()) == 1


async def test_a_priority_above_the_ceiling_is_for_operators() -> None:
    """N40."""
    async with World(scheduling=False) as world:
        await give(world, Quota(own=Limits(priority="HIGH"), users={"anna": Limits(priority="LOW")}))
        (no,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(priority="CRITICAL"))])
        assert isinstance(no, Refusal)
        assert no.code == "priority-ceiling"
        assert no.retry_after_s is None
        (lower,) = await world.one.submit.submit(ANNA, [SubmitRequest(spec=spec(priority="NORMAL"))])
        assert isinstance(lower, Refusal)
        assert "LOW" in lower.message
        assert admitted(await ask(world, 1, priority="HIGH")) == 1
        assert admitted(await ask(world, 1, OPERATOR, tag="op", priority="CRITICAL")) == 1


async def test_beyond_a_soft_limit_jobs_are_taken_with_a_warning_and_an_alert() -> None:
    async with World(scheduling=False) as world:
        await give(world, Quota(own=Limits(amounts={"cpu": Limit(soft=2, hard=4)}), threshold=1.0))
        assert [one.soft_limits for one in await ask(world, 2) if isinstance(one, AcceptedJob)] == [(), ()]
        (third,) = await ask(world, 1, tag="third")
        assert isinstance(third, AcceptedJob)
        assert "soft limit of 2 cores" in third.soft_limits[0]
        await world.settle()
        assert [one.kind for one in world.one.view.kept.alerts.values()] == ["quota-soft"]


async def test_what_can_never_fit_is_not_asked_to_wait() -> None:
    async with World(scheduling=False) as world:
        await give(world, quota(gpus=4))
        (no,) = await ask(world, 1, gpus=5)
        assert isinstance(no, Refusal)
        assert (no.code, no.retry_after_s) == ("quota-too-small", None)


async def test_a_wrong_count_is_found_told_and_made_right_and_until_then_admission_is_careful() -> None:
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(cpu=10))
        await give_before(world, 4)
        assert await world.one.recount.look("alpha") == 0.0
        counting = world.one.quotas._counting  # pyright: ignore[reportPrivateUsage]
        # A count that forgot two of four jobs would admit too much.
        counting.counts("alpha").sums[TENANT]["cpu"] = 2000
        assert await world.one.recount.look("alpha") == pytest.approx(0.5)
        assert counting.counts("alpha").sums[TENANT]["cpu"] == 4000
        await world.settle()
        assert "quota-drift" in {one.kind for one in world.one.view.kept.alerts.values()}
        # Careful: nine of ten are the limit now, and that is reached at the ninth.
        answers = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec())] * 6)
        assert admitted(answers) == 4
        await world.settle()
        assert await world.one.recount.look("alpha") == 0.0
        assert admitted(await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec())] * 6)) == 2


async def test_without_a_quota_nothing_is_limited_and_taking_one_away_ends_it() -> None:
    async with World(scheduling=False) as world:
        assert admitted(await ask(world, 30)) == 30
        await give(world, quota(cpu=31))
        assert admitted(await ask(world, 5, tag="b")) == 1
        assert await world.one.quotas.remove("alpha")
        assert admitted(await ask(world, 5, tag="c")) == 5


@pytest.mark.parametrize("kind", ["reply_lost", "request_lost", "refused", "late", "delayed"])
@pytest.mark.parametrize("nth", [1, 2, 4])
async def test_of_transactions_that_follow_each_other_any_may_be_lost(kind: Any, nth: int) -> None:
    """A large batch is several transactions under way at once: what fits is admitted, whichever of them fails."""
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(cpu=150))
        ceiling = Ceiling(world)
        world.faults(*[None] * nth, StoreFault(kind, 0.3 if kind in ("late", "delayed") else 0.0))
        call = asyncio.create_task(world.one.submit.submit(ALICE, [SubmitRequest(spec=spec())] * 200))
        others = asyncio.create_task(ask(world, 10, tag="others")) if nth == 2 else None
        await world.advance(5)
        jobs = {one.job for one in call.result() if isinstance(one, AcceptedJob)}
        more = (
            {one.job for one in others.result() if isinstance(one, AcceptedJob)} if others is not None else set[str]()
        )
        assert len(jobs | more) == 150
        assert jobs | more == set(world.audit.states)
        assert ceiling.most == 150


async def test_a_limit_that_was_lowered_a_moment_ago_holds_for_who_has_not_seen_it() -> None:
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(cpu=5))
        world.two.wire.hold_watch()
        await give(world, quota(cpu=1))
        call = asyncio.create_task(world.two.submit.submit(ALICE, [SubmitRequest(spec=spec())] * 3))
        await world.settle()
        world.two.wire.release_watch()
        assert admitted(await call) == 1
        assert len(world.audit.states) == 1


async def test_an_admission_that_a_listing_knows_of_and_whose_job_it_does_not_is_waited_for() -> None:
    """The kinds of keys are listed one after the other: what comes in between is in some of the pages only."""
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(cpu=1))
        wire, listed = world.two.wire, world.two.wire.range

        async def list_late(prefix: str, **options: Any) -> Page:
            if prefix == keys.ADMISSIONS:
                assert admitted(await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec())])) == 1
                wire.hold_watch()
            return await listed(prefix, **options)

        wire.range = list_late  # type: ignore[method-assign]
        wire.break_watch()
        await world.submit(who=BOB)
        await world.until(lambda: "alpha" in world.two.view.kept.admissions)
        assert not world.two.view.live.get("alpha")
        call = asyncio.create_task(world.two.submit.submit(ALICE, [SubmitRequest(spec=spec())]))
        await world.settle()
        assert not call.done()
        wire.release_watch()
        assert admitted(await call) == 0
