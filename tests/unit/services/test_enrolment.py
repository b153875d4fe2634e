"""Registration: a message of a dead process, or one that comes twice, takes nothing from a living agent."""

from pathlib import Path

from ares.model.link import Hello
from ares.services.agent.identity import begin_boot
from tests.world import World


async def test_asking_again_is_no_new_incarnation() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent("n1")
        await agent.drop()
        agent.open(world.one.sessions, Hello(info=agent.info, boot=7))
        await world.settle()
        first = agent.welcome.incarnation
        job = await world.submit()
        await world.settle()
        agent.started(agent.starts[job])
        # The very same hello, late, at another replica: the attempt must not count as lost.
        late = await world.agent("n2")
        late.info = agent.info
        await late.drop()
        late.open(world.two.sessions, Hello(info=agent.info, boot=7), renewing=False)
        await world.advance(2)
        assert late.welcome.incarnation == first
        assert world.state(job).fence.counter == 1
        assert world.state(job).phase == "RUNNING"


async def test_a_dead_process_cannot_take_the_place_of_a_later_one() -> None:
    async with World() as world:
        agent = await world.agent("n1")
        await agent.drop()
        agent.open(world.one.sessions, Hello(info=agent.info, boot=8))
        await world.settle()
        ghost = await world.agent("n2")
        ghost.info = agent.info
        await ghost.drop()
        ghost.open(world.one.sessions, Hello(info=agent.info, boot=7), renewing=False)
        await world.settle()
        assert "boot 8" in str(ghost.refused)
        assert world.one.view.nodes["n1"].incarnation == agent.welcome.incarnation


def test_boots_grow_over_lost_files_and_clocks_set_back(tmp_path: Path) -> None:
    first = begin_boot(tmp_path, 1000.0)
    second = begin_boot(tmp_path, 10.0)
    (tmp_path / "boot").unlink()
    assert first < second < begin_boot(tmp_path, 2000.0)
