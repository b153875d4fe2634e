"""The two answers of admission."""

from typing import Literal

from ares.model.base import Record

RejectCode = Literal[
    "array-syntax", "array-too-large", "command-empty", "command-too-large", "env-reserved", "env-too-large",
    "gpu-model-without-gpus", "labels-too-many", "not-utf8", "unsafe-restart", "warn-after-limit", "workdir-dots",
]  # fmt: skip


class Rejected(Record, frozen=True):
    """No, why, and what to change."""

    code: RejectCode
    message: str
    fix: str = ""


class Admitted(Record, frozen=True):
    """Yes. `indices` are the tasks of an array, None for a single job."""

    indices: tuple[int, ...] | None = None
