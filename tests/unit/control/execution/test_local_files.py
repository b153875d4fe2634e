"""Files on the control plane's own disk, and what a node could misuse the way to them for.

Goal: where there is no object store there are no URLs; the same eleven misuses that a signed URL refuses
(tests/contract/objects) are refused of every piece, by what the control plane knows then. No clock takes part."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace

from ares.adapters.blobs.files import FileBlobs
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.base import AttemptRef, CheckpointRef, Fence
from ares.model.checkpoint import CheckpointAsk, CheckpointId, CheckpointPolicy
from ares.model.link import AgentFrame, FetchRequest, OutputAck, OutputChunk, Start
from tests.agents import ScriptedAgent
from tests.world import World

# pyright: reportPrivateUsage=false

DATA = b"these are the weights"
SHA = hashlib.sha256(DATA).hexdigest()
WRONG = b"those are the weights"


class Scene:
    """A job that may save on the node n1, another job of another tenant there, and the node n2, which has neither."""

    def __init__(self, world: World, blobs: FileBlobs, agents: tuple[ScriptedAgent, ScriptedAgent], job: str) -> None:
        self.world, self.blobs, self.job = world, blobs, job
        self.here, self.elsewhere = agents
        self.start: Start = self.here.starts[job]
        self.piece = OutputChunk(ref=self.start.ref, rank=0, sha256=SHA, size=len(DATA), offset=0, data=DATA, seq=1)

    async def answer(self, piece: OutputChunk, agent: ScriptedAgent | None = None) -> OutputAck:
        sender = agent or self.here
        before = len(sender.received)
        sender.send(piece)
        async with asyncio.timeout(30):
            while not (acks := [said for said in sender.received[before:] if isinstance(said, OutputAck)]):
                # Threads write the file.
                await asyncio.sleep(0.005)
        (ack,) = acks
        return ack

    async def kept(self) -> bool:
        ref = CheckpointRef(job=self.job, tenant=self.start.ref.tenant, fence=self.start.ref.fence, seq=1)
        try:
            return await self.blobs.read(ref, SHA, 0, len(DATA)) == DATA
        except FileNotFoundError:
            return False


@pytest_asyncio.fixture(params=[-300.0, 0.0, 300.0], ids=["300 s back", "right", "300 s ahead"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    async with World() as world:
        blobs = FileBlobs(tmp_path / "outputs")
        world.one.sessions._uploads._blobs = blobs
        assert world.one.staging._restoring is not None
        world.one.staging._restoring._blobs = blobs
        agent, job = await world.running(checkpoint=CheckpointPolicy())
        other = await world.agent("n2")
        world.clock.jump_wall(request.param)
        yield Scene(world, blobs, (agent, other), job)


# Each is one step away from a piece that is taken.
MISUSES: dict[str, Callable[[OutputChunk], OutputChunk]] = {
    "another job": lambda piece: replace(piece, ref=replace(piece.ref, job="f" * 16)),
    "another tenant": lambda piece: replace(piece, ref=replace(piece.ref, tenant="other")),
    "a later fence": lambda piece: replace(piece, ref=replace(piece.ref, fence=Fence(epoch=9, counter=9))),
    "an earlier fence": lambda piece: replace(piece, ref=replace(piece.ref, fence=Fence())),
    "another rank": lambda piece: replace(piece, rank=1),
    "other bytes": lambda piece: replace(piece, data=WRONG),
    "another digest": lambda piece: replace(piece, sha256=hashlib.sha256(WRONG).hexdigest()),
    "a key that climbs": lambda piece: replace(piece, sha256="../../../" + SHA[:8]),
    "fewer bytes than it says": lambda piece: replace(piece, size=len(DATA) - 1),
    "beyond its end": lambda piece: replace(piece, offset=7),
}


@pytest.mark.parametrize("misuse", MISUSES)
async def test_a_piece_is_taken_as_it_was_granted_and_in_no_other_way(scene: Scene, misuse: str) -> None:
    ack = await scene.answer(MISUSES[misuse](scene.piece))
    assert (ack.sealed, bool(ack.refused or ack.trouble)) == (False, True), ack
    assert not await scene.kept()
    # It did no harm: what was granted is still taken, once, and then stays.
    assert (await scene.answer(scene.piece)).sealed
    assert await scene.kept()
    await scene.answer(replace(scene.piece, data=WRONG))
    assert await scene.kept()


async def test_another_node_neither_writes_nor_reads_it(scene: Scene) -> None:
    assert (await scene.answer(scene.piece, scene.elsewhere)).refused
    assert not await scene.kept()
    assert (await scene.answer(scene.piece)).sealed
    ask = CheckpointAsk(checkpoint=CheckpointId(fence=scene.start.ref.fence, seq=1), sha256=SHA, length=len(DATA))
    asked = FetchRequest(ref=scene.start.ref, rank=0, checkpoint=ask, direct=True)
    for node, may in (("n1", True), ("n2", False)):
        who = Principal(token_id=f"node-{node}", tenant="system", role="node", node=node)
        found = await scene.world.one.staging.fetch(who, asked)
        assert isinstance(found, Refusal) != may, found
        if may:
            # Bytes, not a URL that others could use, also when a node asks for one.
            assert not isinstance(found, Refusal)
            pieces = [piece async for piece in found]
            assert [(piece.url, piece.data) for piece in pieces] == [("", DATA)]


async def test_nothing_is_taken_after_the_attempt_was_taken_away(scene: Scene) -> None:
    await scene.here.silent()
    await scene.world.advance(60.0)
    assert (await scene.answer(scene.piece)).refused
    assert not await scene.kept()


def test_a_piece_that_is_too_large_is_no_message() -> None:
    large = OutputChunk(ref=_REF, rank=0, sha256=SHA, size=5 << 20, offset=0, data=bytes(5 << 20))
    raw = msgspec.msgpack.encode(AgentFrame(messages=(large,)))
    with pytest.raises(msgspec.ValidationError, match="length"):
        msgspec.msgpack.decode(raw, type=AgentFrame)


_REF = AttemptRef(job="a" * 16, tenant="acme", fence=Fence())
