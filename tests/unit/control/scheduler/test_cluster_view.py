"""The scheduler's picture of the cluster: the same on every replica, however late it hears of things."""

import pytest

from ares.control.scheduler import cluster_view
from ares.control.scheduler.monitor import ready as is_ready
from ares.control.state.view import View
from ares.model.job import Resources
from tests.world import ADMIN, World


@pytest.mark.parametrize("anew", [False, True])
async def test_a_replica_that_hears_of_everything_at_once_counts_what_was_used_like_the_others(anew: bool) -> None:
    async with World(replicas=2) as world:
        agent = await world.agent()
        world.two.wire.hold_watch()
        job = await world.submit()
        await world.settle()
        agent.started(agent.starts[job])
        await world.advance(100)
        if anew:
            # With another half-life all use is counted again.
            await world.one.profiles.change(ADMIN, {"order.half_life_s": "3600"})
        await world.advance(50)
        agent.exited(agent.starts[job])
        await world.advance(20)
        world.two.wire.release_watch()
        await world.settle()
        used = [one.planner.cluster.usage.of("alpha", world.clock.wall()) for one in world.replicas]
        assert used == pytest.approx([150 / 16 / 3600] * 2, rel=0.05)


async def test_a_job_of_several_alternatives_waits_for_the_one_that_will_fit() -> None:
    async with World() as world:
        await world.agent()
        fits_later = Resources(cpu_milli=4_000)
        first = await world.submit(cpu_milli=4_000)
        await world.settle()
        second = await world.submit(gpus=8, alternatives=(fits_later,))
        await world.settle()
        assert world.one.planner.reason(first) is None
        reason = world.one.planner.reason(second)
        assert reason is not None
        assert (reason.code, reason.remedy) == ("INSUFFICIENT_CPU", "wait")


async def test_nodes_are_looked_at_again_only_when_one_may_have_fallen_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World(scheduling=False) as world:
        agents = [await world.agent(name) for name in ("n1", "n2")]
        live, looked = world.one.planner, list[str]()

        def ready(view: View, node: str) -> bool:
            looked.append(node)
            return is_ready(view, node)

        live.refresh_ready()
        await agents[1].silent()
        monkeypatch.setattr(cluster_view, "ready", ready)
        await world.advance(0.5)
        looked.clear()
        live.refresh_ready()
        assert not looked, "no lease can be over yet"
        await world.advance(9.5)
        live.refresh_ready()
        assert set(live.cluster.ready_nodes) == {"n1"}
        await agents[0].silent()
        await world.advance(10.0)
        live.refresh_ready()
        assert not live.cluster.some_ready
