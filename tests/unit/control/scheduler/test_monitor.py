"""Silence: taken for death after nine seconds of this leader's own clock, and never against a renewal."""

import pytest

from ares.adapters.store.memory import StoreFault
from ares.core import keys
from ares.model.job import RetryPolicy
from ares.model.link import Fenced
from ares.model.state import JobState
from tests.agents import ScriptedAgent
from tests.world import ADMIN, ALICE, World


async def test_nine_seconds_of_silence_take_the_attempt_away_and_give_it_to_another_node() -> None:
    async with World() as world:
        agent, job = await world.running()
        other = await world.agent("n2")
        await agent.silent()
        await world.advance(8.9)
        assert world.state(job).phase == "RUNNING"
        await world.advance(0.7)
        assert world.kinds(job)[3:5] == ["lease-lost", "retrying"]
        await world.advance(1)
        assert world.state(job).placements[0].node == "n2"
        assert world.state(job).attempt == 2
        # The first attempt's end comes too late.
        late = agent.exited(agent.starts[job])
        other.started(other.starts[job])
        await world.settle()
        assert late.number in agent.acked
        assert world.state(job).phase == "RUNNING"
        # Refused, and not in silence.
        assert 'ares_stale_reports_total{report="exited"} 1.0' in world.one.telemetry.render().decode()


async def test_silence_takes_nothing_from_a_node_whose_attempts_do_not_end_with_its_lease() -> None:
    """Pods run on without their agent: only the node's own word, or its removal, says that they are gone."""
    async with World() as world:
        agent = await world.agent("n1", fences=False)
        job = await world.submit()
        await world.settle()
        agent.started(agent.starts[job])
        await agent.silent()
        await world.advance(60)
        assert world.state(job).phase == "RUNNING"


async def test_an_eviction_costs_no_retry() -> None:
    async with World() as world:
        agent, job = await world.running(retry=RetryPolicy(limit=0))
        agent.send(Fenced(number=7, ref=agent.starts[job].ref, rank=0, reason="Kubernetes took it", evicted=True))
        await world.settle()
        assert "preempted" in world.kinds(job)
        assert not world.state(job).retries


async def test_a_zombie_is_refused_in_the_write_itself_when_its_replica_has_not_heard_yet() -> None:
    async with World(replicas=2) as world:
        (leader,) = world.leading()
        other = next(one for one in world.replicas if one is not leader)
        agent, job = await world.running(replica=other)
        await agent.silent()
        other.wire.hold_watch()
        await world.advance(10)
        assert "lease-lost" in world.kinds(job)
        late = agent.exited(agent.starts[job])
        await world.settle()
        assert late.number in agent.acked
        assert world.state(job).phase != "SUCCEEDED"
        assert 'ares_stale_reports_total{report="exited"} 1.0' in other.telemetry.render().decode()


async def test_a_renewal_that_lands_between_judgement_and_write_wins() -> None:
    async with World() as world:
        agent, job = await world.running()
        await agent.silent()
        await world.advance(8.9)
        # The revocation is decided, but on its way for a moment; the renewal overtakes it.
        world.faults(StoreFault("delayed", 0.3))
        await world.advance(0.2)
        agent.renew()
        await world.advance(2)
        assert world.state(job).phase == "RUNNING"
        assert len(agent.renewed) >= 1


async def test_a_longer_lease_is_respected_also_after_a_cancel() -> None:
    async with World() as world:
        agent, job = await world.running(lease_s=60.0)
        doomed = await world.submit(lease_s=60.0)
        await world.settle()
        await agent.drop()
        await world.one.jobs.cancel(ALICE, doomed)
        await world.advance(58)
        assert world.state(job).phase == "RUNNING"
        assert world.state(doomed).lingering is True
        await world.advance(3)
        assert world.state(job).phase in ("RETRYING", "PENDING")
        assert world.state(doomed).lingering is False


async def test_a_restarted_agent_loses_its_attempts_at_once_and_gets_them_again_as_new_ones() -> None:
    async with World() as world:
        agent, job = await world.running()
        await agent.connect(world.one.sessions, fresh=True)
        assert agent.incarnation == 2
        await world.until(lambda: job in agent.starts, within_s=3)
        assert agent.starts[job].attempt == 2
        assert agent.starts[job].placement.incarnation == 2


async def test_unsafe_work_on_a_lost_node_ends_unknown_and_is_never_started_again() -> None:
    async with World() as world:
        agent, job = await world.running(effects="unsafe")
        await world.agent("n2")
        await agent.drop()
        await world.advance(30)
        assert world.state(job).phase == "UNKNOWN"
        assert len(world.audit.grants[job]) == 1


async def test_a_job_that_may_not_lose_a_node_fails() -> None:
    async with World() as world:
        agent, job = await world.running(retry=RetryPolicy(class_limits={"node-lost": 0}))
        await agent.drop()
        await world.advance(10)
        assert world.state(job).phase == "FAILED"
        assert world.audit.results[job].exit.failure == "node-lost"


async def test_listing_again_is_no_renewal() -> None:
    async with World() as world:
        agent, job = await world.running()
        await agent.silent()
        await world.advance(6)
        world.one.wire.hold_watch()
        await world.submit(cpu_milli=999_000)
        world.store.compact()
        world.one.wire.break_watch()
        await world.advance(1)
        assert world.one.view.lease_age_s("n1") == pytest.approx(7.0)
        await world.advance(2.6)
        assert "lease-lost" in world.kinds(job)


async def test_the_end_of_a_stream_is_no_renewal_also_when_it_is_seen_in_a_list() -> None:
    async with World(replicas=2) as world:
        agent, job = await world.running(replica=world.two)
        await agent.silent()
        await world.advance(6)
        world.one.wire.hold_watch()
        await agent.drop()
        await world.settle()
        world.store.compact()
        world.one.wire.break_watch()
        await world.advance(1)
        assert [replica.view.lease_age_s("n1") for replica in world.replicas] == pytest.approx([7.0, 7.0])
        await world.advance(2.6)
        assert "lease-lost" in world.kinds(job)


async def _five_nodes(world: World) -> list[ScriptedAgent]:
    agents = [await world.agent(f"n{n}", cpu_milli=1000) for n in range(5)]
    for job in await world.submit_many(5):
        await world.settle()
        (agent,) = [a for a in agents if job in a.starts]
        agent.started(agent.starts[job])
    await world.settle()
    return agents


async def test_a_storm_of_silence_pauses_evictions_once() -> None:
    async with World() as world:
        agents = await _five_nodes(world)
        for agent in agents[:3]:
            await agent.silent()
        await world.advance(17)
        assert {state.phase for state in world.audit.states.values()} == {"RUNNING"}
        await world.advance(3)
        lost = [job for job, events in world.audit.events.items() if any(e.kind == "lease-lost" for e in events)]
        assert len(lost) == 3


async def _long_dead(world: World) -> ScriptedAgent:
    """One of five nodes has been dead for long. Returns another one, and its job runs."""
    agents = await _five_nodes(world)
    await agents[0].silent()
    await world.advance(60)
    return agents[1]


async def test_a_node_that_has_been_dead_for_long_does_not_make_a_storm_of_one_loss() -> None:
    async with World() as world:
        agent = await _long_dead(world)
        (job,) = [job for job, state in world.audit.states.items() if _on(state, agent.info.name)]
        await agent.silent()
        await world.advance(9.6)
        assert "lease-lost" in world.kinds(job)


async def test_a_new_leader_knows_who_was_dead_before_it_began() -> None:
    async with World() as world:
        agent = await _long_dead(world)
        (job,) = [job for job, state in world.audit.states.items() if _on(state, agent.info.name)]
        await agent.silent()
        await world.one.crash()
        fresh = await world.add_replica()
        await world.until(lambda: fresh.leader.leading, within_s=10)
        seen = world.clock.monotonic() - (fresh.view.lease_age_s(agent.info.name) or 0)
        await world.advance(seen + 9.6 - world.clock.monotonic())
        assert "lease-lost" in world.kinds(job)


def _on(state: JobState, node: str) -> bool:
    return any(place.node == node for place in state.placements)


async def test_a_new_leader_pauses_for_its_own_storm() -> None:
    """The verdict of an earlier reign does not count."""
    async with World() as world:
        agents = await _five_nodes(world)
        for agent in agents[:3]:
            await agent.silent()
        await world.advance(20)
        kv = await world.store.get(keys.leader("local"))
        assert kv is not None
        await world.store.revoke_lease(kv.lease)
        for agent in agents:
            await agent.connect(world.one.sessions)
        await world.advance(5)
        for job, state in world.audit.states.items():
            for agent in agents:
                if state.phase == "STAGING" and job in agent.starts:
                    agent.started(agent.starts[job])
        await world.settle()
        assert {state.phase for state in world.audit.states.values()} == {"RUNNING"}
        before = {job: state.seq for job, state in world.audit.states.items()}
        for agent in agents:
            await agent.silent()
        await world.advance(15)
        assert {job: state.seq for job, state in world.audit.states.items()} == before


async def test_a_new_leader_counts_silence_from_when_it_first_saw_the_lease() -> None:
    async with World() as world:
        agent, job = await world.running()
        await agent.drop()
        await world.advance(8)
        await world.one.crash()
        fresh = await world.add_replica()
        await world.until(lambda: fresh.leader.leading, within_s=10)
        seen = world.clock.monotonic() - (fresh.view.lease_age_s("n1") or 0)
        await world.advance(seen + 8.9 - world.clock.monotonic())
        assert world.state(job).phase == "RUNNING"
        await world.advance(0.7)
        assert world.state(job).phase != "RUNNING"


async def test_a_cut_off_leader_decides_nothing_about_others() -> None:
    async with World() as world:
        _, job = await world.running()
        world.one.wire.hold_watch()
        await world.advance(60)
        assert world.state(job).phase == "RUNNING"
        world.one.wire.release_watch()
        await world.settle()
        (node,) = await world.one.nodes.nodes(ADMIN)
        assert node.ready
