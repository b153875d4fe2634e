"""Draining a node: what may move saves its work and goes on elsewhere, what may not is named and ends by itself."""

import pytest

from ares.api.nodes import DrainStatus
from ares.control.scheduler.drain import AT_ONCE
from ares.model.job import Gang, Preemption
from ares.model.node import Taint
from tests.agents import ScriptedAgent
from tests.world import ADMIN, BOB, World

SAVES = Preemption(checkpoint_signal="SIGUSR2", wait_s=12.0)
STAYS = Preemption(allowed=False)


async def start_all(world: World, *agents: ScriptedAgent) -> None:
    await world.settle()
    for agent in agents:
        for start in agent.starts.values():
            agent.started(start)
    await world.settle()


async def status(world: World, node: str = "n1") -> DrainStatus:
    found = await world.one.drain.status(ADMIN, node)
    assert found is not None
    return found


async def test_what_may_move_saves_its_work_and_goes_on_elsewhere_at_once() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent("n1")
        # Preempted a moment ago, and just begun: an operator's word counts all the same.
        job = await world.submit(preemption=SAVES)
        stays = await world.submit(preemption=STAYS)
        await start_all(world, agent)
        other = await world.agent("n2")
        await world.two.nodes.drain(ADMIN, "n1", "new disk")
        await world.settle()
        assert [(stop.ref.job, stop.checkpoint_signal) for stop in agent.stops] == [(job, "SIGUSR2")]
        assert (await status(world)).message == (
            f"2 of 2 jobs still there; job {stays}: it does not allow preemption, so it ends by itself"
        )
        agent.obey()
        await world.settle()
        assert other.starts.keys() == {job}
        (told,) = [event for event in world.audit.events[job] if event.kind == "preempted"]
        assert told.reason == "node n1 is drained by admin-token: new disk"
        assert (told.data["rule"], told.data["for"]) == ("drain", {"operator": "admin-token"})
        assert told.data["victims"][0]["job"] == job
        before = await status(world)
        assert ([one.job for one in before.left], before.jobs, before.done) == ([stays], 2, False)
        agent.exited(agent.starts[stays])
        await world.settle()
        after = await status(world)
        assert (after.done, after.message) == (True, "done: nothing is left of 2 jobs")
        assert world.state(stays).phase == "SUCCEEDED"


async def test_a_gang_with_one_rank_there_moves_as_a_whole() -> None:
    async with World() as world:
        agents = [await world.agent(name, cpu_milli=1000) for name in ("n1", "n2")]
        job = await world.submit(gang=Gang(ranks=2, per_node=1))
        await start_all(world, *agents)
        third = await world.agent("n3", cpu_milli=1000)
        await world.one.nodes.drain(ADMIN, "n1")
        await world.settle()
        for agent in agents:
            assert [stop.ref.job for stop in agent.stops] == [job]
            agent.obey()
        await world.settle()
        assert {place.node for place in world.state(job).placements} == {"n2", "n3"}
        assert third.starts.keys() == {job}


async def test_only_so_many_save_their_work_at_once() -> None:
    async with World() as world:
        agent = await world.agent("n1", cpu_milli=1000 * (AT_ONCE + 3))
        jobs = await world.submit_many(AT_ONCE + 3)
        await start_all(world, agent)
        await world.one.nodes.drain(ADMIN, "n1")
        await world.advance(5)
        assert len(agent.stops) == AT_ONCE
        agent.obey()
        await world.advance(5)
        assert {stop.ref.job for stop in agent.stops} == set(jobs)


@pytest.mark.parametrize("word", ["undrain", "uncordon"])
async def test_nothing_new_comes_until_the_node_is_let_back_and_a_restarted_agent_changes_nothing(word: str) -> None:
    async with World() as world:
        agent = await world.agent("n1")
        await world.one.nodes.taint(ADMIN, "n1", Taint(key="disk", value="old", effect="prefer-not"))
        await world.one.nodes.drain(ADMIN, "n1")
        await agent.connect(world.one.sessions, fresh=True)
        job = await world.submit()
        await world.advance(2)
        node = world.one.view.nodes["n1"]
        assert (node.drained_by, node.cordoned, len(node.taints)) == ("admin-token", True, 1)
        assert (world.state(job).phase, (await status(world)).done) == ("PENDING", True)
        # By either word: work let back onto a node that is still drained would be moved away at once.
        await (
            world.one.nodes.cordon(ADMIN, "n1", on=False)
            if word == "uncordon"
            else world.one.nodes.undrain(ADMIN, "n1")
        )
        await world.settle()
        assert world.state(job).phase == "STAGING"
        assert await world.one.drain.status(ADMIN, "n1") is None


async def test_a_new_leader_goes_on_with_a_drain() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent("n1", replica=world.two)
        job = await world.submit()
        await start_all(world, agent)
        (leader,) = world.leading()
        (follower,) = [one for one in world.replicas if one is not leader]
        await leader.crash()
        await follower.nodes.drain(ADMIN, "n1")
        await world.until(lambda: follower.leader.leading, within_s=30)
        await world.settle()
        assert [stop.ref.job for stop in agent.stops] == [job]


async def test_taints_keep_jobs_away_and_other_tenants_jobs_are_not_named() -> None:
    async with World() as world:
        agent = await world.agent("n1")
        job = await world.submit(preemption=STAYS)
        await start_all(world, agent)
        await world.one.nodes.taint(ADMIN, "n1", Taint(key="only", value="bob"))
        waits = await world.submit()
        await world.advance(1)
        reason = world.one.planner.reason(waits)
        assert reason is not None
        assert reason.code == "TAINTED"
        await world.one.nodes.untaint(ADMIN, "n1", "only")
        await world.settle()
        assert world.state(waits).phase == "STAGING"
        await world.one.nodes.drain(ADMIN, "n1")
        seen = await world.one.drain.status(BOB, "n1")
        assert seen is not None
        assert {one.job for one in seen.left} == {""}
        assert job not in seen.message
