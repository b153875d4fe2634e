"""Jobs that move when their cluster is cut off: ended there first, and never alive in two."""

import msgspec

from ares.core import keys
from ares.core.federation.owners import SELF_FENCE, ownership_lease_s
from ares.core.lifecycle.inputs import Cancel
from ares.model.cluster_link import Pong
from ares.model.state import LedgerEvent
from tests.federated_worlds import FederatedWorlds
from tests.world import ADMIN

_LEASE_S = ownership_lease_s(30.0, 9.0)


def test_there_is_time_to_end_it_after_its_cluster_has_noticed() -> None:
    for grace_s, node_s in ((0.0, 0.5), (30.0, 9.0), (3600.0, 86_400.0)):
        lease_s = ownership_lease_s(grace_s, node_s)
        assert (1 - SELF_FENCE) * lease_s >= grace_s + node_s + 10.0 or lease_s == 60.0


async def test_a_job_that_may_move_is_ended_by_its_cluster_and_then_runs_in_another() -> None:
    async with FederatedWorlds("east", "west") as fed:
        job, there = await fed.running(on_partition="move")
        home = fed.owner(job)
        stays, elsewhere = await fed.running(residency=(home,))
        assert elsewhere is there
        fed.links[home].cut()
        agent = there.agents[0]
        # Not before the lease is nearly over: a short cut moves nothing.
        await fed.clock.advance(SELF_FENCE * _LEASE_S - 10.0)
        assert (fed.owner(job), there.state(job).phase) == (home, "RUNNING")
        await fed.until(lambda: there.state(job).phase == "CANCELLED")
        assert fed.owner(job) == home
        agent.obey()
        await fed.until(lambda: there.one.view.kept.taken[job].possession.taken is None)
        await fed.until(lambda: fed.owner(job) not in ("", home), _LEASE_S)
        assert there.state(stays).phase == "RUNNING"
        assert fed.owner(stays) == home
        page = await fed.plane.store.range(keys.job_events("alpha", job))
        ledger = [msgspec.json.decode(kv.value, type=LedgerEvent) for kv in page.kvs]
        moved = [event.reason for event in ledger if event.kind == "taken-back"]
        assert [f"cluster {home} was silent for" in reason for reason in moved] == [True]
        # Back again, it has nothing to say about the job.
        fed.links[home].mend()
        await fed.until(lambda: there.one.view.kept.uplink[""].mode == "FEDERATED")
        assert fed.owner(job) not in ("", home)
        assert fed.plane.state(stays).phase == "RUNNING"


async def test_a_link_that_comes_back_after_the_job_was_ended_brings_the_job_back_at_once() -> None:
    """And the cluster it was ended in may have it again, although its records are still there."""
    async with FederatedWorlds("east") as fed:
        job, there = await fed.running(on_partition="move")
        fed.links["east"].cut()
        await fed.until(lambda: there.state(job).phase == "CANCELLED", _LEASE_S)
        there.agents[0].obey()
        fed.links["east"].mend()
        await fed.until(lambda: fed.plane.state(job).attempt == 0 or fed.owner(job) == "east")
        await fed.until(lambda: there.state(job).phase in ("STAGING", "RUNNING"), 120.0)
        assert there.state(job).attempt == 2
        assert fed.plane.state(job).phase != "CANCELLED"


async def test_reports_that_are_not_known_to_be_kept_hold_no_job() -> None:
    async with FederatedWorlds("east") as fed:
        job, there = await fed.running(on_partition="move")
        fed.links["east"].drops = lambda message: isinstance(message, Pong)
        await fed.until(lambda: there.state(job).phase == "CANCELLED", _LEASE_S)


async def test_a_job_that_comes_back_to_a_cluster_that_was_declared_dead_runs_there() -> None:
    """What is left there of the job from before is no obstacle."""
    async with FederatedWorlds("east") as fed:
        job, there = await fed.running()
        clusters = fed.plane.one.federation.clusters
        await clusters.declare_dead(ADMIN, "east", "a mistake")
        await there.apply(job, Cancel(by="operator"))
        there.agents[0].obey()
        await there.until(lambda: not there.state(job).lingering)
        await there.one.federation.membership.forget(ADMIN, force=True)
        await fed.join("east")
        await fed.until(lambda: there.state(job).phase in ("STAGING", "RUNNING"), 120.0)
        assert fed.owner(job) == "east"
