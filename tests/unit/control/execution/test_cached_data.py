"""Datasets that nodes say they have: kept in their records as far as they are there, and forgotten with the cache."""

import msgspec

from ares.core import keys
from ares.model.dataset import DatasetRecord, DatasetVersion
from ares.model.link import Cached, Hello
from ares.ports.store import Put
from tests.world import World

MINE, GONE = "a" * 64, "b" * 64


async def publish(world: World, tenant: str, name: str, sha256: str) -> None:
    record = DatasetRecord(tenant=tenant, name=name, versions=(DatasetVersion(sha256=sha256, bytes=1 << 30),))
    await world.store.txn([], [Put(keys.dataset(tenant, name), msgspec.json.encode(record))])


async def test_what_a_node_has_is_in_its_record_as_far_as_it_is_published() -> None:
    async with World() as world:
        await publish(world, "default", "films", MINE)
        agent = await world.agent("n1")
        agent.send(Cached(versions=(f"default@sha256:{MINE}", f"default@sha256:{GONE}", f"other@sha256:{MINE}", "x")))
        await world.advance(5)
        assert world.one.view.nodes["n1"].cached == (f"default@sha256:{MINE}",)
        assert world.one.view.nodes["n1"].datasets == (f"default@sha256:{MINE}",)
        # The same agent after a broken stream still has it; one that starts anew says so again.
        await agent.drop()
        agent.open(world.one.sessions, Hello(info=agent.info, incarnation=1))
        await world.settle()
        assert world.one.view.nodes["n1"].cached == (f"default@sha256:{MINE}",)
        await agent.drop()
        agent.open(world.one.sessions, Hello(info=agent.info, boot=9))
        await world.settle()
        assert world.one.view.nodes["n1"].cached == ()


async def test_a_node_that_changes_its_mind_all_the_time_is_written_seldom() -> None:
    async with World() as world:
        await publish(world, "default", "films", MINE)
        agent = await world.agent("n1")
        seen = set[tuple[str, ...]]()
        world.one.view.subscribe(lambda delta: seen.update(world.one.view.nodes[name].cached for name in delta.nodes))
        agent.send(Cached(versions=(f"default@sha256:{MINE}",)))
        await world.advance(4)
        agent.send(Cached())
        await world.advance(4)
        assert seen == {(f"default@sha256:{MINE}",)}
        await world.advance(10)
        assert world.one.view.nodes["n1"].cached == ()
