"""What a cluster may say on its stream, and what becomes of it when it lies or its network breaks."""

import pytest

from ares.core.federation.clusters import local_id
from ares.core.federation.epochs import LOCAL_EPOCH, newborn
from ares.core.lifecycle.inputs import Cancel
from ares.model.base import Fence
from ares.model.cluster_link import (
    AllSettled,
    ClusterWelcome,
    Confirmed,
    Declined,
    HeldJob,
    Judged,
    LedgerLine,
    ListedBucket,
    Offered,
    OwnedEnd,
    StandingNoted,
    Tell,
)
from ares.model.state import ExitInfo
from tests.unit.control.federation.clusters import ALL, ScriptedCluster, local, standing
from tests.world import ADMIN, World

DONE = OwnedEnd(exit=ExitInfo(code=0), committed_at=1.0)


async def _owned(world: World) -> tuple[ScriptedCluster, str, int]:
    cluster = ScriptedCluster(world, "east")
    await cluster.join()
    job = await world.submit()
    epoch = await cluster.accept(job)
    await world.settle()
    assert [confirm.job for confirm in cluster.of(Confirmed)] == [job]
    return cluster, job, epoch


async def test_an_owner_is_heard_and_another_cluster_is_not() -> None:
    async with World() as world:
        east, job, epoch = await _owned(world)
        west = ScriptedCluster(world, "west")
        await west.join()
        await west.say(standing(job, epoch, phase="SUCCEEDED", ended=DONE))
        assert world.state(job).phase == "WAITING"
        assert [verdict.do for verdict in west.of(Judged)] == ["ended"]
        await east.say(standing(job, epoch + 1, phase="SUCCEEDED", ended=DONE))
        assert world.state(job).phase == "WAITING"
        await east.say(standing(job, epoch))
        assert world.state(job).phase == "RUNNING"
        assert east.of(StandingNoted)[-1].seq == 3


async def test_numbers_that_would_end_the_count_of_fences_are_refused() -> None:
    async with World() as world:
        east, job, epoch = await _owned(world)
        await east.say(standing(job, epoch, fence=Fence(epoch=1, counter=2**63 - 1)))
        assert (world.state(job).phase, world.state(job).owner_seq) == ("WAITING", 0)
        assert east.of(Judged)[-1].do == "stop"


async def test_a_phase_that_no_entry_of_the_ledger_shows_is_not_taken_over() -> None:
    async with World() as world:
        east, job, epoch = await _owned(world)
        await east.say(standing(job, epoch, entries=()))
        assert world.state(job).phase == "WAITING"


async def test_an_end_has_a_time_and_only_an_end_has_a_result() -> None:
    async with World() as world:
        east, job, epoch = await _owned(world)
        await east.say(standing(job, epoch, ended=DONE, ended_at=5.0))
        assert (world.state(job).phase, world.state(job).ended_at) == ("RUNNING", None)
        assert job not in world.audit.results
        await east.say(standing(job, epoch, seq=4, phase="SUCCEEDED", ended=DONE))
        assert world.state(job).ended_at == world.clock.wall()
        # What is said after it changes nothing.
        await east.say(standing(job, epoch, seq=9, phase="FAILED"))
        assert world.state(job).phase == "SUCCEEDED"


async def test_a_restored_cluster_is_heard_although_its_ledger_went_back() -> None:
    async with World() as world:
        east, job, epoch = await _owned(world)
        await east.say(standing(job, epoch, seq=9))
        await east.say(standing(job, epoch, seq=4))
        assert world.state(job).owner_seq == 9
        await east.say(standing(job, epoch, seq=4, phase="SUCCEEDED", ended=DONE))
        assert world.state(job).phase == "SUCCEEDED"
        assert world.kinds(job)[-1] == "succeeded"


@pytest.mark.parametrize("data", [{"text": "x" * 20_000}, {"deep": b"\xff" * 20_000}])
async def test_an_entry_that_says_too_much_ends_the_session_and_changes_nothing(data: dict[str, object]) -> None:
    async with World() as world:
        east, job, epoch = await _owned(world)
        await east.say(
            standing(job, epoch, entries=(LedgerLine(seq=2, kind="bound", phase="STAGING", at=1.0, data=data),))
        )
        assert (east.over, world.state(job).owner_seq) == (True, 0)


async def test_buckets_that_were_not_asked_for_end_the_session() -> None:
    async with World() as world:
        east = ScriptedCluster(world, "east")
        await east.join()
        await east.say(ListedBucket(number=3))
        assert east.over


async def test_reports_in_a_flood_are_answered_and_not_all_written() -> None:
    async with World() as world:
        east = ScriptedCluster(world, "east")
        await east.join()
        before = await world.store.revision()
        for _ in range(50):
            await east.report()
        assert await world.store.revision() - before <= 1


# ---- jobs that the global plane does not know


async def test_a_local_job_is_taken_in_once_by_the_code_of_its_cluster() -> None:
    async with World() as world:
        east = ScriptedCluster(world, "east")
        await east.join()
        mine = local_id(east.of(ClusterWelcome)[0].code, "0000000000000001")
        for _ in range(2):
            await east.say(local(mine, "alpha", LOCAL_EPOCH))
        owner = world.state(mine).owner
        assert owner is not None
        assert (owner.cluster, owner.epoch, owner.stage) == ("east", LOCAL_EPOCH, "CONFIRMED")
        assert world.kinds(mine).count("submitted") == 1


async def test_no_cluster_can_take_the_id_of_a_job_of_another_tenant() -> None:
    async with World() as world:
        east, job, epoch = await _owned(world)
        await east.say(local(job, "evil", LOCAL_EPOCH), local(job, "evil", epoch))
        assert world.one.view.entries[job].state.tenant == "alpha"
        assert [verdict.reason for verdict in east.of(Judged)] == ["its id is another job's"] * 2


async def test_no_cluster_can_make_up_an_epoch_or_a_job() -> None:
    async with World() as world:
        east = ScriptedCluster(world, "east")
        await east.join()
        mine = local_id(east.of(ClusterWelcome)[0].code, "0000000000000001")
        await east.say(local(mine, "alpha", 2**63 - 1), local("0000000000000009", "alpha", LOCAL_EPOCH))
        assert mine not in world.one.view.entries
        assert "0000000000000009" not in world.one.view.entries
        assert {verdict.reason for verdict in east.of(Judged)} == {"it was never given to the cluster"}


# ---- a network that breaks at the worst moment


async def test_a_job_that_was_given_back_while_the_link_broke_is_placed_anew() -> None:
    async with World() as world:
        east, job, epoch = await _owned(world)
        await east.end()
        again = ScriptedCluster(world, "east")
        await again.connect(incarnation=2, generation=1)
        await again.list_(HeldJob(job=job, says="refused", epoch=epoch))
        state = world.state(job)
        assert (state.phase, state.owner and state.owner.stage) in {("PENDING", "HELD"), ("WAITING", "OFFERED")}
        assert again.of(AllSettled)


async def test_what_a_restored_cluster_has_lost_waits_until_it_has_settled() -> None:
    async with World() as world:
        east, job, epoch = await _owned(world)
        await east.end()
        waits = ScriptedCluster(world, "east")
        await waits.connect(incarnation=2, store_epoch=2, generation=1, settled=False)
        await waits.list_()
        # It may still run on a node that has not heard of the restore.
        owner = world.state(job).owner
        assert owner is not None
        assert (owner.stage, owner.epoch, waits.of(AllSettled)) == ("CONFIRMED", epoch, [])
        await waits.end()
        sure = ScriptedCluster(world, "east")
        await sure.connect(incarnation=3, store_epoch=2, generation=1)
        await sure.list_()
        owner = world.state(job).owner
        assert owner is not None
        assert owner.epoch > epoch
        assert sure.of(AllSettled)


# ---- a global plane that was restored from a backup


async def test_a_restored_global_plane_offers_nothing_before_its_clusters_have_told_all() -> None:
    async with World(replicas=0) as world:
        await world.add_replica()
        east = ScriptedCluster(world, "east")
        await east.join()
        # As in the backup: it waits here, and was given to the cluster since.
        job = await world.submit(gpus=64)
        await east.end()
        await world.one.stop()
        world.replicas.clear()
        world.epoch = 2
        await world.add_replica()
        back = ScriptedCluster(world, "east")
        await back.connect(incarnation=2, generation=1)
        assert back.of(ClusterWelcome)[0].differing == ALL
        given = newborn(1) + 1
        await back.list_(HeldJob(job=job, says="ended", epoch=given, fence=Fence(epoch=1, counter=1), seq=4))
        assert [tell.job for tell in back.of(Tell)] == [job]
        assert (back.of(AllSettled), world.one.federation.clusters.is_rebuilt(2)) == ([], False)
        await back.say(local(job, "alpha", given, seq=4, phase="SUCCEEDED", ended=DONE))
        assert world.state(job).phase == "SUCCEEDED"
        assert back.of(AllSettled)
        assert world.one.federation.clusters.is_rebuilt(2)
        assert not back.of(Offered)


async def test_a_job_that_the_cluster_has_no_more_does_not_hold_up_healing() -> None:
    async with World(replicas=0) as world:
        world.epoch = 2
        await world.add_replica()
        east = ScriptedCluster(world, "east")
        await east.connect()
        await east.list_(HeldJob(job="0000000000000009", says="ended", epoch=newborn(1) + 1))
        assert not east.of(AllSettled)
        await east.say(Declined(job="0000000000000009", epoch=newborn(1) + 1, code="unknown"))
        assert east.of(AllSettled)


async def test_a_declared_dead_cluster_is_cut_off_at_once() -> None:
    async with World() as world:
        east, _, _ = await _owned(world)
        await world.one.federation.clusters.declare_dead(ADMIN, "east", "fire")
        await world.settle()
        assert east.over


@pytest.mark.parametrize("says", ["refused", "nothing"])
async def test_a_cancelled_job_that_its_cluster_does_not_have_lingers_no_more(says: str) -> None:
    async with World() as world:
        east, job, epoch = await _owned(world)
        await east.say(standing(job, epoch))
        await east.end()
        await world.apply(job, Cancel(by="alice"))
        assert world.state(job).lingering
        again = ScriptedCluster(world, "east")
        await again.connect(incarnation=2, generation=1)
        await again.list_(*([HeldJob(job=job, says="refused", epoch=epoch)] if says == "refused" else []))
        assert not world.state(job).lingering
        assert world.kinds(job)[-1] == "released"


async def test_an_acceptance_that_is_let_go_ends_a_cancelled_job() -> None:
    async with World() as world:
        east, job, epoch = await _owned(world)
        await world.apply(job, Cancel(by="alice"))
        assert [verdict.do for verdict in east.of(Judged)] == ["stop"]
        await east.say(Declined(job=job, epoch=epoch - 1, code="stopped"))
        assert world.state(job).lingering
        await east.say(Declined(job=job, epoch=epoch, code="stopped"))
        assert not world.state(job).lingering


async def test_a_decline_that_another_replica_hears_is_heeded_by_the_leader() -> None:
    async with World(replicas=2) as world:
        (leads,) = world.leading()
        other = next(replica for replica in world.replicas if replica is not leads)
        east = ScriptedCluster(world, "east", other)
        await east.join()
        job = await world.submit()
        await world.until(lambda: east.of(Offered))
        for _ in range(3):
            await east.say(Declined(job=job, epoch=east.of(Offered)[-1].epoch, code="full", why="no room"))
            await world.advance(2.0)
            await east.report()
        # Not again within 10 s, and then it is.
        assert len(east.of(Offered)) == 1
        assert list(leads.federation.router.refusals(job)) == ["east"]
        await world.until(lambda: len(east.of(Offered)) == 2)


async def test_a_name_that_joined_again_is_heard_from_its_first_report_on() -> None:
    async with World() as world:
        first = ScriptedCluster(world, "east")
        await first.connect(incarnation=9)
        await first.list_()
        await first.report(running=1)
        clusters = world.one.federation.clusters
        await clusters.declare_dead(ADMIN, "east", "fire")
        second = ScriptedCluster(world, "east")
        await second.connect()
        await second.list_()
        await second.report(running=7)
        report = clusters.report("east")
        assert report is not None
        assert (report.incarnation, report.running) == (1, 7)


async def test_a_cluster_that_a_restored_store_has_forgotten_keeps_its_code_and_no_other_gets_it() -> None:
    async with World(replicas=0) as world:
        world.epoch = 2
        await world.add_replica()
        fresh, back = ScriptedCluster(world, "fresh"), ScriptedCluster(world, "back")
        await fresh.connect()
        # It joined after the backup was made: nothing here knows of it.
        await back.connect(incarnation=7, generation=1, code="001")
        (first,), (second,) = fresh.of(ClusterWelcome), back.of(ClusterWelcome)
        assert (second.code, second.generation) == ("001", 1)
        assert first.code > "001"
        await back.list_()
        mine = local_id("001", "0000000000000001")
        await back.say(local(mine, "alpha", LOCAL_EPOCH))
        assert world.state(mine).owner is not None
