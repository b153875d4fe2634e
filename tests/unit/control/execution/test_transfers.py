"""Rates of tenants, dealt out to the nodes that move their bytes, through one replica and several."""

import pytest

from ares.control.execution.transfers import MB
from ares.core import keys
from ares.core.transfer.leases import LEASE_S
from ares.model.link import Moving, TransferRates
from ares.model.quota import BreakerState, NodeMoves, Quota, TenantMoves
from tests.agents import ScriptedAgent
from tests.quotas import give, quota
from tests.world import ADMIN, ALICE, BOB, Replica, World


def told(agent: ScriptedAgent) -> list[TransferRates]:
    return [message for message in agent.received if isinstance(message, TransferRates)]


def moving(waiting: int = 0, moved: int = 0, tenant: str = "alpha", **more: object) -> Moving:
    flow = TenantMoves(tenant=tenant, kind="output", moved=moved, waiting=waiting)
    return Moving(moves=NodeMoves(flows=(flow,), **more))  # pyright: ignore[reportArgumentType]


async def node(world: World, replica: Replica, name: str) -> ScriptedAgent:
    """An agent that keeps to rates, and has a job of alpha: there is no room for it elsewhere."""
    agent = ScriptedAgent(world.clock, name, cpu_milli=1000)
    agent.paced = True
    world.agents.append(agent)
    await agent.connect(replica.sessions)
    await world.settle()
    await world.submit(who=ALICE)
    await world.settle()
    return agent


async def test_without_rates_nothing_is_sent_nor_written() -> None:
    async with World(replicas=1, exclusive=True) as world:
        agent = await node(world, world.one, "n1")
        await world.settle()
        before = world.one.wire.txns
        agent.send(moving(waiting=10))
        await world.settle()
        assert told(agent) == []
        assert world.one.wire.txns == before
        shown = world.one.transfer_list.show(ALICE)
        assert [(row.node, row.kind, row.waiting_bytes, row.tenant_bytes_per_s) for row in shown.transfers] == [
            ("n1", "output", 10, None)
        ]


async def test_floors_come_with_the_session_and_leases_with_demand() -> None:
    async with World(replicas=1, exclusive=True) as world:
        await give(world, quota(transfer=100))
        agents = [await node(world, world.one, name) for name in ("n1", "n2")]
        await world.settle()
        assert [told(agent)[-1].floors for agent in agents] == [{"alpha": pytest.approx(0.05 * 100 * MB / 2)}] * 2
        agents[0].send(moving(waiting=3_000_000))
        agents[1].send(moving(moved=1_000_000))
        await world.advance(1.1)
        first, second = (told(agent)[-1].leases["alpha"] for agent in agents)
        assert first == pytest.approx(0.95 * 100 * MB * 0.75 + 0.025 * 100 * MB)
        assert first + second == pytest.approx(100 * MB)
        # Without news the demand is forgotten, and no lease is renewed.
        await world.advance(LEASE_S + 1.0)
        count = len(told(agents[0]))
        await world.advance(5.0)
        assert len(told(agents[0])) == count
        await give(world, Quota())
        await world.settle()
        assert told(agents[0])[-1].floors == {}


async def test_replicas_share_a_tenants_rate() -> None:
    async with World(replicas=2) as world:
        await give(world, quota(transfer=100))
        agents = [await node(world, replica, f"n{at}") for at, replica in enumerate(world.replicas)]
        for _ in range(4):
            for agent in agents:
                agent.send(moving(waiting=5_000_000))
            await world.advance(1.0)
        rates = [told(agent)[-1].leases["alpha"] for agent in agents]
        assert sum(rates) == pytest.approx(100 * MB)
        assert rates[0] == pytest.approx(rates[1])
        views = [replica.transfer_list.show(ALICE) for replica in world.replicas]
        assert views[0] == views[1]
        assert {row.node for row in views[0].transfers} == {"n0", "n1"}
        # A replica that is gone holds nothing of the rate for long.
        await world.replicas[1].crash()
        for _ in range(5):
            agents[0].send(moving(waiting=5_000_000))
            await world.advance(1.0)
        assert told(agents[0])[-1].leases["alpha"] == pytest.approx(0.95 * 100 * MB + 0.025 * 100 * MB)


async def test_an_agent_speaks_for_what_is_on_its_node_only() -> None:
    async with World(replicas=1, exclusive=True) as world:
        agent = ScriptedAgent(world.clock, "n1")
        await agent.connect(world.one.sessions)
        job = await world.submit(who=ALICE)
        await world.settle()
        open_ = tuple(BreakerState(endpoint="registry", tenant=name, phase="open") for name in ("alpha", "beta"))
        paused = {job: "registry", "another": "registry"}
        flows = tuple(TenantMoves(tenant=name, kind="image", moved=5) for name in ("alpha", "beta"))
        agent.send(Moving(moves=NodeMoves(flows=flows, breakers=open_, paused=paused)))
        await world.settle()
        shown = world.one.transfer_list.show(ADMIN)
        assert [row.tenant for row in shown.transfers] == ["alpha"]
        assert [row.tenant for row in shown.breakers] == ["alpha"]
        assert [row.job for row in shown.paused] == [job]
        other = world.one.transfer_list.show(BOB)
        assert (other.transfers, other.breakers, other.paused) == ((), (), ())
        explained = await world.one.explain.job(ALICE, job)
        assert explained is not None
        assert explained.reason is not None
        assert explained.reason.code == "STORAGE_PAUSED"
        assert "registry" in explained.reason.message
        agent.send(Moving(moves=NodeMoves()))
        await world.settle()
        explained = await world.one.explain.job(ALICE, job)
        assert explained is not None
        assert explained.reason is None


async def test_what_one_node_says_is_bounded() -> None:
    async with World(replicas=1, exclusive=True) as world:
        agent = await node(world, world.one, "n1")
        breakers = tuple(BreakerState(endpoint=f"e{n}", tenant="alpha", phase="open") for n in range(2000))
        flow = TenantMoves(tenant="alpha", kind="output", moved=1)
        agent.send(Moving(moves=NodeMoves(flows=(flow,) * 2000, breakers=breakers)))
        await world.settle()
        assert len(world.one.transfer_list.show(ALICE).transfers) == 1
        assert len(list(world.one.leases.board.breakers())) == 50


async def test_replicas_without_rates_tell_each_other_rarely() -> None:
    async with World(replicas=2) as world:
        agents = [await node(world, replica, f"n{at}") for at, replica in enumerate(world.replicas)]
        key = keys.transfer(world.replicas[0].name)
        written = set[int]()
        for _ in range(20):
            for agent in agents:
                agent.send(moving(moved=5_000_000))
            await world.advance(1.0)
            kv = await world.store.get(key)
            assert kv is not None
            written.add(kv.mod_revision)
            # What the other replica's nodes move is seen all the time.
            assert {row.node for row in world.replicas[1].transfer_list.show(ALICE).transfers} == {"n0", "n1"}
        assert len(written) <= 3
        # An endpoint that is left alone is told at once.
        before = max(written)
        broken = BreakerState(endpoint="registry", tenant="alpha", phase="open")
        agents[0].send(moving(moved=5_000_000, breakers=(broken,)))
        await world.advance(1.1)
        kv = await world.store.get(key)
        assert kv is not None
        assert kv.mod_revision > before
        assert [row.endpoint for row in world.replicas[1].transfer_list.show(ALICE).breakers] == ["registry"]
