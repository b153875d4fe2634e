"""Checkpoints: the list of files that each is named by, which are kept, how often one is due."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from ares.model.base import Fence
from ares.model.checkpoint import (
    CHECKPOINTS_MAX,
    CheckpointId,
    CheckpointKeep,
    CheckpointPart,
    CheckpointPointer,
    CheckpointRecord,
    KeepBest,
    RankSeal,
    SealingCheckpoint,
    SealingRecord,
)
from ares.model.state import OutputFile

# ---- the list of a checkpoint's files

_files = msgspec.json.Decoder(tuple[OutputFile, ...]).decode


def encode_manifest(files: Iterable[OutputFile]) -> bytes:
    """The list as it is kept: files with the same content under the same paths give the same bytes."""
    return msgspec.json.encode(sorted(files, key=lambda file: file.path))


def decode_manifest(data: bytes) -> tuple[OutputFile, ...]:
    """Raises ValueError for what is no such list."""
    return _files(data)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def whole_digest(parts: Sequence[CheckpointPart]) -> str:
    """Of one rank its own; of several, of all their digests in the order of ranks."""
    if len(parts) == 1:
        return parts[0].manifest
    return digest_of("\n".join(part.manifest for part in parts).encode())


# ---- a gang's checkpoint, until all its ranks have saved their part

# Numbers of one gang that may be on their way at once, and the parts of all of them: one record holds them.
OPEN_MAX: Final = 4
SEALS_MAX: Final = 4400


class StepMismatch(NamedTuple):
    """Ranks of a gang gave one number to different steps: what they saved does not belong together."""

    seq: int
    step: int
    other: int


def sealed_by(
    record: SealingRecord | None, job: str, fence: Fence, seq: int, step: int, seal: RankSeal
) -> SealingRecord | StepMismatch:
    """With the part of one more rank. A newer attempt begins anew; the oldest that are open give way."""
    others = () if record is None or record.fence != fence else record.open
    before = next((sealing for sealing in others if sealing.seq == seq), None)
    if before is not None and before.step != step:
        return StepMismatch(seq, step, before.step)
    rank = seal.part.rank
    seals = () if before is None else tuple(known for known in before.seals if known.part.rank != rank)
    first, *rest = sorted((*seals, seal), key=lambda known: known.part.rank)
    # Metrics of the first rank are the checkpoint's. Those of thousands of ranks would not fit into a record.
    bare = (known if not known.metrics else replace(known, metrics={}) for known in rest)
    now = SealingCheckpoint(seq=seq, step=step, seals=(first, *bare))
    open_ = sorted((*(sealing for sealing in others if sealing.seq != seq), now), key=lambda sealing: sealing.seq)
    return SealingRecord(job=job, fence=fence, open=_fitting(open_[-OPEN_MAX:]))


def _fitting(sealings: Sequence[SealingCheckpoint]) -> tuple[SealingCheckpoint, ...]:
    """The newest whose parts fit into one record."""
    left, kept = SEALS_MAX, list[SealingCheckpoint]()
    for sealing in reversed(sealings):
        left -= len(sealing.seals)
        if kept and left < 0:
            break
        kept.append(sealing)
    return tuple(reversed(kept))


def whole(record: SealingRecord, seq: int, ranks: Iterable[int]) -> CheckpointRecord | None:
    """The checkpoint, when every one of these ranks has saved its part."""
    sealing = next((sealing for sealing in record.open if sealing.seq == seq), None)
    if sealing is None or {seal.part.rank for seal in sealing.seals} != set(ranks):
        return None
    return joined(record.job, record.fence, seq, sealing.step, sealing.seals)


def joined(job: str, fence: Fence, seq: int, step: int, seals: Sequence[RankSeal]) -> CheckpointRecord:
    """The gang stood still as long as its slowest rank, and is saved when the last is."""
    parts = tuple(seal.part for seal in seals)
    pointer = CheckpointPointer(
        fence=fence, seq=seq, manifest=whole_digest(parts), size=sum(part.size for part in parts), step=step,
        # Work after the first rank had saved is not in the checkpoint.
        taken_at=min(seal.taken_at for seal in seals),
        stall_s=max(seal.stall_s for seal in seals), upload_s=max(seal.upload_s for seal in seals),
    )  # fmt: skip
    return CheckpointRecord(job=job, pointer=pointer, parts=parts, metrics=dict(seals[0].metrics))


# ---- one that another job goes on from


def taken_over(record: CheckpointRecord, job: str, epoch: int) -> CheckpointRecord:
    """As the first checkpoint of a new job: older than all of its own."""
    pointer, source = record.pointer, f"{record.job} {record.pointer.id}"
    first = replace(pointer, fence=Fence(epoch=epoch, counter=0), nth=0)
    return replace(record, job=job, pointer=first, origin=source)


# ---- which are kept

# While a job lives: the newest may be damaged without a sign of it.
NEWEST_KEPT: Final = 2


def retained(
    records: Sequence[CheckpointRecord], keep: CheckpointKeep, *, live: bool, restoring: Fence | None = None
) -> frozenset[CheckpointId]:
    """The checkpoints to keep of those there are. `restoring`: the fence of an attempt that is about to go on from one
    that was there before it."""
    ordered = sorted(records, key=lambda record: record.pointer.id)
    kept = {record.pointer.id for record in ordered[-max(keep.last, NEWEST_KEPT if live else 1) :]}
    if restoring is not None:
        older = [record.pointer.id for record in ordered if record.pointer.fence < restoring]
        kept |= set(older[-NEWEST_KEPT:])
    if keep.every_s is not None:
        kept |= _spaced(ordered, keep.every_s)
    if keep.best is not None:
        kept |= _best(ordered, keep.best)
    # The newest count first, whatever the rest asks for.
    return frozenset(sorted(kept)[-CHECKPOINTS_MAX:])


def _spaced(ordered: Sequence[CheckpointRecord], every_s: float) -> set[CheckpointId]:
    """The first of each stretch of time: it stays the same one as newer ones come."""
    first: dict[int, CheckpointId] = {}
    for record in ordered:
        first.setdefault(int(record.pointer.taken_at // every_s), record.pointer.id)
    return set(first.values())


def _best(ordered: Sequence[CheckpointRecord], best: KeepBest) -> set[CheckpointId]:
    sign = 1 if best.goal == "min" else -1
    known = [record for record in ordered if best.metric in record.metrics]
    # Of equals the newest is as good, and further on.
    known.sort(key=lambda record: record.pointer.id, reverse=True)
    known.sort(key=lambda record: sign * record.metrics[best.metric])
    return {record.pointer.id for record in known[: best.n]}


# ---- how often one is due

# Before anything is known of a job: what one costs, and how long it runs until something takes it away.
FIRST_STALL_S: Final = 1.0
UNDISTURBED_S: Final = 6 * 3600.0
INTERVAL_MIN_S: Final = 10.0
INTERVAL_MAX_S: Final = 6 * 3600.0


def interrupted_every_s(ran_s: float, interruptions: int) -> float:
    """The mean time between interruptions, as if one more had happened in some hours more than the job has run."""
    return (UNDISTURBED_S + max(0.0, ran_s)) / (1 + max(0, interruptions))


def interval_s(stall_s: float, between_s: float) -> float:
    """The interval that loses least, by Young and Daly: the root of 2dM, less d, where a checkpoint costs d and the
    job is interrupted every M."""
    stall_s = max(stall_s, 1e-3)
    return min(INTERVAL_MAX_S, max(INTERVAL_MIN_S, math.sqrt(2 * stall_s * between_s) - stall_s))


def due_before_s(stall_s: float, upload_s: float) -> float:
    """How long before its end an attempt must begin to save, so that the checkpoint is kept by then."""
    return (stall_s + upload_s) * 1.5
