"""Looking into the audit log: pages, exports, a month in numbers, and whether the chains hold."""

from typing import Annotated, Any, Literal

from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from ares.api.audit import AuditHeadList, AuditVerified
from ares.control.governance.audit_search import Format, month_of
from ares.core.audit.search import AuditQuery
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import Cursor, given
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import Problem
from ares.edge.rest.http.request_context import noted
from ares.edge.rest.http.wire import until_gone
from ares.model.audit import AuditOutcome
from ares.model.base import Record

_MEDIA = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
_Text = Annotated[str, Meta(max_length=200)]
_Moment = Annotated[float, Meta(ge=0.0, le=1e11)]


class AuditFilters(Record, frozen=True):
    """Times in seconds since 1970. `who` is a user or a token's id; `object` is like `jobs/ID`, or only the id."""

    who: _Text = ""
    tenant: _Text = ""
    operation: _Text = ""
    outcome: AuditOutcome | UnsetType = UNSET
    reason: _Text = ""
    object: _Text = ""
    since: _Moment = 0.0
    until: _Moment = 0.0
    text: _Text = ""


class AuditSearchQuery(AuditFilters, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: Cursor = ""


class AuditExportQuery(AuditFilters, frozen=True):
    format: Literal["jsonl", "csv"] = "jsonl"


class AuditMonthQuery(Record, frozen=True):
    """A month like 2026-11, in UTC; or from `since` to `until` (now, unless it is given), in seconds since 1970."""

    month: Annotated[str, Meta(pattern=r"^20[0-9]{2}-(0[1-9]|1[0-2])$(?!\n)")] | UnsetType = UNSET
    since: _Moment | UnsetType = UNSET
    until: _Moment | UnsetType = UNSET
    tenant: _Text = ""


async def search_audit(call: RequestCall[AuditSearchQuery, None]) -> ASGIApp:
    page = await call.edge.services.audit_search.page(
        call.who, _query(call, call.query), call.query.limit, call.query.cursor
    )
    return answer(page)


async def export_audit(call: RequestCall[AuditExportQuery, None]) -> ASGIApp:
    call.edge.streams.check_room(call.who)
    return _Export(call, _query(call, call.query), call.query.format)


async def audit_month(call: RequestCall[AuditMonthQuery, None]) -> ASGIApp:
    asked, name = call.query, given(call.query.month) or ""
    since, until = given(asked.since), given(asked.until)
    if bool(name) == (since is not None or until is not None):
        raise Problem("invalid", detail="give a month, or a period by since and until", path="query.month")
    bounds = month_of(name) if name else (since or 0.0, until or call.edge.services.clock.wall())
    filters = AuditFilters(tenant=asked.tenant, since=bounds[0], until=bounds[1])
    return answer(await call.edge.services.audit_search.month(call.who, _query(call, filters), name))


async def list_heads(call: RequestCall[Record, None]) -> ASGIApp:
    search = call.edge.services.audit_search
    return answer(AuditHeadList(heads=search.heads(), chains=search.chains()))


async def verify_audit(call: RequestCall[Record, None]) -> ASGIApp:
    services = call.edge.services
    # A tenant's users get a recent answer: they must not keep the server busy for all tenants.
    fresh = not services.audit_search.only(call.who)
    reports = () if services.audit_heads is None else await services.audit_heads.verify_all(fresh=fresh)
    whole = all(report.whole for report in reports)
    return answer(AuditVerified(whole=whole, verified=reports, chains=services.audit_search.chains()))


def _query(call: RequestCall[Any, None], filters: AuditFilters) -> AuditQuery:
    """The query within the tenant of the caller. A caller of one tenant that asks for another is refused."""
    only = call.edge.services.audit_search.only(call.who)
    if only and filters.tenant not in ("", only):
        noted(call.scope).target = filters.tenant
        raise Problem("tenant-mismatch", detail="the audit log of another tenant", reason="cross_tenant")
    asked = AuditQuery(
        who=filters.who, tenant=filters.tenant, operation=filters.operation, outcome=given(filters.outcome),
        reason=filters.reason, object=filters.object, since=filters.since, until=filters.until, text=filters.text,
    )  # fmt: skip
    return replace(asked, tenant=only) if only else asked


class _Export:
    """Sent piece by piece, as fast as it is read."""

    def __init__(self, call: RequestCall[AuditExportQuery, None], query: AuditQuery, format_: Format) -> None:
        self._call = call
        self._query = query
        self._format: Format = format_

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", _MEDIA[self._format].encode()),
            (b"content-disposition", f'attachment; filename="audit.{self._format}"'.encode()),
        ]
        streams, search = self._call.edge.streams, self._call.edge.services.audit_search

        async def work() -> None:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for piece in search.export(self._call.who, self._query, self._format):
                await streams.send(send({"type": "http.response.body", "body": piece, "more_body": True}))
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        # An early end leaves the answer unfinished, so that its reader notices.
        await streams.run(self._call.token, self._call.who, work(), until_gone(receive))
