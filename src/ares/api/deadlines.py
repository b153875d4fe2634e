"""Whether jobs meet their deadlines, and how classes of service fared."""

from typing import Any, Literal

from ares.api.books.ages import ClusterAge
from ares.model.base import Record

Verdict = Literal["yes", "no", "unknown"]


class Outlook(Record, frozen=True):
    """Seconds since the epoch. Four of five like jobs end between `ends_low` and `ends_high`."""

    verdict: Verdict
    message: str
    deadline_at: float | None = None
    start_by_at: float | None = None
    starts_at: float | None = None
    ends_at: float | None = None
    ends_low: float | None = None
    ends_high: float | None = None
    # What the times rest on.
    basis: str = ""


class Way(Record, frozen=True, omit_defaults=False):
    """What to write instead: dotted names of fields as in JSON. It would end at about that time."""

    fields: dict[str, Any]
    message: str
    starts_at: float
    ends_at: float | None = None


class DeadlineSeen(Outlook, frozen=True, omit_defaults=False):
    """With changes that would meet the deadline, where it is not met without."""

    ways: tuple[Way, ...] = ()


SlaBy = Literal["class", "tenant", "cluster"]


class SlaView(Record, frozen=True):
    """How jobs of one class of service fared, of those that are kept and were decided within the period that was asked
    for. Without a name: deadlines of their own."""

    name: str
    # Of this tenant alone, where it was asked for by tenant; or of the jobs that this cluster has.
    tenant: str | None = None
    cluster: str | None = None
    start_within_s: float | None = None
    end_within_s: float | None = None
    jobs: int = 0
    met: int = 0
    missed: int = 0
    # Neither yet; of these, so many will miss it by the estimates, the first of them by id.
    open: int = 0
    at_risk: int = 0
    at_risk_jobs: tuple[str, ...] = ()
    met_percent: float | None = None
    target_percent: float = 95.0
    # How much of what may be missed by the target is left: 100 when nothing was missed, below 0 when the target is.
    budget_left_percent: float | None = None


class SlaList(Record, frozen=True):
    """By name; deadlines that jobs have of their own come first, without one."""

    classes: tuple[SlaView, ...]
    # When it was looked.
    at: float = 0.0
    # Of a global plane: how old what is known of each of its clusters is.
    clusters: tuple[ClusterAge, ...] = ()
