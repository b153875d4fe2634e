"""What clients send: bodies and query strings. Everything is bounded."""

from typing import Annotated, Literal, TypeVar

from msgspec import UNSET, Meta, UnsetType

from ares.api.deadlines import SlaBy
from ares.api.jobs import LogStream, SubmitBody
from ares.api.telemetry.traces import TraceFormat
from ares.api.usage import By
from ares.model.base import Name, Note, Record
from ares.model.state import Phase

T = TypeVar("T")

NodeName = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)")]
TokenName = Annotated[str, Meta(max_length=128, pattern=r"^([A-Za-z0-9][A-Za-z0-9 ._:/@+-]*)?$(?!\n)")]
Cursor = Annotated[str, Meta(max_length=512)]
JobRef = Annotated[str, Meta(max_length=32, pattern=r"^[0-9a-z]+(_[0-9]+)?$(?!\n)")]
WeightName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)")]


class BatchBody(Record, frozen=True):
    """Jobs to submit together; each has its own outcome."""

    jobs: Annotated[list[SubmitBody], Meta(min_length=1, max_length=10_000)]


class ReasonBody(Record, frozen=True):
    """Why, for the ledger."""

    reason: Note = ""


class ReplayBody(Record, frozen=True):
    """Weights of scorers to be changed, by name: {"cost": 0.3}."""

    weights: Annotated[dict[WeightName, Annotated[float, Meta(ge=0.0, le=1e6)]], Meta(max_length=64)] = {}


class JoinTokenBody(Record, frozen=True):
    """Admits one machine, once: the node or cluster of this name, or with `anyName` a node of a name that is free."""

    node: NodeName | None = None
    cluster: NodeName | None = None
    any_name: bool = False
    ttl_s: Annotated[float, Meta(ge=1.0, le=900.0)] = 900.0


# ---- query strings: what is left out is UNSET, since text has no null


def given(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


class NoQuery(Record, frozen=True):
    pass


# Names of series, with commas between them.
_SeriesNames = Annotated[str, Meta(max_length=2000, pattern=r"^[a-z0-9_:,]*$(?!\n)")]


class SeriesQuery(Record, frozen=True):
    """Without names: all of them, with their newest values alone."""

    name: _SeriesNames = ""
    since_s: Annotated[float, Meta(ge=10.0, le=90 * 86_400.0)] = 3600.0


class GpuQuery(Record, frozen=True):
    # Of this node alone.
    node: Name | UnsetType = UNSET


class SlaQuery(Record, frozen=True):
    by: SlaBy = "class"
    since_s: Annotated[float, Meta(ge=1.0, le=3_153_600_000.0)] | UnsetType = UNSET


class TraceQuery(Record, frozen=True):
    # OTLP's JSON, or the trace events that Chrome and Perfetto read.
    format: TraceFormat = "spans"


class ReasonQuery(Record, frozen=True):
    reason: Note = ""


class JobsQuery(Record, frozen=True):
    """`phase` and `label` may be repeated; phases may also be separated by commas.

    `arrays=whole` lists an array once, as one job; it is found when any of its tasks would be.
    """

    phase: tuple[Phase, ...] = ()
    name: Annotated[str, Meta(max_length=128)] | UnsetType = UNSET
    label: tuple[Annotated[str, Meta(max_length=385, pattern=r"^[^=]+=")], ...] = ()
    array: JobRef | UnsetType = UNSET
    node: NodeName | UnsetType = UNSET
    # Submitted by this user; submitted at these times or between, in seconds since the epoch.
    user: Annotated[str, Meta(min_length=1, max_length=256)] | UnsetType = UNSET
    since: Annotated[float, Meta(ge=0.0, le=1e11)] | UnsetType = UNSET
    until: Annotated[float, Meta(ge=0.0, le=1e11)] | UnsetType = UNSET
    arrays: Literal["tasks", "whole"] = "tasks"
    sort: Literal["submitted", "-submitted"] = "-submitted"
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: Cursor = ""


class ResolveQuery(Record, frozen=True):
    prefix: Annotated[str, Meta(min_length=1, max_length=32, pattern=r"^[0-9a-z_]+$(?!\n)")]


class PrioQuery(Record, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class UsageQuery(Record, frozen=True):
    """`sinceS`: jobs that ended within the last so many seconds or have not ended; left out: all that are known."""

    by: By = "tenant"
    since_s: Annotated[float, Meta(ge=0.0, le=3_153_600_000.0)] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


class LogsQuery(Record, frozen=True):
    """`tail` is a number of lines, or a duration such as `10s`: the last lines, then what comes within that time.
    `since` is in seconds since the epoch: output of that time on, to the minute. `stream`: only what was written to
    stdout or to stderr. `pieces`: as lines of JSON, each with its offset and what of it was written to stderr."""

    tail: Annotated[str, Meta(pattern=r"^[0-9]{1,6}s?$(?!\n)")] | UnsetType = UNSET
    follow: bool = False
    attempt: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET
    rank: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    offset: Annotated[int, Meta(ge=0, le=2**53)] | UnsetType = UNSET
    since: Annotated[float, Meta(ge=0.0, le=1e11)] | UnsetType = UNSET
    stream: LogStream | UnsetType = UNSET
    pieces: bool = False


class LogSearchQuery(Record, frozen=True):
    """Lines that contain `text` as it is, from byte `offset` on; no more than `limit` of them."""

    text: Annotated[str, Meta(min_length=1, max_length=256)]
    attempt: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET
    rank: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    offset: Annotated[int, Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    stream: LogStream | UnsetType = UNSET


class RankQuery(Record, frozen=True):
    """Which process of a parallel job."""

    rank: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class AttachQuery(RankQuery, frozen=True):
    """Attaches to a session: output below `offset` has arrived before."""

    offset: Annotated[int, Meta(ge=0, le=2**53)] = 0


class EventsQuery(Record, frozen=True):
    """Resumes after `cursor` (or the Last-Event-ID header); `0` starts with the oldest event kept."""

    cursor: Cursor = ""
    job: JobRef | UnsetType = UNSET


class LeasesQuery(Record, frozen=True):
    job: JobRef | UnsetType = UNSET
