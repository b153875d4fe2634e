"""Lists of files, gangs that save together, what is kept, and how often one is due."""

import math

import msgspec
import pytest

from ares.core.checkpoint import (
    INTERVAL_MAX_S,
    INTERVAL_MIN_S,
    OPEN_MAX,
    StepMismatch,
    decode_manifest,
    digest_of,
    encode_manifest,
    interrupted_every_s,
    interval_s,
    retained,
    sealed_by,
    taken_over,
    whole,
)
from ares.model.base import Fence
from ares.model.checkpoint import (
    METRICS_MAX,
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
from ares.model.job import RANKS_MAX
from ares.model.state import OutputFile
from ares.ports.store import VALUE_BYTES_MAX

FENCE = Fence(epoch=1, counter=1)
LATER = Fence(epoch=1, counter=3)


def record(seq: int, fence: Fence = FENCE, **metrics: float) -> CheckpointRecord:
    pointer = CheckpointPointer(fence=fence, seq=seq, manifest="0" * 64, size=1, step=seq, taken_at=60.0 * seq)
    return CheckpointRecord(
        job="j", pointer=pointer, parts=(CheckpointPart(rank=0, manifest="0" * 64, size=1),), metrics=metrics
    )


def kept(records: list[CheckpointRecord], keep: CheckpointKeep, *, live: bool = True) -> list[int]:
    return sorted(checkpoint.seq for checkpoint in retained(records, keep, live=live))


def test_the_list_of_files_is_the_same_in_any_order_and_reads_back() -> None:
    files = [OutputFile(path=path, size=1, sha256="a" * 64) for path in ("b", "a")]
    data = encode_manifest(files)
    assert data == encode_manifest(reversed(files))
    assert [file.path for file in decode_manifest(data)] == ["a", "b"]


@pytest.mark.parametrize("length", range(0, 200, 7))
def test_a_list_that_is_cut_is_not_the_one_that_was_saved(length: int) -> None:
    data = encode_manifest(OutputFile(path=f"shard-{n}", size=n, sha256="a" * 64) for n in range(4))
    assert length < len(data)
    assert digest_of(data[:length]) != digest_of(data)


def test_the_newest_are_kept_and_while_the_job_lives_two_at_least() -> None:
    records = [record(seq) for seq in range(1, 6)]
    assert kept(records, CheckpointKeep(last=1)) == [4, 5]
    assert kept(records, CheckpointKeep(last=3)) == [3, 4, 5]
    assert kept(records, CheckpointKeep(last=1), live=False) == [5]


def test_one_of_each_stretch_and_the_best_are_kept_too() -> None:
    records = [record(seq, loss=abs(seq - 4)) for seq in range(10)]
    assert kept(records, CheckpointKeep(last=2, every_s=240.0)) == [0, 4, 8, 9]
    assert kept(records, CheckpointKeep(best=KeepBest(metric="loss", n=2))) == [4, 5, 8, 9]
    assert kept(records, CheckpointKeep(best=KeepBest(metric="loss", goal="max"))) == [8, 9]
    assert kept(records, CheckpointKeep(best=KeepBest(metric="other"))) == [8, 9]


def test_what_an_attempt_is_about_to_go_on_from_is_kept() -> None:
    records = [record(seq) for seq in (1, 2, 3)] + [record(seq, LATER) for seq in (1, 2, 3)]
    found = retained(records, CheckpointKeep(last=2), live=True, restoring=LATER)
    assert {str(checkpoint) for checkpoint in found} == {"1.1/2", "1.1/3", "1.3/2", "1.3/3"}


def test_a_later_attempt_counts_as_newer_whatever_its_number() -> None:
    first, then = CheckpointId(fence=FENCE, seq=900), CheckpointId(fence=LATER, seq=1)
    assert first < then


# ---- gangs


def sealed(before: SealingRecord | None, rank: int, seq: int, step: int) -> SealingRecord | StepMismatch:
    part = CheckpointPart(rank=rank, manifest=f"{rank}" * 64, size=10)
    return sealed_by(before, "j", FENCE, seq, step, RankSeal(part=part, taken_at=100.0 + rank, stall_s=float(rank)))


def test_a_gangs_checkpoint_is_whole_when_every_rank_has_saved_the_same_number() -> None:
    one = sealed(None, 1, seq=5, step=50)
    assert isinstance(one, SealingRecord)
    assert whole(one, 5, (0, 1)) is None
    both = sealed(one, 0, seq=5, step=50)
    assert isinstance(both, SealingRecord)
    found = whole(both, 5, (0, 1))
    assert found is not None
    assert ([part.rank for part in found.parts], found.pointer.size) == ([0, 1], 20)
    # Work after the first had saved is not in it; all stood still as long as the slowest.
    assert (found.pointer.taken_at, found.pointer.stall_s) == (100.0, 1.0)
    assert sealed(both, 0, seq=5, step=50) == both


def test_a_rank_that_saves_another_step_under_the_same_number_spoils_no_other() -> None:
    one = sealed(None, 0, seq=5, step=50)
    assert isinstance(one, SealingRecord)
    assert sealed(one, 1, seq=5, step=51) == StepMismatch(5, 51, 50)


def test_few_are_open_at_once_and_an_older_attempts_are_forgotten() -> None:
    open_: SealingRecord | None = None
    for seq in range(OPEN_MAX + 3):
        made = sealed(open_, 0, seq=seq, step=seq)
        assert isinstance(made, SealingRecord)
        open_ = made
    assert open_ is not None
    assert [sealing.seq for sealing in open_.open] == list(range(3, OPEN_MAX + 3))
    part = CheckpointPart(rank=0, manifest="a" * 64, size=1)
    newer = sealed_by(open_, "j", LATER, 1, 1, RankSeal(part=part, taken_at=0.0))
    assert isinstance(newer, SealingRecord)
    assert [sealing.seq for sealing in newer.open] == [1]


def test_open_ones_of_the_largest_gang_fit_into_a_record() -> None:
    metrics = {f"metric-{number}": number / 7 for number in range(METRICS_MAX)}
    seals = tuple(
        RankSeal(
            part=CheckpointPart(rank=rank, manifest="a" * 64, size=10**12), taken_at=1763400000.123456,
            stall_s=12.3456789, upload_s=100.123456, metrics=metrics if rank == 1 else {},
        )
        for rank in range(1, RANKS_MAX)
    )  # fmt: skip
    open_ = tuple(SealingCheckpoint(seq=seq, step=seq, seals=seals) for seq in range(4))
    last = msgspec.structs.replace(seals[0], part=CheckpointPart(rank=0, manifest="b" * 64, size=1))
    made = sealed_by(SealingRecord(job="j", fence=FENCE, open=open_), "j", FENCE, 3, 3, last)
    assert isinstance(made, SealingRecord)
    assert len(msgspec.json.encode(made)) < VALUE_BYTES_MAX
    found = whole(made, 3, range(RANKS_MAX))
    assert found is not None
    assert found.metrics == metrics


# ---- another job's


def test_what_is_taken_over_is_older_than_all_of_the_new_jobs_own() -> None:
    made = taken_over(record(900, LATER), "new", epoch=4)
    assert (made.job, made.origin, made.pointer.fence, made.pointer.seq) == (
        "new", "j 1.3/900", Fence(epoch=4, counter=0), 900
    )  # fmt: skip


# ---- how often


def test_the_interval_is_that_of_young_and_daly_within_bounds() -> None:
    assert interval_s(10.0, 20_000.0) == pytest.approx(math.sqrt(2 * 10.0 * 20_000.0) - 10.0)
    assert interval_s(0.0, 60.0) == INTERVAL_MIN_S
    assert interval_s(3600.0, 1e9) == INTERVAL_MAX_S
    # The more often it is interrupted, the more often it pays.
    assert interval_s(5.0, interrupted_every_s(3600.0, 9)) < interval_s(5.0, interrupted_every_s(3600.0, 0))
