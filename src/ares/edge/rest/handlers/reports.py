"""Reports over a period, as JSON, as a page that prints well, or as CSV. Each that is made is in the audit log."""

from litestar.types import ASGIApp
from msgspec import UNSET, UnsetType

from ares.api.books.reports import ReportFormat, ReportKind
from ares.core.books.pages import csv_of, html_of
from ares.core.refusal import Refusal
from ares.edge.rest.answers import Answer, answer
from ares.edge.rest.bodies import NoQuery, given
from ares.edge.rest.handlers.costs import DayText
from ares.edge.rest.http.operation import RequestCall
from ares.model.base import Record

_PAGES = {"html": ("text/html; charset=utf-8", html_of), "csv": ("text/csv; charset=utf-8", csv_of)}
# Text of jobs is in it: nothing in it may run, wherever it is opened.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


class ReportBody(Record, frozen=True):
    """Days by UTC, both included; without them the last seven."""

    first: DayText | UnsetType = UNSET
    last: DayText | UnsetType = UNSET
    format: ReportFormat = "json"


async def make_sla(call: RequestCall[NoQuery, ReportBody]) -> ASGIApp:
    return await _make(call, "sla")


async def make_cost(call: RequestCall[NoQuery, ReportBody]) -> ASGIApp:
    return await _make(call, "cost")


async def make_compliance(call: RequestCall[NoQuery, ReportBody]) -> ASGIApp:
    return await _make(call, "compliance")


async def _make(call: RequestCall[NoQuery, ReportBody], kind: ReportKind) -> ASGIApp:
    asked = call.body
    report = await call.edge.services.books.reports.make(call.who, kind, given(asked.first), given(asked.last))
    if isinstance(report, Refusal):
        return answer(report)
    call.made(f"reports/{report.digest[:16]}")
    if asked.format == "json":
        return answer(report)
    media, written = _PAGES[asked.format]
    headers = {
        "content-security-policy": _POLICY,
        "content-disposition": f'attachment; filename="{kind}-{report.first_day}-{report.last_day}.{asked.format}"',
    }
    return Answer(written(report).encode(), media_type=media, headers=headers)
