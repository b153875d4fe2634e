"""Daily books: what each day cost and how it went, closed once, kept when the jobs themselves are forgotten.

Amounts are whole numbers (milliseconds, joules, millionths of the currency), so that no order of adding changes a sum.
Days are by UTC, as in "2026-11-17".
"""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import Record
from ares.model.state import Phase

Day = Annotated[str, Meta(min_length=10, max_length=10, pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$(?!\n)")]


class BookLine(Record, frozen=True):
    """What jobs of one team held in one pool on one GPU model. `open`: by attempts that had not ended."""

    team: str = ""
    pool: str = ""
    gpu_model: str = ""
    fate: Literal["kept", "lost", "open"] = "kept"
    gpu_ms: int = 0
    cpu_ms: int = 0
    joules: int = 0
    micro: int = 0


class SlaLine(Record, frozen=True):
    """Jobs of one class of service that ended on the day. `excluded`: cancelled before it was decided."""

    name: str
    met: int = 0
    missed: int = 0
    excluded: int = 0
    # The cluster that had the jobs, in the book of a global plane; empty: this one.
    cluster: str = ""


class MissedDeadline(Record, frozen=True):
    """A job that missed its deadline, by how much, and what it ended with."""

    job: str
    name: str
    sla: str = ""
    late_s: float = 0.0
    cause: str = ""


class TenantBook(Record, frozen=True):
    """One day of one tenant. A job counts with all it used on the day of its end; what jobs that had not ended used
    until the end of the day is `accrued`, and taken back on the next day as its `opening`.

    Invariant: what was used on the day is `settled` + `accrued` - `opening`; summed over days nothing counts twice,
    and a day's `opening` is the `accrued` of the day before."""

    tenant: str
    day: Day
    settled: tuple[BookLine, ...] = ()
    accrued: tuple[BookLine, ...] = ()
    opening: tuple[BookLine, ...] = ()
    # Jobs that ended, by how; and so many of them in other clusters, whose own books have what these used.
    ended: dict[Phase, int] = {}
    elsewhere: dict[str, int] = {}
    failures: dict[str, int] = {}
    sla: tuple[SlaLine, ...] = ()
    # How many of them had waited how long for their first start: counts by `core.books.waits.BOUNDS_S`.
    waits: tuple[int, ...] = ()
    worst: tuple[MissedDeadline, ...] = ()
    cluster: str = ""
    # The epoch of the store: it grows with each restore from a backup.
    incarnation: int = 1
    closed_at: float = 0.0
    closed_by: str = ""


class PoolRate(Record, frozen=True):
    """What a pool has at the moment: GPUs, those of machines that are not ready, CPUs, the price of all of it for an
    hour, and what its GPUs draw when idle."""

    gpus: int = 0
    down_gpus: int = 0
    cpu_milli: int = 0
    micro_hour: int = 0
    idle_milliwatts: int = 0


class PoolDay(Record, frozen=True):
    """What a pool had on a day, whether it was used or not."""

    gpu_ms: int = 0
    down_gpu_ms: int = 0
    cpu_ms: int = 0
    micro: int = 0
    # If none of its GPUs had been used.
    idle_joules: int = 0


class CapacityRecord(Record, frozen=True):
    """The capacity of one day so far, up to `until`; from then on it is what `rates` say, until a replica looks."""

    day: Day
    until: float
    pools: dict[str, PoolDay] = {}
    rates: dict[str, PoolRate] = {}
    # Time in which no replica looked, so that the capacity is taken to have been what it was before.
    assumed_s: float = 0.0


class PlatformBook(Record, frozen=True):
    """One day of the platform: what its pools had, and which tenants have a book of the day."""

    day: Day
    pools: dict[str, PoolDay] = {}
    tenants: tuple[str, ...] = ()
    # Tenants with something to be taken back on the next day.
    accrued: tuple[str, ...] = ()
    assumed_s: float = 0.0
    cluster: str = ""
    incarnation: int = 1
    closed_at: float = 0.0
    closed_by: str = ""


class ClosingRecord(Record, frozen=True):
    """How far the books are closed. A job that ends with an earlier time than `until`, by a clock that lags, belongs to
    the first day that begins then: the days before are closed, or about to be."""

    first_day: Day
    day: Day
    until: float
