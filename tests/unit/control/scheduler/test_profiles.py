"""Profiles: every change a new version, in force on all replicas, never two of one number."""

import asyncio

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from ares.adapters.store.memory import StoreFault
from ares.control.scheduler.profiles import VERSIONS_KEPT, seen_by
from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.profile import Profile, ProfileRecord, Share
from ares.ports.store import Put
from tests.world import ADMIN, ALICE, World


async def test_of_two_writers_through_two_replicas_one_wins_and_the_other_is_told() -> None:
    async with World(replicas=2) as world:
        ours = replace(Profile(), max_placements_per_cycle=7)
        theirs = replace(Profile(), max_placements_per_cycle=9)
        # The first is still on its way to the store when the second is there.
        world.faults(StoreFault("delayed", 1.0))
        slow = asyncio.create_task(world.one.profiles.put(ADMIN, ours, "ours"))
        await world.settle()
        won = await world.two.profiles.put(ADMIN, theirs, "theirs")
        await world.advance(2)
        lost = await slow
        assert isinstance(won, ProfileRecord)
        assert isinstance(lost, Refusal)
        assert (won.version, lost.code) == (1, "profile-conflict")
        for replica in world.replicas:
            assert await replica.profiles.current() == won
            assert replica.planner.cluster.profile == won.profile


async def test_single_settings_through_two_replicas_both_count() -> None:
    async with World(replicas=2) as world:
        world.faults(StoreFault("delayed", 1.0))
        slow = asyncio.create_task(world.one.profiles.change(ADMIN, {"weight.cost": "0.3"}))
        await world.settle()
        await world.two.profiles.change(ADMIN, {"preemption.gap": "1"})
        await world.advance(2)
        await slow
        record = await world.one.profiles.current()
        weights = {one.name: one.weight for one in record.profile.scorers}
        assert (record.version, weights["cost"], record.profile.preemption.gap) == (2, 0.3, 1)


async def test_a_change_from_a_version_that_is_past_is_refused() -> None:
    async with World() as world:
        await world.one.profiles.change(ADMIN, {"preemption.gap": "1"}, expected_version=0)
        late = await world.one.profiles.change(ADMIN, {"preemption.gap": "3"}, expected_version=0)
        assert isinstance(late, Refusal)
        assert late.code == "profile-conflict"
        assert "version 1 by admin-token" in late.message


async def test_what_changes_nothing_is_no_version() -> None:
    async with World() as world:
        profiles = world.one.profiles
        assert (await profiles.current()) == await profiles.put(ADMIN, Profile(), "as it is")
        first = await profiles.change(ADMIN, {"preemption.gap": "1"}, "lower")
        assert isinstance(first, ProfileRecord)
        assert await profiles.change(ADMIN, {"preemption.gap": "1"}, "again") == first
        assert await profiles.put(ADMIN, first.profile, expected_version=1) == first
        assert isinstance(await profiles.put(ADMIN, first.profile, expected_version=0), Refusal)
        assert [one.version for one in await profiles.versions()] == [1]


async def test_reverting_writes_an_old_version_anew_and_all_is_kept() -> None:
    async with World() as world:
        profiles = world.one.profiles
        first = await profiles.change(ADMIN, {"order.ageing_s": "3600", "shares.beta.weight": "2"}, "calmer")
        await profiles.change(ADMIN, {"order.ageing_s": "60"})
        back = await profiles.revert(ADMIN, 1)
        assert isinstance(first, ProfileRecord)
        assert isinstance(back, ProfileRecord)
        assert (back.version, back.profile, back.note) == (3, first.profile, "version 1 again")
        assert [one.version for one in await profiles.versions()] == [3, 2, 1]
        none = await profiles.revert(ADMIN, 9)
        assert isinstance(none, Refusal)
        assert none.code == "no-such-version"
        plain = await profiles.revert(ADMIN, 0)
        assert isinstance(plain, ProfileRecord)
        assert plain.profile == Profile()


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ({"weight.colour": "3"}, "no scorer is called 'colour'; there are"),
        ({"filters": "+moon"}, "no filter is called 'moon'"),
        ({"actions": "-allocate"}, "nothing would ever start"),
        ({"actions": "+claim"}, "name 'claim' twice"),
        ({"order.primary.luck": "3"}, "no order factor is called 'luck'"),
        ({"shares.a/b/c/d.weight": "2"}, "is not tenant, tenant/team or tenant/team/user"),
        ({"shares.a.soft.gpu": "9000", "shares.a.hard.gpu": "8000"}, "the hard limit of gpu is 8000"),
        ({"preemption.gap": "9"}, "at most 5"),
        ({"weight.cost": "nan"}, "a number of at least 0"),
        ({"wieght.cost": "1"}, "there is no setting 'wieght.cost'"),
        ({"pools.spot.colour": "1"}, "pools.spot has no 'colour'"),
        ({"pools.p.power_cap_watts": "-1"}, "pools.p.power_cap_watts is a number of at least 0"),
        ({"pools.p.spot_factor": "2"}, "pools.p.spot_factor is a number of at most 1"),
        ({"energy.gpu_watts": "300"}, "say of which model, such as energy.gpu_watts.A100"),
        ({"energy.gpu_watts.A100": "x"}, "energy.gpu_watts.A100 is a number"),
        ({"energy.colour": "1"}, "energy has no 'colour'"),
        ({"routing.tenant_money_s": "7"}, "say whose, such as routing.tenant_money_s.acme"),
        ({"routing.priority_money_s.URGENT": "7"}, "routing.priority_money_s.URGENT cannot be set"),
        ({"routing.colour": "1"}, "routing has no 'colour'"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_what_would(sets: dict[str, str], said: str) -> None:
    async with World() as world:
        refused = await world.one.profiles.change(ADMIN, sets)
        assert isinstance(refused, Refusal)
        assert refused.code == "profile-invalid"
        assert said in refused.message
        assert (await world.one.profiles.current()).version == 0


async def test_the_last_hundred_versions_are_kept() -> None:
    async with World() as world:
        for number in range(1, VERSIONS_KEPT + 4):
            await world.one.profiles.change(ADMIN, {"max_placements_per_cycle": str(number)})
        kept = [one.version for one in await world.one.profiles.versions()]
        assert (kept[0], kept[-1], len(kept)) == (VERSIONS_KEPT + 3, 4, VERSIONS_KEPT)


async def test_a_write_whose_answer_was_lost_is_found_and_not_repeated() -> None:
    async with World() as world:
        world.faults("reply_lost")
        record = await world.one.profiles.change(ADMIN, {"preemption.gap": "1"})
        assert isinstance(record, ProfileRecord)
        assert [one.version for one in await world.one.profiles.versions()] == [1]


async def test_it_decides_where_jobs_go_without_a_restart() -> None:
    async with World(replicas=2) as world:
        cheap, dear = await world.agent("n2", pool="cheap"), await world.agent("n1", pool="dear")
        sets = {"pools.cheap.cpu_hour": "1", "pools.dear.cpu_hour": "2", "weight.cost": "10000"}
        await world.two.profiles.change(ADMIN, sets)
        await world.settle()
        job = await world.submit()
        await world.settle()
        assert (job in cheap.starts, job in dear.starts) == (True, False)
        for replica in world.replicas:
            assert b"ares_profile_version 1.0" in replica.telemetry.render()


async def test_a_name_that_is_no_longer_installed_stops_nothing_but_what_a_filter_was_to_keep_out() -> None:
    async with World() as world:
        await world.agent("n1")
        await world.one.profiles.change(ADMIN, {"preemption.gap": "1"})
        # What another server wrote that had more plugins.
        record = world.one.view.profile
        plugged = replace(record.profile, filters=(*record.profile.filters, "moon"), actions=("allocate", "dance"))
        await world.store.txn([], [Put(keys.profile(2), encode(replace(record, version=2, profile=plugged)))])
        await world.settle()
        assert world.one.planner.unknown == ("moon", "dance")
        job = await world.submit()
        await world.settle()
        reason = world.one.planner.reason(job)
        assert reason is not None
        assert (reason.code, "'moon', which is not installed" in reason.message) == ("REFUSED_BY_PLUGIN", True)
        await world.one.profiles.revert(ADMIN, 0)
        await world.settle()
        assert world.state(job).phase == "STAGING"


def test_other_tenants_shares_are_not_shown() -> None:
    profile = Profile(shares={"alpha": Share(weight=2), "alpha/x": Share(), "beta": Share(weight=3)})
    record = ProfileRecord(version=1, profile=profile)
    assert set(seen_by(record, ALICE).profile.shares) == {"alpha", "alpha/x"}
    assert seen_by(record, ADMIN) == record
