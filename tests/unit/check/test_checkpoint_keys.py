"""Checkpoints in a store at rest: each lies under the key of its job, its attempt and its number."""

from ares.check.store import kinds
from ares.core import keys
from ares.model.base import Fence
from ares.model.checkpoint import CheckpointPart, CheckpointPointer, CheckpointRecord

JOB = "0123456789abcdef"


def test_a_checkpoint_is_named_by_its_key() -> None:
    fence = Fence(epoch=1, counter=3)
    pointer = CheckpointPointer(fence=fence, seq=12, manifest="a" * 64, size=1, step=12, taken_at=0.0)
    record = CheckpointRecord(job=JOB, pointer=pointer, parts=(CheckpointPart(rank=0, manifest="a" * 64, size=1),))
    tail = keys.checkpoint("acme", JOB, pointer.id).removeprefix(kinds.CHECKPOINTS.prefix)
    assert kinds.CHECKPOINTS.names(tail, record)
    assert not kinds.CHECKPOINTS.names(tail[:-1] + "3", record)
    assert not kinds.CHECKPOINTS.names(tail.replace("acme/", ""), record)
