"""Registration: a message of a dead process, or one that comes twice, takes nothing from a living agent."""

from pathlib import Path
from typing import Any

import pytest

from ares.agent.link.identity import begin_boot
from ares.api.nodes import NodeView
from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.link import Hello
from ares.ports.store import Put
from tests.world import ADMIN, World


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


async def test_a_removed_node_never_gets_an_incarnation_it_had() -> None:
    async with World() as world:
        agent, remove = await world.agent("n1"), world.one.nodes.remove
        await agent.drop()

        async def register(boot: int) -> int:
            agent.open(world.one.sessions, Hello(info=agent.info, boot=boot))
            await world.settle()
            return agent.welcome.incarnation

        first = await register(boot=7)
        for later in (1, 2):
            await agent.silent()
            await world.advance(9.5)
            assert isinstance(await remove(ADMIN, "n1"), NodeView)
            assert ("n1" in world.one.view.nodes, "n1" in world.one.view.leases) == (False, False)
            await agent.drop()
            # The same process, cut off for long: what it had is no longer its own.
            agent.open(
                world.one.sessions, Hello(info=agent.info, incarnation=first + later - 1, boot=7), renewing=False
            )
            await world.settle()
            assert "was removed" in str(agent.refused)
            # It ends everything and asks anew, as it does after every refusal.
            assert await register(boot=7) == first + later
        await agent.silent()
        await world.advance(9.5)
        await remove(ADMIN, "n1")
        await agent.drop()
        agent.open(world.one.sessions, Hello(info=agent.info, boot=6), renewing=False)
        await world.settle()
        assert "boot 7" in str(agent.refused)
        assert await register(boot=8) == first + 3


async def test_a_sign_of_life_that_lands_first_saves_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        agent = await world.agent("n1")
        await agent.silent()
        await world.advance(9.5)
        lease, txn = await world.store.get(keys.lease("n1")), world.one.wire.txn
        assert lease is not None

        async def after_a_renewal(*asked: Any) -> Any:
            await world.store.txn([], [Put(keys.lease("n1"), lease.value)])
            return await txn(*asked)

        monkeypatch.setattr(world.one.wire, "txn", after_a_renewal)
        assert isinstance(await world.one.nodes.remove(ADMIN, "n1"), Refusal)
        assert "n1" in world.one.view.nodes


def test_boots_grow_over_lost_files_and_clocks_set_back(tmp_path: Path) -> None:
    first = begin_boot(tmp_path, 1000.0)
    second = begin_boot(tmp_path, 10.0)
    (tmp_path / "boot").unlink()
    assert first < second < begin_boot(tmp_path, 2000.0)
