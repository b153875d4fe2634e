"""Deadlines and classes of service, as the server tells of them."""

from typing import Any

from ares.model.base import Record


class Way(Record, frozen=True):
    """A change that would meet the deadline: dotted names of fields and what to write there."""

    fields: dict[str, Any] = {}
    message: str = ""
    starts_at: float = 0.0
    ends_at: float | None = None


class DeadlineSeen(Record, frozen=True):
    """Whether a deadline will be met by the estimates: `yes`, `no`, or `unknown`. Seconds since the epoch."""

    verdict: str = "unknown"
    message: str = ""
    deadline_at: float | None = None
    start_by_at: float | None = None
    starts_at: float | None = None
    ends_at: float | None = None
    # Four of five like jobs end between these.
    ends_low: float | None = None
    ends_high: float | None = None
    basis: str = ""
    ways: tuple[Way, ...] = ()


class SlaView(Record, frozen=True):
    """How jobs of one class of service fared. Without a name: those with a deadline of their own."""

    name: str
    start_within_s: float | None = None
    end_within_s: float | None = None
    jobs: int = 0
    met: int = 0
    missed: int = 0
    # Neither yet; of these, so many will miss it by the estimates.
    open: int = 0
    at_risk: int = 0
    at_risk_jobs: tuple[str, ...] = ()
    met_percent: float | None = None
