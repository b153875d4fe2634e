"""Books as a cluster tells them to its global plane, and as they are kept there.

A cluster may be in the hands of an attacker: what it tells is bounded in every field where it is decoded. It tells
counters of days, each whole, so that a message that is lost or repeated changes nothing.
"""

from typing import Annotated

from msgspec import Meta

from ares.model.base import Instant, Line, Number, Record, Slug
from ares.model.books.book import BookLine, Day, MissedDeadline, PoolDay, SlaLine, TenantBook
from ares.model.state import Phase

# Lines of one book, tenants of one day.
LINES_MAX, TENANTS_MAX, POOLS_MAX = 2_100, 5_000, 1_000
_Amount = Annotated[int, Meta(ge=-(10**18), le=10**18)]


class ToldLine(BookLine, frozen=True):
    team: Line = ""
    pool: Line = ""
    gpu_model: Line = ""
    gpu_ms: _Amount = 0
    cpu_ms: _Amount = 0
    joules: _Amount = 0
    micro: _Amount = 0


class ToldPromises(SlaLine, frozen=True):
    name: Line
    met: Number = 0
    missed: Number = 0
    excluded: Number = 0
    cluster: Line = ""


class ToldMiss(MissedDeadline, frozen=True):
    job: Line
    name: Line
    sla: Line = ""
    late_s: Instant = 0.0
    cause: Annotated[str, Meta(max_length=1000)] = ""


_Lines = Annotated[tuple[ToldLine, ...], Meta(max_length=LINES_MAX)]


class ToldBook(TenantBook, frozen=True):
    tenant: Slug
    day: Day
    settled: _Lines = ()
    accrued: _Lines = ()
    opening: _Lines = ()
    ended: Annotated[dict[Phase, Number], Meta(max_length=16)] = {}
    elsewhere: Annotated[dict[Line, Number], Meta(max_length=1000)] = {}
    failures: Annotated[dict[Line, Number], Meta(max_length=256)] = {}
    sla: Annotated[tuple[ToldPromises, ...], Meta(max_length=1000)] = ()
    waits: Annotated[tuple[Number, ...], Meta(max_length=64)] = ()
    worst: Annotated[tuple[ToldMiss, ...], Meta(max_length=20)] = ()
    cluster: Line = ""
    incarnation: Number = 1
    closed_at: Instant = 0.0
    closed_by: Line = ""


class ToldPool(PoolDay, frozen=True):
    gpu_ms: Number = 0
    down_gpu_ms: Number = 0
    cpu_ms: Number = 0
    micro: Number = 0
    idle_joules: Number = 0


class ToldDay(Record, frozen=True):
    """A cluster's own book of a day."""

    day: Day
    pools: Annotated[dict[Line, ToldPool], Meta(max_length=POOLS_MAX)] = {}
    tenants: Annotated[tuple[Slug, ...], Meta(max_length=TENANTS_MAX)] = ()
    assumed_s: Instant = 0.0


# ---- as the global plane keeps them


class Telling(Record, frozen=True):
    """How far a cluster has told its books. `at` is when the newest of it came, by the global plane's clock.

    Invariant: every book up to `closed_day` is here, and none of them changes any more."""

    cluster: Slug
    # The leader's connection that told it: what an earlier one says late does not count.
    incarnation: Number
    # Of the cluster's store.
    epoch: Number
    at: Instant
    first_day: str = ""
    closed_day: str = ""
