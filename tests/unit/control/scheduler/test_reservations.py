"""Reservations in a control plane: booked once, used by those they are for, given up, and out of the way in the end."""

import asyncio
from typing import Any

import pytest
from msgspec.json import decode

from ares.adapters.store.memory import StoreFault
from ares.api.reservations import ReservationView
from ares.control.scheduler.reservation_windows import Windows
from ares.control.scheduler.reservations import ReservationWish
from ares.control.submit.submit import SubmitRequest
from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job import Preemption
from ares.model.reservation import Reservation, RoomAsked
from tests.agents import ScriptedAgent
from tests.world import ADMIN, ALICE, BOB, World, spec

# Short: every second of a World costs something.
LONG = 300.0


def wish(**changes: Any) -> ReservationWish:
    """Two GPUs for alpha, for five minutes from now on."""
    usual: dict[str, Any] = {"asked": RoomAsked(gpus=2), "length_s": LONG, "tenant": "alpha", "name": "demo"}
    return ReservationWish(**usual | changes)


async def reserve(world: World, **changes: Any) -> ReservationView:
    made = await world.one.reservations.reserve(ADMIN, wish(**changes))
    assert isinstance(made, ReservationView), made
    await world.settle()
    return made


async def refused(world: World, **changes: Any) -> Refusal:
    made = await world.one.reservations.reserve(ADMIN, wish(**changes))
    assert isinstance(made, Refusal), made
    return made


def record(world: World, name: str = "demo") -> Reservation:
    return world.one.view.reservations[name][0]


def start(agent: ScriptedAgent, job: str) -> None:
    agent.started(agent.starts[job])


# ---- booking


async def test_of_two_bookings_through_two_replicas_one_looks_again() -> None:
    async with World(replicas=2) as world:
        await world.agent("n1", gpus=3)
        world.faults(StoreFault("delayed", 1.0))
        slow = asyncio.create_task(world.one.reservations.reserve(ADMIN, wish(name="ours")))
        await world.settle()
        fast = await world.two.reservations.reserve(ADMIN, wish(name="theirs"))
        await world.advance(2)
        lost = await slow
        assert isinstance(fast, ReservationView)
        assert isinstance(lost, Refusal)
        assert lost.code == "reservation-no-room"
        assert "of 2 GPUs 1 can be had" in lost.message


async def test_a_booking_whose_answer_got_lost_is_made_once() -> None:
    async with World() as world:
        await world.agent("n1", gpus=4)
        world.faults("reply_lost")
        made = await reserve(world)
        assert (made.name, made.gpus) == ("demo", 2)
        assert list(world.one.view.reservations) == ["demo"]


async def test_a_name_is_taken_until_it_is_over_and_the_tenant_must_be_known() -> None:
    async with World() as world:
        await world.agent("n1", gpus=4)
        await reserve(world)
        assert (await refused(world)).code == "reservation-conflict"
        stranger = await refused(world, name="x", tenant="nobody")
        assert (stranger.code, stranger.message) == ("reservation-invalid", "nobody has heard of tenant 'nobody'")
        assert isinstance(await world.one.reservations.cancel(ADMIN, "demo", "not now"), ReservationView)
        again = await reserve(world)
        assert [turn.state for turn in again.history] == ["planned"]


async def test_a_moment_that_has_just_passed_is_now() -> None:
    async with World() as world:
        await world.agent("n1", gpus=4)
        now = world.clock.wall()
        assert (await reserve(world, start=now - 59)).start == now
        assert "it would begin 1 min 1 s ago" in (await refused(world, name="x", start=now - 61)).message


async def test_other_tenants_see_that_there_is_one_and_no_more() -> None:
    async with World() as world:
        await world.agent("n1", gpus=4)
        made = await reserve(world, teams=("vision",), users=("ci",), note="secret")
        (seen,) = await world.one.reservations.list(BOB)
        assert (seen.gpus, seen.start, seen.placements) == (2, made.start, made.placements)
        assert (seen.name, seen.tenant, seen.note, seen.teams, seen.users, seen.history) == ("", "", "", (), (), ())
        assert isinstance(await world.one.reservations.get(BOB, "demo"), Refusal)
        (mine,) = await world.one.reservations.list(ALICE)
        assert (mine.name, mine.note) == ("demo", "secret")


async def test_it_lasts_longer_if_nobody_comes_after() -> None:
    async with World() as world:
        await world.agent("n1", gpus=2)
        made = await reserve(world)
        later = await reserve(world, name="later", start=made.until + LONG)
        longer = await world.one.reservations.extend(ADMIN, "demo", LONG)
        assert isinstance(longer, ReservationView)
        assert longer.until == later.start
        no = await world.one.reservations.extend(ADMIN, "demo", 1.0)
        assert isinstance(no, Refusal)
        assert no.code == "reservation-no-room"
        none = await world.one.reservations.extend(ADMIN, "nothing", 1.0)
        assert isinstance(none, Refusal)
        assert none.code == "not-found"


# ---- jobs in it

OTHERS = "reservation-not-yours"


@pytest.mark.parametrize(
    ("changes", "who", "code"),
    [
        ({"reservation": "nothing"}, ALICE, "reservation-unknown"),
        ({"reservation": "demo"}, BOB, "reservation-unknown"),
        ({"reservation": "demo", "gpus": 3}, ALICE, "reservation-too-small"),
        ({"reservation": "demo", "time_limit_s": LONG + 1}, ALICE, "reservation-too-short"),
        ({"reservation": "demo", "preemption": Preemption(allowed=False)}, ALICE, "reservation-too-short"),
        ({"reservation": "team"}, ALICE, "reservation-not-yours"),
        ({"reservation": "team", "team": "vision"}, ALICE, None),
        ({"reservation": "team"}, Principal(token_id="x", tenant="alpha", role="submitter", user="ci"), None),
        # Tokens may be called anything, also like a user; and a user of another tenant is somebody else.
        ({"reservation": "team"}, Principal(token_id="x", tenant="alpha", role="submitter", name="ci"), OTHERS),
        ({"reservation": "team"}, Principal(token_id="x", tenant="alpha", role="admin", user="ci", home="ops"), OTHERS),
        ({"reservation": "demo", "preemption": Preemption(allowed=False), "time_limit_s": LONG}, ALICE, None),
        ({"reservation": "gone"}, ALICE, "reservation-over"),
    ],
)
async def test_who_may_use_it(changes: dict[str, Any], who: Principal, code: str | None) -> None:
    async with World() as world:
        await world.agent("n1", gpus=8, cpu_milli=64_000)
        await reserve(world)
        await reserve(world, name="team", teams=("vision",), users=("ci",))
        await reserve(world, name="gone")
        await world.one.reservations.cancel(ADMIN, "gone")
        (found,) = await world.one.submit.submit(who, [SubmitRequest(spec=spec(**changes))])
        assert (found.code if isinstance(found, Refusal) else None) == code, found


async def test_a_job_may_be_submitted_through_a_replica_that_has_not_heard_of_it() -> None:
    async with World(replicas=2) as world:
        await world.agent("n1", gpus=2)
        world.two.wire.hold_watch()
        await reserve(world)
        asked = asyncio.create_task(world.two.submit.submit(ALICE, [SubmitRequest(spec=spec(reservation="demo"))]))
        await world.settle()
        assert not asked.done()
        world.two.wire.release_watch()
        (found,) = await asked
        assert not isinstance(found, Refusal), found


async def test_before_it_begins_a_short_job_slips_in_and_a_long_one_hears_why_it_waits() -> None:
    async with World() as world:
        agent = await world.agent("n1", gpus=2)
        await reserve(world, start=world.clock.wall() + 60)
        short = await world.submit(gpus=1, expected_runtime_s=50.0)
        long = await world.submit(gpus=1, expected_runtime_s=70.0)
        foreign = await world.submit(gpus=1, who=BOB)
        await world.settle()
        assert short in agent.starts
        assert world.state(long).phase == "PENDING"
        told, theirs = world.one.planner.reason(long), world.one.planner.reason(foreign)
        assert told is not None
        assert theirs is not None
        assert (told.code, theirs.code) == ("RESERVED", "RESERVED")
        assert told.message.startswith("1 GPU is free, held for reservation demo from")
        assert "another tenant" in theirs.message


async def test_its_jobs_start_when_it_begins_and_others_when_it_ends() -> None:
    async with World() as world:
        agent = await world.agent("n1", gpus=2)
        await reserve(world, start=world.clock.wall() + 60)
        mine = await world.submit(gpus=2, reservation="demo", time_limit_s=LONG)
        other = await world.submit(gpus=2, who=BOB)
        await world.settle()
        early = world.one.planner.reason(mine)
        assert early is not None
        assert early.code == "RESERVATION_PLANNED"
        await world.advance(59)
        assert not agent.starts
        await world.until(lambda: mine in agent.starts, 5)
        assert record(world).state == "active"
        start(agent, mine)
        await world.advance(100)
        agent.exited(agent.starts[mine])
        await world.settle()
        assert world.state(other).phase == "PENDING"
        await world.advance(LONG)
        await world.until(lambda: other in agent.starts, 5)


async def test_a_job_that_is_still_there_at_the_end_is_told_in_time_and_goes_on_as_any_other() -> None:
    async with World() as world:
        agent = await world.agent("n1", gpus=2)
        made = await reserve(world)
        saving = Preemption(checkpoint_signal="SIGUSR1", wait_s=60.0)
        job = await world.submit(gpus=1, reservation="demo", preemption=saving, grace_s=30.0)
        await world.settle()
        start(agent, job)
        await world.advance(made.until - world.clock.wall() - 95)
        assert world.state(job).phase == "RUNNING"
        await world.until(lambda: world.state(job).phase == "PREEMPTED", 10)
        assert world.clock.wall() < made.until - 85
        (told,) = [event for event in world.audit.events[job] if event.kind == "preempted"]
        assert told.reason.startswith("reservation demo ends at ")
        assert (told.data["rule"], told.data["for"]) == ("reservation-ends", {"reservation": "demo"})
        agent.obey()
        await world.advance(60)
        # It is gone early, and would be told to leave at once if it started there again.
        reason = world.one.planner.reason(job)
        assert reason is not None
        assert (reason.code, world.state(job).phase) == ("RESERVATION_ENDING", "PENDING")
        assert len(agent.all_starts(job)) == 1
        await world.until(lambda: record(world).state == "ended", 120)
        await world.until(lambda: len(agent.all_starts(job)) == 2, 10)


async def test_a_stranger_leaves_when_a_job_of_the_reservation_needs_its_place() -> None:
    async with World() as world:
        agent = await world.agent("n1", gpus=2)
        late = await world.submit(gpus=2, expected_runtime_s=30.0, who=BOB)
        await world.settle()
        start(agent, late)
        await reserve(world, start=world.clock.wall() + 40, unused_release_s=0.0)
        await world.advance(50)
        assert record(world).state == "active"
        assert world.state(late).phase == "RUNNING"
        (seen,) = await world.one.reservations.list(ALICE)
        assert seen.strangers == 1
        mine = await world.submit(gpus=1, reservation="demo")
        await world.until(lambda: world.state(late).phase == "PREEMPTED", 5)
        (told,) = [event for event in world.audit.events[late] if event.kind == "preempted"]
        assert told.by == "a reservation of another tenant"
        assert "demo" not in str(told.data) + told.reason
        agent.obey()
        await world.until(lambda: mine in agent.starts, 5)


# ---- as time passes


async def test_one_that_nobody_uses_is_given_up() -> None:
    async with World() as world:
        agent = await world.agent("n1", gpus=2)
        await reserve(world, start=world.clock.wall() + 60, unused_release_s=120.0)
        other = await world.submit(gpus=2, who=BOB)
        await world.advance(170)
        assert record(world).state == "active"
        await world.until(lambda: record(world).state == "released", 15)
        assert record(world).history[-1].why == "nobody has used it for 2 min"
        await world.until(lambda: other in agent.starts, 5)
        assert 'ares_reservations_total{state="released"} 1.0' in world.one.telemetry.render().decode()


async def test_one_that_is_used_is_kept_and_given_up_only_so_long_after_the_last_of_its_jobs() -> None:
    async with World() as world:
        agent = await world.agent("n1", gpus=2)
        await reserve(world, unused_release_s=60.0)
        job = await world.submit(gpus=1, reservation="demo")
        await world.settle()
        start(agent, job)
        await world.advance(200)
        assert record(world).state == "active"
        agent.exited(agent.starts[job])
        await world.advance(50)
        assert record(world).state == "active"
        await world.until(lambda: record(world).state == "released", 20)


async def test_a_new_leader_goes_on_where_the_old_one_was() -> None:
    async with World(replicas=2) as world:
        await world.agent("n1", replica=world.two, gpus=2)
        await reserve(world, start=world.clock.wall() + 30)
        (leader,) = world.leading()
        (other,) = [one for one in world.replicas if one is not leader]
        await leader.crash()
        await world.until(lambda: other.view.reservations["demo"][0].state == "active", 60)
        world.replicas.remove(leader)


async def test_a_node_that_is_drained_is_replaced_if_another_can_be_had() -> None:
    async with World() as world:
        await world.agent("n1", gpus=2)
        made = await reserve(world, start=world.clock.wall() + 100)
        assert made.placements[0].node == "n1"
        await world.one.nodes.drain(ADMIN, "n1")
        await world.advance(5)
        (seen,) = await world.one.reservations.list(ADMIN)
        assert (seen.missing, seen.placements) == (("n1",), made.placements)
        await world.agent("n2", gpus=2)
        await world.until(lambda: record(world).placements[0].node == "n2", 40)
        (seen,) = await world.one.reservations.list(ADMIN)
        assert (seen.missing, seen.history[-1].why) == ((), "moved to other nodes: n1 cannot be had any more")


async def test_a_node_that_was_asked_for_by_name_is_not_replaced() -> None:
    async with World() as world:
        await world.agent("n1", gpus=2)
        await world.agent("n2", gpus=2)
        await reserve(world, asked=RoomAsked(node_names=("n1",)), start=world.clock.wall() + 100)
        await world.one.nodes.cordon(ADMIN, "n1", True)
        await world.advance(40)
        assert [place.node for place in record(world).placements] == ["n1"]


async def test_a_record_is_forgotten_long_after_the_end() -> None:
    async with World() as world:
        await world.agent("n1", gpus=2)
        await reserve(world, length_s=10.0)
        await world.one.reservations.cancel(ADMIN, "demo")
        one = world.one
        forgetful = Windows(
            world.store,
            one.book,
            one.view,
            one.planner,
            one.transitions,
            world.clock,
            one.telemetry,
            30.0,
            world.clock,
        )
        await world.advance(39)
        await forgetful.look(one.guards[-1])
        assert (await world.one.reservations.list(ADMIN, over=True))[0].state == "cancelled"
        await world.advance(2)
        await forgetful.look(one.guards[-1])
        assert await world.store.get(keys.reservation("demo")) is None


async def test_the_record_is_what_the_store_keeps() -> None:
    async with World() as world:
        await world.agent("n1", gpus=2)
        await reserve(world)
        kv = await world.store.get(keys.reservation("demo"))
        assert kv is not None
        assert decode(kv.value, type=Reservation) == record(world)
