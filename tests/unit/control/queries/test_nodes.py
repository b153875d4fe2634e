"""What people see of nodes and leases is what the records say."""

import pytest

from ares.core.refusal import Refusal
from tests.world import ADMIN, ALICE, World


async def test_what_is_free_is_what_no_attempt_holds() -> None:
    async with World() as world:
        agent = await world.agent("n1", gpus=4, pool="a100")
        await world.agent("n2", pool="cpu", cpu_milli=1000)
        job = await world.submit(cpu_milli=1500, memory_mib=100, gpus=3)
        await world.settle()
        agent.started(agent.starts[job])
        await world.submit(cpu_milli=90_000)
        await world.settle()
        one, two = await world.one.nodes.nodes(ADMIN)
        assert (one.name, one.running) == ("n1", 1)
        assert (one.cpu_milli_free, one.memory_mib_free, one.gpus_free) == (2500, 3996, 1)
        assert (two.running, two.ready, two.cordoned) == (0, True, False)
        pools = await world.one.pools.list(ADMIN)
        cards = [(pool.name, pool.gpus, pool.gpus_free, pool.gpu_models) for pool in pools]
        assert cards == [("a100", 4, 1, {"Mock": 4}), ("cpu", 0, 0, {})]
        (cluster,) = await world.one.nodes.clusters(ADMIN)
        assert (cluster.nodes, cluster.running, cluster.pending, cluster.leader) == (2, 1, 1, "r1")
        await world.one.jobs.cancel(ALICE, job)
        one, _ = await world.one.nodes.nodes(ADMIN)
        assert one.gpus_free == 1
        await agent.silent()
        await world.advance(9.5)
        one, two = await world.one.nodes.nodes(ADMIN)
        assert (one.ready, two.ready) == (False, True)
        # All of it is unused, and none of it can be had.
        assert (one.cpu_milli_free, one.memory_mib_free, one.gpus_free) == (0, 0, 0)
        lost, _ = await world.one.pools.list(ADMIN)
        assert (lost.gpus, lost.gpus_free, lost.cpu_milli, lost.cpu_milli_free) == (4, 0, 4000, 0)
        (cluster,) = await world.one.nodes.clusters(ADMIN)
        assert (cluster.gpus, cluster.gpus_free) == (4, 0)


async def test_a_gpu_that_jobs_share_is_taken_once() -> None:
    async with World() as world:
        await world.agent("n1", gpus=2)
        await world.submit_many(2, gpus=1, gpu_milli=500)
        await world.settle()
        (one,) = await world.one.nodes.nodes(ADMIN)
        assert (one.running, one.gpus_free) == (2, 1)


async def test_a_lease_counts_down_from_its_last_renewal() -> None:
    async with World() as world:
        agent, job = await world.running(lease_s=20.0)
        await world.advance(4)
        await agent.silent()
        await world.advance(5)
        (lease,) = await world.one.nodes.leases(ALICE, job)
        assert (lease.job, lease.attempt, lease.node, lease.phase) == (job, 1, "n1", "RUNNING")
        assert lease.held_s == pytest.approx(9.0)
        assert lease.expires_in_s == pytest.approx(15.0)
        assert await world.one.nodes.leases(ALICE, None) == (lease,)
        assert await world.one.nodes.leases(ALICE, "nosuchjob") == ()
        await world.one.jobs.cancel(ALICE, job)
        (lease,) = await world.one.nodes.leases(ALICE, job)
        assert (lease.phase, lease.expires_in_s) == ("CANCELLED", None)


async def test_a_node_is_removed_once_it_is_silent_and_nothing_is_held_there() -> None:
    async with World() as world:
        agent, job = await world.running(lease_s=20.0)
        remove = world.one.nodes.remove
        alive = await remove(ADMIN, "n1")
        assert isinstance(alive, Refusal)
        assert alive.message.startswith("the agent of node n1 was heard of")
        await agent.silent()
        await world.advance(12)
        held = await remove(ADMIN, "n1")
        assert isinstance(held, Refusal)
        assert held.message == "1 job still holds something on node n1"
        assert world.state(job).phase == "RUNNING"
        await world.advance(10)
        gone = await remove(ADMIN, "n1")
        assert gone is not None
        assert not isinstance(gone, Refusal)
        assert (gone.name, gone.ready, gone.running) == ("n1", False, 0)
        assert await world.one.nodes.nodes(ADMIN) == ()
        assert await remove(ADMIN, "n1") is None


async def test_what_is_known_has_its_age() -> None:
    async with World() as world:
        agent = await world.agent("n1")
        await world.advance(20)
        await agent.silent()
        await world.advance(6)
        (cluster,) = await world.one.nodes.clusters(ADMIN)
        assert cluster.leader_age_s == pytest.approx(26)
        assert 6 <= cluster.store_age_s <= 10.5
        world.one.health.measure(world.one.telemetry)
        text = world.one.telemetry.render().decode()
        assert 'ares_nodes{health="ready"} 1.0' in text
        assert f"ares_lease_age_seconds {cluster.store_age_s}" in text
        # Readiness is proven by a write, of which the view hears.
        await world.one.health.ready()
        await world.settle()
        (cluster,) = await world.one.nodes.clusters(ADMIN)
        _, facts = await world.one.health.ready()
        assert facts.items() >= {"leader_age_s": "26.0", "store_age_s": "0.0", "writes_age_s": "0.0"}.items()
        assert cluster.store_age_s == 0
        await world.advance(6)
        world.one.health.measure(world.one.telemetry)
        assert 'ares_nodes{health="lost"} 1.0' in world.one.telemetry.render().decode()
