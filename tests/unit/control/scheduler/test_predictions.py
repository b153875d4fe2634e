"""Run times and starts in a running control plane: learned, told, judged, kept over restarts."""

import msgspec

from ares.api.predictions import HeldOut
from ares.core import keys
from ares.core.forecast.eta import EtasData
from ares.core.forecast.trees import FEATURES, Tree, TreeModel
from ares.core.refusal import Refusal
from tests.agents import ScriptedAgent
from tests.world import ALICE, World, spec

LEAF = Tree(feature=(-1,), threshold=(0.0,), left=(0,), right=(0,), value=(5.0,), unknown_left=(0,))
BETTER = HeldOut(jobs=9, model_mae_s=1.0, model_distance=0.1, history_mae_s=2.0, history_distance=0.2)
MODEL = TreeModel(trees=(LEAF,), base=0.0, features=FEATURES, held_out=BETTER, source="a trace")


async def ran(world: World, agent: ScriptedAgent, seconds: float, name: str = "job") -> str:
    """A job that took the whole node for so long."""
    job = await world.submit(cpu_milli=4_000, name=name)
    await world.settle()
    agent.started(agent.starts[job])
    await world.advance(seconds)
    agent.exited(agent.starts[job])
    await world.settle()
    assert world.state(job).phase == "SUCCEEDED"
    return job


async def test_every_replica_learns_and_a_new_one_catches_up() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent()
        for _ in range(3):
            await ran(world, agent, 300.0, name="train")
        third = await world.add_replica()
        await world.settle()
        for replica in (*world.replicas, third):
            found = await replica.predictions.job(ALICE, spec(name="train", cpu_milli=4_000))
            assert found.runtime is not None
            assert 299.0 <= found.runtime.seconds <= 305.0
            assert found.runtime.basis == "3 runs of that name, shape and time limit"


async def test_a_job_that_waits_is_told_when_it_starts_and_judged_when_it_did() -> None:
    async with World() as world:
        agent = await world.agent()
        await ran(world, agent, 600.0, name="train")
        first = await world.submit(cpu_milli=4_000, name="train")
        # Of jobs of one moment the id says which came first, and ids are drawn.
        await world.advance(0.5)
        second = await world.submit(cpu_milli=4_000, name="train")
        await world.settle()
        agent.started(agent.starts[first])
        await world.advance(3.0)
        detail = await world.one.jobs.get(ALICE, second)
        assert detail is not None
        assert detail.waiting is not None
        told, now = detail.waiting.eta, world.clock.wall()
        assert told is not None
        assert told.latest is not None
        assert now < told.earliest < now + 600.0 < told.latest
        assert told.computed_at == now
        explained = await world.one.explain.job(ALICE, second)
        assert explained is not None
        assert explained.eta == told
        await world.advance(590.0)
        agent.exited(agent.starts[first])
        await world.until(lambda: second in agent.starts)
        report = await world.one.predictions.report()
        assert (report.starts.first.given, report.starts.first.within) == (1, 1)
        assert report.runtimes.jobs == 1, "of the two that ended, the first came when nobody could say anything"
        metrics = world.one.telemetry.render().decode()
        assert 'ares_eta_total{within="yes"} 1.0' in metrics


async def test_who_starts_at_once_and_who_is_cancelled_is_not_judged() -> None:
    async with World() as world:
        agent = await world.agent()
        await ran(world, agent, 60.0)
        holds = await world.submit(cpu_milli=4_000)
        await world.advance(0.5)
        waits = await world.submit(cpu_milli=4_000)
        await world.settle()
        agent.started(agent.starts[holds])
        await world.advance(3.0)
        assert waits in world.one.planner.etas
        await world.one.jobs.cancel(ALICE, waits)
        await world.settle()
        assert waits not in world.one.planner.etas
        assert world.one.planner.etas.first.given == 0


async def test_what_was_learned_about_starts_outlives_the_leader() -> None:
    async with World(replicas=2) as world:
        (leader,) = world.leading()
        (other,) = [one for one in world.replicas if one is not leader]
        agent = await world.agent(replica=other)
        await ran(world, agent, 100.0)
        holds = await world.submit(cpu_milli=4_000, replica=other)
        # Of jobs of one moment the id says which came first, and ids are drawn.
        await world.advance(0.5)
        await world.submit(cpu_milli=4_000, replica=other)
        await world.settle()
        agent.started(agent.starts[holds])
        await world.advance(90.0)
        agent.exited(agent.starts[holds])
        await world.advance(130.0)
        kept = await world.store.get(keys.PREDICTIONS)
        assert kept is not None
        assert msgspec.json.decode(kept.value, type=EtasData).first.given == 1
        assert other.planner.etas.first.given == 1, "a follower answers by it"
        await leader.crash()
        await world.until(lambda: other.leader.leading)
        await world.advance(3.0)
        assert (await other.predictions.report()).starts.first.given == 1


async def test_a_job_that_can_never_run_is_told_nothing() -> None:
    async with World() as world:
        await world.agent()
        job = await world.submit(gpus=1000)
        await world.advance(3.0)
        detail = await world.one.jobs.get(ALICE, job)
        assert detail is not None
        assert detail.waiting is not None
        assert (detail.waiting.remedy, detail.waiting.eta) == ("yours", None)


async def test_a_model_is_installed_used_when_better_and_removed() -> None:
    async with World(replicas=2) as world:
        asked = spec(time_limit_s=3600.0)
        bad = msgspec.structs.replace(MODEL, features=("moon",))
        assert isinstance(await world.one.predictions.install(bad), Refusal)
        await world.one.predictions.install(MODEL)
        await world.advance(61.0)
        for replica in world.replicas:
            found = await replica.predictions.job(ALICE, asked)
            assert found.runtime is not None
            assert round(found.runtime.seconds) == 148
        worse = msgspec.structs.replace(MODEL, held_out=msgspec.structs.replace(BETTER, model_mae_s=3.0))
        shown = await world.one.predictions.install(worse)
        assert not isinstance(shown, Refusal)
        assert not shown.used
        found = await world.one.predictions.job(ALICE, asked)
        assert found.runtime is not None
        assert found.runtime.seconds == 3600.0
        assert await world.one.predictions.uninstall()
        assert not await world.one.predictions.uninstall()
        assert (await world.one.predictions.report()).model is None
