"""Spans that a job's own program recorded: part of the job's trace, and bounded in every field."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import AttemptRef, Instant, Record
from ares.model.checkpoint import Rank

# Of one rank of an attempt.
PROGRAM_SPANS_MAX = 1000
# Of one message, and of one rank's spans where they are kept.
SPANS_PER_MESSAGE = 200
KEPT_BYTES_MAX = 1 << 20
ATTRIBUTES_MAX = 16
TEXT_MAX = 256
NUMBER_MAX = 1e300

_Text = Annotated[str, Meta(max_length=TEXT_MAX)]
_Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# NaN and infinities are no numbers that JSON has.
_Number = Annotated[float, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]
SpanId = Annotated[str, Meta(max_length=16, pattern=r"^[0-9a-f]{16}$(?!\n)")]


class ProgramSpan(Record, frozen=True):
    """It has ended: programs tell of no others."""

    span_id: SpanId
    # Another span of the program, or the run that its TRACEPARENT named.
    parent_id: SpanId
    name: _Text
    began_at: Instant
    ended_at: Instant
    status: Literal["unset", "ok", "error"] = "unset"
    message: _Text = ""
    attributes: Annotated[dict[_Text, _Text | _Whole | _Number], Meta(max_length=ATTRIBUTES_MAX)] = {}


class ProgramSpans(Record, frozen=True, tag="spans"):
    """What an agent took from one rank of an attempt. Sent once: what is lost with a connection stays lost."""

    ref: AttemptRef
    rank: Rank
    attempt: Rank
    spans: Annotated[tuple[ProgramSpan, ...], Meta(max_length=SPANS_PER_MESSAGE)]
