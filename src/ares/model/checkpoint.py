"""Checkpoints: what a job asks of them, and what is known of each one that is kept."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import AttemptRef, Fence, Instant, Line, Number, OutputFile, Record, Sha256, Words

# Of one job that are kept at once, whatever it asks for.
CHECKPOINTS_MAX = 100
METRICS_MAX = 64
MetricName = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[\x21-\x7e]+$(?!\n)")]
Metric = Annotated[float, Meta(ge=-1e300, le=1e300)]
Metrics = Annotated[dict[MetricName, Metric], Meta(max_length=METRICS_MAX)]


# ---- what a job asks for


class KeepBest(Record, frozen=True):
    """The `n` checkpoints with the best value of a metric."""

    metric: MetricName
    n: Annotated[int, Meta(ge=1, le=20)] = 1
    goal: Literal["min", "max"] = "min"


class CheckpointKeep(Record, frozen=True):
    """Which checkpoints are kept: the newest, one of each stretch of time, and the best. While the job lives the newest
    two are, whatever this says."""

    last: Annotated[int, Meta(ge=1, le=50)] = 2
    every_s: Annotated[float, Meta(ge=1.0, le=31_536_000.0)] | None = None
    best: KeepBest | None = None


class CheckpointPolicy(Record, frozen=True):
    """The job saves checkpoints, and goes on from the newest when it is started again."""

    keep: CheckpointKeep = CheckpointKeep()
    # How often one is due; None: as often as pays, by what one costs and how often the job is interrupted.
    interval_s: Annotated[float, Meta(ge=1.0, le=31_536_000.0)] | None = None
    # A job that has checkpoints of which none is whole any more fails; otherwise it begins anew.
    required: bool = False
    # Each rank of a gang gets what all ranks saved, in `rank-0/` and so on, and not its own part alone: for files that
    # ranks write together.
    all_ranks: bool = False


class RestoreFrom(Record, frozen=True):
    """The checkpoint of another job of the tenant that a new job goes on from: number `seq`, or its newest."""

    job: Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)")]
    seq: Number | None = None


# ---- what is kept


class CheckpointId(Record, frozen=True, order=True):
    """Checkpoints of a job come in this order: by attempt, then by number."""

    fence: Fence
    seq: Number

    def __str__(self) -> str:
        return f"{self.fence}/{self.seq}"


class CheckpointPointer(Record, frozen=True):
    """The newest checkpoint of a job, as its state has it."""

    fence: Fence
    seq: Number
    # The digest of the list of its files; of a gang, of its ranks' lists.
    manifest: Sha256
    size: Number
    step: Number
    # Wall-clock seconds since the epoch: when the job had saved it.
    taken_at: Instant
    # How long the job stood still for it, and how long it was on its way.
    stall_s: Instant = 0.0
    upload_s: Instant = 0.0
    # How many the job has saved, with this one.
    nth: Number = 0

    @property
    def id(self) -> CheckpointId:
        return CheckpointId(fence=self.fence, seq=self.seq)


class CheckpointPart(Record, frozen=True):
    """What one rank saved: the digest of the list of its files, which lies beside them."""

    rank: Number
    manifest: Sha256
    size: Number


class CheckpointRecord(Record, frozen=True):
    """One checkpoint that is kept. `origin`: the job and checkpoint that it was taken over from."""

    job: str
    pointer: CheckpointPointer
    parts: tuple[CheckpointPart, ...]
    metrics: dict[str, float] = {}
    origin: Line = ""


class RankSeal(Record, frozen=True):
    """The part of one rank, kept until all have theirs."""

    part: CheckpointPart
    taken_at: Instant
    stall_s: Instant = 0.0
    upload_s: Instant = 0.0
    metrics: dict[str, float] = {}


class SealingCheckpoint(Record, frozen=True):
    """A gang's checkpoint of which some ranks have saved their part."""

    seq: Number
    step: Number
    seals: tuple[RankSeal, ...]


class SealingRecord(Record, frozen=True):
    """Checkpoints of a gang's attempt that are not whole yet, in order."""

    job: str
    fence: Fence
    open: tuple[SealingCheckpoint, ...] = ()


# ---- what an attempt goes on from


# Bytes of one request: when the connection breaks, no more than that is fetched again.
RESTORE_BYTES_MAX = 64 * 1024 * 1024


class CheckpointAsk(Record, frozen=True):
    """Asks for the checkpoints that an attempt may go on from, or for bytes of one file of one of them."""

    checkpoint: CheckpointId | None = None
    sha256: Sha256 | None = None
    offset: Number = 0
    length: Annotated[int, Meta(ge=0, le=RESTORE_BYTES_MAX)] = RESTORE_BYTES_MAX


class RestorableCheckpoint(Record, frozen=True):
    """A checkpoint that an attempt may go on from. `parts`: what the asking rank restores: its own part, or all where
    the gang has another number of ranks by now."""

    pointer: CheckpointPointer
    parts: tuple[CheckpointPart, ...]
    # How many ranks saved it.
    ranks: int = 1


# ---- what an agent says of them

Rank = Annotated[int, Meta(ge=0, le=999_999_999)]
# In one message.
FILES_MAX = 10_000


class Checkpointed(Record, frozen=True, tag="checkpointed"):
    """A rank saved a checkpoint, and all its files were acknowledged as sealed."""

    number: Number
    ref: AttemptRef
    rank: Rank
    seq: Number
    step: Number
    files: Annotated[tuple[OutputFile, ...], Meta(max_length=FILES_MAX)]
    taken_at: Instant
    stall_s: Instant = 0.0
    upload_s: Instant = 0.0
    metrics: Metrics = {}


class DamageFound(Record, frozen=True, tag="damage-found"):
    """A checkpoint that an attempt was to go on from is not what was saved."""

    number: Number
    ref: AttemptRef
    rank: Rank
    checkpoint: CheckpointId
    reason: Words
