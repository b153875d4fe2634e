"""Quota that a global plane lends its clusters: both admit jobs of one tenant, cut off or not, and never too many."""

from itertools import count

import pytest

from ares.core.federation.escrow import lent
from ares.core.quota import lending
from ares.core.refusal import Refusal
from ares.model.cluster_link import AllowanceGiven, AllowanceHeld, AllSettled
from ares.model.quota import Quota
from ares.model.state import TERMINAL
from tests.federated_worlds import FederatedWorlds
from tests.quotas import ask, give, limits
from tests.unit.control.federation.clusters import ScriptedCluster
from tests.world import ADMIN, World

# No request id is used twice: a cluster's are known at the global plane.
_asked = count()


def _quota(lend: float = 0.2, **hard: float) -> Quota:
    return Quota(own=limits(**hard), threshold=1.0, lend=lend)


def _lent(fed: FederatedWorlds, name: str, measure: str = "jobs") -> int:
    record = fed.plane.one.view.kept.escrow.get(f"{name}/alpha")
    return 0 if record is None else lent(record.escrow).get(measure, 0)


def _allowed(fed: FederatedWorlds, name: str) -> int:
    record = fed.clusters[name].one.view.kept.allowances.get("alpha")
    return 0 if record is None else lent(record.escrow).get("jobs", 0)


def _live(world: World) -> int:
    return sum(entry.state.phase not in TERMINAL for entry in world.one.view.entries.values())


async def _admitted(world: World, count: int) -> tuple[int, list[Refusal]]:
    answers = await ask(world, count, tag=f"{next(_asked)}-")
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    return count - len(refused), refused


async def test_what_is_lent_counts_as_used_and_both_sides_admit_the_quota_together() -> None:
    async with FederatedWorlds("east", "west") as fed:
        await give(fed.plane, _quota(jobs=10))
        await fed.until(lambda: _allowed(fed, "east") == 2 and _allowed(fed, "west") == 2)
        for name in ("east", "west"):
            fed.links[name].cut()
        # Cut off from each other: six at the global plane, and two in each cluster.
        assert (await _admitted(fed.plane, 8))[0] == 6
        for name in ("east", "west"):
            taken, refused = await _admitted(fed.clusters[name], 5)
            assert taken == 2
            assert refused[0].code == "quota-exceeded"
            assert "has lent this cluster, the tenant may have 2 jobs: 2 in use, 1 asked for" in refused[0].message


async def test_a_cluster_that_is_connected_is_lent_more_as_its_jobs_use_it_and_gives_back_what_they_leave() -> None:
    async with FederatedWorlds("east") as fed:
        east = fed.clusters["east"]
        await give(fed.plane, _quota(jobs=10))
        await fed.until(lambda: _allowed(fed, "east") == 2)
        for expected in (4, 6, 8, 10):
            assert (await _admitted(east, 2))[0] == 2
            await fed.until(lambda most=expected: _allowed(fed, "east") == most)
        assert (await _admitted(east, 3))[0] == 2
        assert (await _admitted(fed.plane, 1))[0] == 0
        view = await fed.plane.one.quotas.show("alpha")
        assert [(row.measure, row.used, row.free) for row in view.uses if row.level == "tenant" and row.limit] == [
            ("jobs", 10.0, 0.0)
        ]
        shown = await fed.plane.one.federation.clusters.show(ADMIN, "east")
        assert not isinstance(shown, Refusal)
        assert [(row.measure, row.lent, row.used) for row in shown.lent] == [("jobs", 10.0, 10.0)]
        for job in list(east.one.view.entries):
            await east.one.jobs.cancel(ADMIN, job, "")
        await fed.until(lambda: _lent(fed, "east") == 2)
        assert (await _admitted(fed.plane, 10))[0] == 8


async def test_time_returns_nothing_and_after_its_time_nothing_new_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    # A day takes virtual clusters minutes.
    monkeypatch.setattr(lending, "LENT_S", 60.0)
    monkeypatch.setattr(lending, "_RENEW_S", 30.0)
    async with FederatedWorlds("east") as fed:
        await give(fed.plane, _quota(jobs=10))
        await fed.until(lambda: _allowed(fed, "east") == 2)
        fed.links["east"].cut()
        await fed.clock.advance(61.0)
        taken, refused = await _admitted(fed.clusters["east"], 1)
        assert (taken, "is not good any more" in refused[0].message) == (0, True)
        assert (await _admitted(fed.plane, 10))[0] == 8
        fed.links["east"].mend()
        await fed.until(lambda: fed.clusters["east"].one.view.kept.allowances["alpha"].escrow.until > fed.clock.wall())
        assert (await _admitted(fed.clusters["east"], 3))[0] == 2


async def test_a_drained_cluster_returns_all_of_it_and_a_dead_one_is_counted_no_more() -> None:
    async with FederatedWorlds("east", "west") as fed:
        await give(fed.plane, _quota(jobs=10))
        await fed.until(lambda: _allowed(fed, "east") == 2 and _allowed(fed, "west") == 2)
        await fed.plane.one.federation.clusters.drain(ADMIN, "east", "")
        await fed.until(lambda: fed.plane.one.view.kept.clusters["east"].state == "LEFT")
        assert _lent(fed, "east") == 0
        fed.links["west"].cut()
        assert (await _admitted(fed.plane, 9))[0] == 8
        await fed.plane.one.federation.clusters.declare_dead(ADMIN, "west", "fire")
        assert (await _admitted(fed.plane, 9))[0] == 2


async def test_a_global_plane_of_yesterday_hears_what_it_had_lent_before_it_admits() -> None:
    """Its backup knows the cluster and the quota, and not what was lent since."""
    async with World(replicas=0) as world:
        await world.add_replica()
        east = ScriptedCluster(world, "east")
        await east.join()
        await east.end()
        await give(world, _quota(jobs=10))
        await world.one.stop()
        world.replicas.clear()
        world.epoch = 2
        await world.add_replica()
        taken, refused = await _admitted(world, 1)
        assert (taken, "cluster east may have been lent a part" in refused[0].message) == (0, True)
        back = ScriptedCluster(world, "east")
        await back.connect(incarnation=2, generation=1)
        await back.say(AllowanceHeld(tenant="alpha", granted={"jobs": 7}, released={"jobs": 2}))
        await back.list_()
        assert back.of(AllSettled)
        assert (await _admitted(world, 10))[0] == 5


async def test_a_cluster_that_lies_about_its_quota_takes_nothing_from_a_tenant() -> None:
    async with World() as world:
        await give(world, _quota(jobs=10))
        evil = ScriptedCluster(world, "evil")
        await evil.join()
        for _ in range(3):
            await evil.say(AllowanceHeld(tenant="alpha", granted={"jobs": 10**15}, released={"jobs": 10**15}))
            await evil.say(AllowanceHeld(tenant="beta", granted={"jobs": 10**15}))
            await world.clock.advance(2.0)
            await evil.report()
        # It was not granted what it says, and gave back no more than it was granted.
        given = [said for said in evil.of(AllowanceGiven) if said.tenant == "alpha"][-1]
        assert given.granted["jobs"] - given.released["jobs"] == 2
        assert given.granted["jobs"] <= 8
        assert "evil/beta" not in world.one.view.kept.escrow
        assert (await _admitted(world, 10))[0] == 8


async def test_a_cluster_of_yesterday_admits_nothing_itself_before_it_has_healed() -> None:
    async with FederatedWorlds("east") as fed:
        east = fed.clusters["east"]
        await fed.until(lambda: east.one.view.kept.uplink[""].mode == "FEDERATED")
        assert (await _admitted(east, 1))[0] == 1
        fed.links["east"].cut()
        await east.one.stop()
        east.replicas.clear()
        east.epoch = 2
        await east.add_replica()
        await fed.clock.advance(20.0)
        taken, refused = await _admitted(east, 1)
        assert (taken, "was restored from a backup" in refused[0].message) == (0, True)
        fed.links["east"].mend()
        await fed.until(lambda: east.one.view.kept.uplink[""].healed_in == 2)
        assert (await _admitted(east, 1))[0] == 1


async def test_the_newest_reason_why_a_cluster_is_alone_is_shown() -> None:
    async with FederatedWorlds("east") as fed:
        east = fed.clusters["east"]
        fed.links["east"].cut()
        await fed.until(lambda: east.one.view.kept.uplink[""].mode == "AUTONOMOUS")
        assert "cut" in east.one.view.kept.uplink[""].mode_why
        since = east.one.view.kept.uplink[""].mode_since
        await fed.plane.one.federation.clusters.declare_dead(ADMIN, "east", "fire")
        fed.links["east"].mend()
        await fed.until(lambda: "was declared dead" in east.one.view.kept.uplink[""].mode_why)
        assert east.one.view.kept.uplink[""].mode_since == since
