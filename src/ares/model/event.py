"""Ledger entries: one for every transition, written in the transition's own transaction."""

from typing import Any, Literal

from ares.model.base import Record
from ares.model.state import Phase

EventKind = Literal[
    "submitted", "bound", "started", "succeeded", "failed", "retrying", "requeued",
    "lease-lost", "cancelled", "released", "retry-requested", "unknown", "restarted", "preempted",
    "preempting", "rank-started", "rank-exited", "resized",
]  # fmt: skip


class LedgerEvent(Record, frozen=True):
    """What happened to a job, when, why, and by whom."""

    job: str
    tenant: str
    seq: int
    kind: EventKind
    phase: Phase
    at: float
    attempt: int = 0
    fence: str = ""
    by: str = ""
    reason: str = ""
    data: dict[str, Any] = {}
