"""After a restore: what may have run in the time that is lost is not started again, and nothing is granted too soon."""

from ares.adapters.store.epoch import begin_epoch
from ares.model.link import Start
from ares.model.timing import DEFAULT
from tests.agents import ScriptedAgent
from tests.world import World


async def restored(world: World) -> None:
    """The same contents under the next epoch, and a new process that serves them."""
    await world.one.crash()
    world.epoch = await begin_epoch(world.store, world.rng)
    await world.add_replica()
    await world.settle()


def started(agent: ScriptedAgent) -> list[str]:
    return [str(message.ref.fence) for message in agent.received if isinstance(message, Start)]


async def test_a_grant_from_before_a_restore_is_not_started() -> None:
    async with World() as world:
        agent = await world.agent("n1")
        job = await world.submit()
        await world.settle()
        assert started(agent) == ["1.1"]
        await restored(world)
        await agent.connect(world.two.sessions)
        await world.until(lambda: world.state(job).phase in ("RETRYING", "PENDING"))
        await world.until(lambda: world.state(job).phase == "STAGING")
        assert started(agent) == [str(world.state(job).fence)]
        assert world.state(job).fence.epoch == 2


async def test_what_still_runs_goes_on() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        await restored(world)
        await agent.connect(world.two.sessions, alive=(start.ref,))
        await world.advance(2 * DEFAULT.dead_after_s)
        assert world.state(job).phase == "RUNNING"
        agent.exited(start)
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"


async def test_nothing_new_is_granted_until_the_lost_time_is_over_and_later_leaders_do_not_wait() -> None:
    async with World() as world:
        await restored(world)
        agent = await world.agent("n1", replica=world.two)
        await world.until(lambda: world.two.leader.leading)
        job = await world.submit(replica=world.two)
        await world.advance(DEFAULT.dead_after_s / 2)
        assert world.state(job).phase == "PENDING"
        await world.until(lambda: world.state(job).phase == "STAGING")
        await world.two.crash()
        later = await world.add_replica()
        await agent.connect(later.sessions)
        await world.until(lambda: later.leader.leading)
        second = await world.submit(replica=later)
        await world.advance(0.5)
        assert world.state(second).phase == "STAGING"
