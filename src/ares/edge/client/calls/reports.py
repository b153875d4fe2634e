"""Requests for reports, as values like those in `calls`, and what they are answered."""

import msgspec

from ares.api.books.reports import PeriodReport, ReportKind
from ares.edge.client.calls.calls import JSON, Call, Request
from ares.edge.client.sending import AsyncSends, Sends


def report(kind: ReportKind, first: str | None = None, last: str | None = None) -> Call[PeriodReport]:
    return Call(_request(kind, first, last, "json"), PeriodReport)


def page(kind: ReportKind, first: str | None, last: str | None, format_: str) -> Call[bytes]:
    """The report as it is written in that format."""
    return Call(_request(kind, first, last, format_), bytes)


def _request(kind: ReportKind, first: str | None, last: str | None, format_: str) -> Request:
    asked = {"first": first, "last": last, "format": format_}
    body = msgspec.json.encode({name: value for name, value in asked.items() if value is not None})
    return Request("POST", f"/v1/reports/{kind}", (), body, JSON)


class AsyncReportMethods(AsyncSends):
    """Reports over a period, of the asynchronous client."""

    async def report(self, kind: ReportKind, *, first: str | None = None, last: str | None = None) -> PeriodReport:
        """A report on "sla", "cost" or "compliance", from the first day to the last; without them the last seven."""
        return await self.send(report(kind, first, last))


class ReportMethods(Sends):
    """Reports over a period, of the blocking client, generated."""

    def report(self, kind: ReportKind, *, first: str | None = None, last: str | None = None) -> PeriodReport:
        """A report on "sla", "cost" or "compliance", from the first day to the last; without them the last seven."""
        return self.send(report(kind, first, last))
