"""The way of a job as a trace: what it went through, from when to when, and what each part hangs below."""

from typing import Literal

from ares.model.base import Record, Shown
from ares.model.state import Phase

# The whole; accepted; until it was in a queue; in the queue; a place chosen; staged and started; ran, by rank; what was
# revoked until its processes were gone; until it was tried again; its end and result written; recorded by the program.
SpanName = Literal["job", "submit", "route", "queue", "place", "start", "run", "stop", "backoff", "commit", "program"]
SpanStatus = Literal["unset", "ok", "error"]
TraceFormat = Literal["spans", "otlp", "chrome"]


class SpanLink(Record, frozen=True):
    """A span of this or of another trace that a span goes on from."""

    trace_id: str
    span_id: str
    why: str = ""


class TraceSpan(Shown, frozen=True):
    """One stretch of a job's way. `ended_at` is None while it lasts. Times are seconds since the epoch."""

    name: SpanName
    span_id: str
    # Empty where it hangs below nothing.
    parent_id: str
    began_at: float
    ended_at: float | None = None
    # 0 where it belongs to no attempt.
    attempt: int = 0
    rank: int | None = None
    # What the program calls it; empty where the span is not the program's.
    label: str = ""
    status: SpanStatus = "unset"
    message: str = ""
    attributes: dict[str, str | int | float] = {}
    links: tuple[SpanLink, ...] = ()


class JobTrace(Shown, frozen=True):
    """All spans of a job, in the order in which they began. Ids follow from the job and the attempt's fence: every
    replica gives the same ones, and a span has its id before it ends."""

    job: str
    name: str
    tenant: str
    phase: Phase
    trace_id: str
    # As of when it was looked at.
    at: float
    spans: tuple[TraceSpan, ...]
    # Spans beyond the most that are shown.
    left_out: int = 0
