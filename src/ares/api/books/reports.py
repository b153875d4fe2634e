"""Reports over a period: tables of figures with what they rest on, a digest, and the audit heads of their time."""

from typing import Literal

from ares.model.base import Record

ReportKind = Literal["sla", "cost", "compliance"]
ReportFormat = Literal["json", "html", "csv"]
ReportCell = str | int | float | None


class ReportTable(Record, frozen=True, omit_defaults=False):
    """`note` says what is counted, and by which rules."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[ReportCell, ...], ...]
    note: str = ""


class ReportHead(Record, frozen=True, omit_defaults=False):
    """How far the audit chain of a replica had come, signed, at the end of the period or before."""

    chain: str
    seq: int
    hash: str
    at: float
    key: str


class PeriodReport(Record, frozen=True, omit_defaults=False):
    """With `complete`, every day of it is closed: made again, it is the same to the byte, but for users and chains of a
    compliance report, which are told as of its making. `digest` is the SHA-256 of the
    report as JSON without spaces, in this order of fields, with an empty digest."""

    kind: ReportKind
    title: str
    cluster: str
    incarnation: int
    # Empty: of all tenants.
    tenant: str
    first_day: str
    last_day: str
    complete: bool
    currency: str
    tables: tuple[ReportTable, ...]
    remarks: tuple[str, ...]
    heads: tuple[ReportHead, ...]
    digest: str = ""
