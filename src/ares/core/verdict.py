"""The two answers of admission."""

from typing import Literal

from ares.model.base import Record

RejectCode = Literal[
    "affinity-not-a-number", "affinity-values", "array-syntax", "array-too-large", "command-empty",
    "command-too-large", "deadline-not-met", "deadline-passed", "env-reserved", "env-too-large", "gang-min-above-ranks",
    "gang-not-elastic", "gang-spread-and-together", "gang-without-network",
    "gpu-memory-without-gpus", "gpu-model-without-gpus",
    "gap-not-preemptible", "gpu-share-without-gpus", "input-ref", "job-affinity-empty", "labels-too-many", "not-utf8",
    "nvlink-without-gpus", "policy-rejected",
    "reservation-not-yours", "reservation-over", "reservation-too-short", "reservation-too-small",
    "reservation-unknown", "secret-target", "secret-too-large", "secret-twice", "secret-unknown",
    "sla-and-deadline", "sla-unknown", "toleration-not-yours", "unsafe-restart", "warn-after-limit", "workdir-dots",
]  # fmt: skip


class Rejected(Record, frozen=True):
    """No, why, and what to change."""

    code: RejectCode
    message: str
    fix: str = ""
    # The audit log's word, where the code alone says too little.
    reason: str = ""


class Admission(Record, frozen=True):
    """Yes. `indices` are the tasks of an array, None for a single job."""

    indices: tuple[int, ...] | None = None
