"""Records that cannot be used are set aside and told of; nothing else stands still for them."""

from collections.abc import Sequence

import msgspec
import pytest

from ares.api.nodes import NodeView
from ares.core import keys
from ares.model.link import Hello
from ares.model.node import NodeInfo, NodeRecord
from ares.ports.store import Put, StoreChange
from tests.audit import Audit
from tests.world import ADMIN, World

# As a version before this one believed it: columns of 64 bits cannot hold it.
HUGE = msgspec.json.encode(
    {"info": {"name": "n9", "cpuMilli": 2**63, "memoryMib": 1024}, "incarnation": 7, "registeredAt": 1.0}
)


class _Blind(Audit):
    """Judges nothing."""

    def take(self, changes: Sequence[StoreChange]) -> None:
        return


async def _written_before(world: World, key: str, value: bytes) -> None:
    judge, world.store.audit = world.store.audit, _Blind()
    await world.store.txn([], [Put(key, value)])
    world.store.audit = judge


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.node("n9"), HUGE),
        (keys.node("n9"), b"\xff\x00 no record at all"),
        (keys.node("n9"), HUGE.replace(str(2**63).encode(), b"null")),
        (keys.state("alpha", "gone"), b'{"id":"gone"}'),
        (keys.lease("n9"), b"[]"),
        (keys.token("k9"), b'{"id":7}'),
        (f"{keys.PROFILES}not-a-number", b"{}"),
        (f"{keys.PROFILES}9", b"{"),
        (f"{keys.RESERVATIONS}r9", b"[" * 100_000),
    ],
    ids=["2**63", "rubbish", "null", "state", "lease", "token", "name", "profile", "deep"],
)
async def test_a_record_that_cannot_be_used_ends_nothing(key: str, value: bytes) -> None:
    async with World() as world:
        agent = await world.agent(auto=True)
        await _written_before(world, key, value)
        job = await world.submit()
        await world.advance(2)
        assert world.state(job).phase == "SUCCEEDED"
        assert list(world.one.view.aside.records) == [key]
        # Also for a replica that finds it when it starts.
        world.one.wire.break_watch()
        other = await world.submit()
        await world.advance(2)
        assert world.state(other).phase == "SUCCEEDED"
        assert list(world.one.view.aside.records) == [key]
        told = await world.one.alerts.listed(ADMIN, platform=True)
        assert told is not None
        assert [(one.kind, one.subject) for one in told] == [("record-set-aside", key)]
        assert agent.connected


async def test_a_node_with_an_unusable_record_comes_back_under_a_higher_number() -> None:
    async with World() as world:
        await _written_before(world, keys.node("n9"), HUGE)
        await world.settle()
        assert "n9" not in world.one.view.nodes
        agent = await world.agent("n9")
        assert agent.welcome.incarnation == 8
        assert world.one.view.nodes["n9"].info.cpu_milli == 4000
        assert not world.one.view.aside.records


@pytest.mark.parametrize("value", [HUGE, b"rubbish"])
async def test_a_node_with_an_unusable_record_can_be_removed(value: bytes) -> None:
    async with World() as world:
        await _written_before(world, keys.node("n9"), value)
        await world.settle()
        assert isinstance(await world.one.nodes.remove(ADMIN, "n9"), NodeView)
        assert await world.store.get(keys.node("n9")) is None
        await world.settle()
        assert not world.one.view.aside.records


async def test_a_hello_that_says_what_no_machine_is_gets_no_session() -> None:
    async with World() as world:
        agent = await world.agent("n1")
        twice = {"gpus": (gpu := {"index": 0, "uuid": "a", "model": "b", "memoryMib": 1}, gpu)}
        info = msgspec.convert({"name": "n1", "cpuMilli": 1, "memoryMib": 1, **twice}, NodeInfo)
        await agent.drop()
        agent.open(world.one.sessions, Hello(info=info), renewing=False)
        await world.settle()
        assert "2 GPUs with 1 different indexes" in str(agent.refused)
        kv = await world.store.get(keys.node("n1"))
        assert kv is not None
        assert msgspec.json.decode(kv.value, type=NodeRecord).info.gpus == ()
        told = await world.one.alerts.listed(ADMIN, platform=True)
        assert told is not None
        assert [one.kind for one in told] == ["agent-malformed"]
