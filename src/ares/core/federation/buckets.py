"""Hashes of 256 buckets over (job, epoch, stage, fence, seq): sides that agree compare 256 numbers, and list nothing.

A hash is the sum of its jobs' digests, so a job that changes is taken out and put in again: no side ever counts all."""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from ares.model.base import Fence
from ares.model.cluster import TakenStage

BUCKETS = 256
_MODULUS = 1 << 64


class JobProgress(NamedTuple):
    """How far a job has come in its cluster. The greater one is the newer one."""

    epoch: int
    fence: Fence = Fence()
    seq: int = 0
    # The global plane counts what it has confirmed; a cluster all that it has taken. So what a cluster has accepted,
    # and does not know to be its own, is always listed.
    stage: TakenStage = "CONFIRMED"


def bucket_of(job: str) -> int:
    return hashlib.sha256(job.encode()).digest()[0]


def digest_of(job: str, progress: JobProgress) -> int:
    fence = progress.fence
    text = f"{job} {progress.epoch} {progress.stage} {fence.epoch}.{fence.counter} {progress.seq}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def without(hashes: list[int], job: str, progress: JobProgress) -> None:
    place = bucket_of(job)
    hashes[place] = (hashes[place] - digest_of(job, progress)) % _MODULUS


def with_(hashes: list[int], job: str, progress: JobProgress) -> None:
    place = bucket_of(job)
    hashes[place] = (hashes[place] + digest_of(job, progress)) % _MODULUS


def hashes_of(jobs: Iterable[tuple[str, JobProgress]]) -> list[int]:
    hashes = [0] * BUCKETS
    for job, progress in jobs:
        with_(hashes, job, progress)
    return hashes


def differing(one_side: list[int], other_side: list[int]) -> tuple[int, ...]:
    """The buckets that have to be listed."""
    return tuple(place for place in range(BUCKETS) if one_side[place] != other_side[place])
