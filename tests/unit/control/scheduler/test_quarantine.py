"""Nodes that lose their work again and again get nothing new for a while, longer each time, and it is said."""

from ares.control.scheduler.quarantine import KEY
from tests.agents import ScriptedAgent
from tests.world import ALICE, World


async def _flap(world: World, agent: ScriptedAgent, times: int = 3) -> None:
    """Its agent restarts, each time with a job on it."""
    for number in range(times):
        job = await world.submit(selector={"node": agent.info.name})
        await world.until(lambda job=job: job in agent.starts, within_s=60)
        await agent.connect(world.one.sessions, fresh=True)
        await world.until(lambda job=job: "lease-lost" in world.kinds(job), within_s=5)
        if number < times - 1:
            await world.one.jobs.cancel(ALICE, job)
    await world.advance(2)


def _taints(world: World, node: str) -> list[tuple[str, str]]:
    return [(taint.key, taint.effect) for taint in world.one.view.nodes[node].taints]


async def test_a_node_that_flaps_is_put_in_quarantine_and_let_out_again() -> None:
    async with World() as world:
        agents = [await world.agent(f"n{number}") for number in range(4)]
        await _flap(world, agents[0])
        assert _taints(world, "n0") == [(KEY, "no-schedule")]
        (alert,) = [one for one in world.one.view.kept.alerts.values() if one.kind == "node-flapping"]
        assert "lost its work 3 times within 10 minutes" in alert.text
        await world.advance(31)
        assert _taints(world, "n0") == []
        # The next pause is twice as long.
        await _flap(world, agents[0])
        assert _taints(world, "n0") == [(KEY, "no-schedule")]
        await world.advance(31)
        assert _taints(world, "n0") == [(KEY, "no-schedule")]
        await world.advance(31)
        assert _taints(world, "n0") == []


async def test_where_few_are_left_a_node_that_flaps_is_only_the_last_choice() -> None:
    async with World() as world:
        agent = await world.agent("n0")
        await _flap(world, agent)
        assert _taints(world, "n0") == [(KEY, "prefer-not")]
        job = await world.submit()
        await world.until(lambda: job in agent.starts, within_s=5)
