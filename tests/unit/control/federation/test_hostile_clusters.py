"""A member cluster in the hands of an attacker: what it says is refused, and costs the global plane a bounded part."""

import pytest

from ares.control.federation import reconcile
from ares.control.federation.link_session import ClusterSession
from ares.core.federation.buckets import BUCKETS, bucket_of
from ares.core.federation.epochs import newborn
from ares.core.federation.messages import OfferAccepted
from ares.core.lifecycle.inputs import OwnerMoved
from ares.model.cluster import ClusterRecord
from ares.model.cluster_link import (
    AllSettled,
    ClusterHello,
    Confirmed,
    HeldJob,
    Judged,
    ListedBucket,
    Offered,
    Tell,
)
from ares.model.uplink import OfferedJob
from tests.unit.control.federation.clusters import ScriptedCluster, local, standing
from tests.world import World


def _session() -> ClusterSession:
    record = ClusterRecord(name="east", code="001", state="ACTIVE", generation=1, epoch=1, since=0.0)
    return ClusterSession(record, ClusterHello(name="east", incarnation=1, store_epoch=1))


def test_offers_that_are_never_read_end_the_session_before_they_fill_the_memory() -> None:
    session = _session()
    spec = b" " * 1_000_000
    offer = Offered(epoch=1, spec_sha256="0" * 64, offer=OfferedJob(job="a", tenant="alpha", name="a", spec=spec))
    said = 0
    while not session.closed:
        session.send(offer)
        said += 1
    assert said < 300
    assert "does not read" in session.closed_why


async def test_what_is_read_makes_room_for_more() -> None:
    session = _session()
    spec = b" " * 1_000_000
    offer = Offered(epoch=1, spec_sha256="0" * 64, offer=OfferedJob(job="a", tenant="alpha", name="a", spec=spec))
    for _ in range(400):
        session.send(offer)
        await session.next_frame()
    assert not session.closed


async def test_an_owner_from_before_a_restore_is_taken_over_by_no_cluster_that_has_healed_since() -> None:
    async with World(replicas=0) as world:
        world.epoch = 2
        await world.add_replica()
        west = ScriptedCluster(world, "west")
        await west.connect()
        job, given = "0000000000000009", newborn(1) + 1
        await west.list_(HeldJob(job=job, says="confirmed", epoch=given))
        await west.say(local(job, "alpha", given))
        assert west.of(AllSettled)
        evil = ScriptedCluster(world, "evil")
        await evil.join()
        await evil.end()
        again = ScriptedCluster(world, "evil")
        await again.connect(incarnation=2, generation=1, buckets=(1,) * BUCKETS)
        await again.list_(HeldJob(job=job, says="confirmed", epoch=given + 1))
        await again.say(local(job, "alpha", given + 1))
        owner = world.state(job).owner
        assert owner is not None
        assert (owner.cluster, owner.epoch) == ("west", given)
        assert not again.of(Tell)


async def test_a_job_in_a_bucket_that_is_not_its_own_ends_the_session() -> None:
    async with World() as world:
        east = ScriptedCluster(world, "east")
        await east.connect()
        job = "0000000000000009"
        wrong = (bucket_of(job) + 1) % BUCKETS
        await east.say(ListedBucket(number=wrong, jobs=(HeldJob(job=job, says="ended", epoch=1),)))
        assert east.over


async def test_however_many_jobs_a_cluster_denies_there_is_one_alert() -> None:
    async with World() as world:
        east = ScriptedCluster(world, "east")
        await east.join()
        jobs = [await world.submit(name=f"job-{number}") for number in range(7)]
        for job in jobs:
            await east.accept(job)
        await east.end()
        again = ScriptedCluster(world, "east")
        await again.connect(incarnation=2, generation=1)
        await again.list_()
        found = [alert for alert in world.one.view.kept.alerts.values() if alert.kind == "federation"]
        assert [alert.subject for alert in found] == ["clusters/east"]
        assert "disagree about 7 jobs" in found[0].text
        assert "and 2 more" in found[0].text
        owners = [world.state(job).owner for job in jobs]
        assert {None if owner is None else owner.cluster for owner in owners} == {"east"}


async def test_a_long_list_leaves_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []

    async def breathe() -> None:
        turns.append(1)

    monkeypatch.setattr(reconcile, "breathe", breathe)
    async with World() as world:
        east = ScriptedCluster(world, "east")
        await east.connect()
        of_first = [name for number in range(400_000) if bucket_of(name := f"{number:016d}") == 0]
        held = tuple(HeldJob(job=name, says="confirmed", epoch=newborn(1) + 1) for name in of_first)
        await east.say(ListedBucket(number=0, jobs=held))
        assert len(turns) >= len(of_first) // 500 >= 2


async def test_what_was_never_offered_or_confirmed_to_it_moves_nothing() -> None:
    async with World() as world:
        east, evil = ScriptedCluster(world, "east"), ScriptedCluster(world, "evil")
        await east.join()
        job = await world.submit()
        epoch = await east.accept(job)
        await evil.join()
        for forged in (epoch, epoch + 1, 2**62):
            await evil.say(standing(job, forged, phase="FAILED"))
        asked = OwnerMoved(asked=OfferAccepted(job=job, cluster="evil", epoch=epoch), reason="forged")
        await world.apply(job, asked)
        owner = world.state(job).owner
        assert owner is not None
        assert (owner.cluster, world.state(job).phase) == ("east", "WAITING")
        assert [verdict.do for verdict in evil.of(Judged)] == ["ended"] * 3
        assert not evil.of(Confirmed)
