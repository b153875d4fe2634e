"""Checkpoints for attempts: a disk that fails is not a checkpoint that is lost, and the list fits into an answer."""

import errno

import msgspec
import pytest

from ares.core import keys
from ares.model.access import Principal
from ares.model.base import CheckpointRef, Fence
from ares.model.checkpoint import (
    CheckpointAsk,
    CheckpointId,
    CheckpointPart,
    CheckpointPointer,
    CheckpointPolicy,
    CheckpointRecord,
    RestorableCheckpoint,
)
from ares.model.job import Gang
from ares.model.link import FetchPiece, FetchRequest
from ares.ports.store import Put
from tests.world import World

NODE = Principal(token_id="node-n1", tenant="system", role="node", node="n1")
OLD = Fence(epoch=0, counter=1)
BEFORE = CheckpointId(fence=OLD, seq=1)


async def fetched(world: World, job: str, ask: CheckpointAsk, rank: int = 0) -> list[FetchPiece]:
    state = world.state(job)
    ref = world.agents[0].starts[job].ref
    assert state.fence == ref.fence
    found = await world.one.staging.fetch(NODE, FetchRequest(ref=ref, rank=rank, checkpoint=ask))
    assert not hasattr(found, "code"), found
    return [piece async for piece in found]  # type: ignore[union-attr]


async def test_a_disk_that_fails_is_not_told_as_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        _, job = await world.running(checkpoint=CheckpointPolicy())

        async def fails(ref: CheckpointRef, sha256: str, offset: int, limit: int) -> bytes:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(world.blobs, "read", fails)
        with pytest.raises(OSError, match="Too many open files"):
            await fetched(world, job, CheckpointAsk(checkpoint=BEFORE, sha256="a" * 64))


async def test_a_long_list_has_the_newest_and_fits() -> None:
    async with World() as world:
        _, job = await world.running(checkpoint=CheckpointPolicy())
        parts = tuple(CheckpointPart(rank=rank, manifest="a" * 64, size=1) for rank in range(4000))
        for seq in range(10):
            pointer = CheckpointPointer(fence=OLD, seq=seq, manifest="a" * 64, size=1, step=seq, taken_at=1.0)
            record = CheckpointRecord(job=job, pointer=pointer, parts=parts)
            key = keys.checkpoint(world.state(job).tenant, job, pointer.id)
            await world.store.txn([], [Put(key, msgspec.json.encode(record))])
        (piece,) = await fetched(world, job, CheckpointAsk())
        assert len(piece.data) < 4 << 20
        listed = msgspec.json.decode(piece.data, type=tuple[RestorableCheckpoint, ...])
        assert [checkpoint.pointer.seq for checkpoint in listed] == [9, 8, 7, 6, 5]
        (rest,) = await fetched(world, job, CheckpointAsk(offset=len(piece.data)))
        assert rest.data == b""


@pytest.mark.parametrize("all_ranks", [False, True])
async def test_a_rank_gets_its_own_part_or_those_of_all(all_ranks: bool) -> None:
    async with World() as world:
        for node in ("n1", "n2"):
            await world.agent(node)
        gang, policy = Gang(ranks=2, per_node=1), CheckpointPolicy(all_ranks=all_ranks)
        job = await world.submit(checkpoint=policy, gang=gang)
        await world.until(lambda: job in world.agents[0].starts)
        parts = tuple(CheckpointPart(rank=rank, manifest="a" * 64, size=1) for rank in range(2))
        pointer = CheckpointPointer(fence=OLD, seq=1, manifest="a" * 64, size=2, step=1, taken_at=1.0)
        record = CheckpointRecord(job=job, pointer=pointer, parts=parts)
        await world.store.txn(
            [], [Put(keys.checkpoint(world.state(job).tenant, job, pointer.id), msgspec.json.encode(record))]
        )
        own = world.agents[0].starts[job].placement.rank
        (piece,) = await fetched(world, job, CheckpointAsk(), own)
        (listed,) = msgspec.json.decode(piece.data, type=list[RestorableCheckpoint])
        assert ([part.rank for part in listed.parts], listed.ranks) == ([0, 1] if all_ranks else [own], 2)
