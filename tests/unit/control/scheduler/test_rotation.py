"""Turns by service in a running control plane: a job that saves its work makes room for one that has had none, and
goes on from where it was."""

from ares.model.job import Preemption
from tests.world import World

HOUR = 3600.0
SAVES = Preemption(checkpoint_signal="SIGUSR1")


async def test_a_job_that_has_had_its_hour_makes_room_and_goes_on_when_the_other_has_ended() -> None:
    async with World() as world:
        agent = await world.agent(gpus=1)
        old = await world.submit(gpus=1, preemption=SAVES)
        await world.until(lambda: old in agent.starts)
        agent.started(agent.starts[old])
        world.later(HOUR / 2)
        young = await world.submit(gpus=1, preemption=SAVES)
        await world.advance(60)
        assert world.state(old).phase == "RUNNING", "half an hour of service counts nothing yet"
        world.later(HOUR)
        await world.until(lambda: agent.stops)
        assert [stop.ref.job for stop in agent.stops] == [old]
        assert (world.state(old).phase, world.state(young).phase) == ("PREEMPTED", "PENDING")
        agent.obey()
        await world.until(lambda: young in agent.starts)
        agent.started(agent.starts[young])
        await world.advance(60)
        # Its turn comes again only when the other has had as much, or has ended.
        assert (world.state(old).phase, world.state(old).rotations) == ("PENDING", 1)
        agent.exited(agent.starts[young])
        await world.until(lambda: world.state(old).phase == "STAGING")
        again = agent.starts[old]
        agent.started(again)
        await world.advance(60)
        agent.exited(again)
        await world.until(lambda: world.state(old).phase == "SUCCEEDED")
        assert world.state(old).attempt == 2
