"""Every request that changes something or is denied leaves one audit entry, durable before its answer is sent."""

import re
from collections.abc import Mapping
from typing import Any, cast

import structlog
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from ares.control.state.view import View
from ares.core.audit.chain import clean
from ares.edge.rest.answers import refuse
from ares.edge.rest.api import ApiServices
from ares.edge.rest.http.operation import Operation
from ares.edge.rest.http.problems import Problem, retry_after
from ares.edge.rest.http.request_context import Noted, noted
from ares.edge.rest.http.wire import header
from ares.model.audit import AuditDraft, AuditOutcome
from ares.ports.audit import AuditUnavailable

log = structlog.get_logger()

_STARTS = frozenset({"http.response.start", "websocket.http.response.start", "websocket.accept"})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Statuses of reads that are not denials: a conflict, a range beyond the end.
_NO_DENIALS = frozenset({409, 416})
_AGAIN_S = 5.0
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_PARAMETER = re.compile(r"([^/{}]*)/\{(\w+)\}")
# Path traversal in the rest of a URL: "..", and spellings that some programs take for it.
_CLIMBING = re.compile(r"(^|[/\\])\.\.?($|[/\\])|[\\%]|^//")
# At most so many objects that a request made are named.
_MADE_MAX = 10

# The reason for a code, when the problem gives none and it is not the code itself.
WORDS: Mapping[str, str] = {
    "wrong-host": "bad_host",
    "forbidden": "role",
    "bad-cursor": "cursor_mac",
    "too-large": "limit",
    "too-deep": "limit",
    "malformed-json": "limit",
    "duplicate-key": "limit",
    "request-timeout": "limit",
    "too-many-streams": "limit",
    "head-too-large": "limit",
    "rate-limited": "rate",
    "invalid": "schema",
    "unknown-field": "schema",
    "retry-budget-exhausted": "budget",
    "unauthenticated": "no_credential",
    "break-glass": "glass",
}


def unavailable(error: AuditUnavailable) -> Problem:
    """The answer when the audit log fails. The action may have been done; repeating the same request does it once."""
    code = "audit-full" if error.full else "audit-unavailable"
    return Problem(code, headers=retry_after(_AGAIN_S))


def mutates(scope: Scope) -> bool:
    """Whether the request may change something, by its method, unless the route says otherwise."""
    if scope["type"] == "websocket":
        return False
    route = noted(scope).route
    return _method(scope) not in _SAFE_METHODS and not (isinstance(route, Operation) and route.reads)


# By which form of the API a request came, where it was not by HTTP.
FORM = "ares_form"


def _method(scope: Scope) -> str:
    return "WS" if scope["type"] == "websocket" else str(cast("Any", scope)["method"])


def _parameters(scope: Scope) -> dict[str, Any]:
    """The path parameters; none before routing."""
    return cast("Any", scope).get("path_params") or {}


class Auditor:
    """The outermost middleware. It sees every answer, and records it first."""

    def __init__(self, app: ASGIApp, services: ApiServices) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        replaced = False

        async def leave(message: Message) -> None:
            nonlocal replaced
            if replaced:
                return
            if message["type"] in _STARTS:
                about = noted(scope)
                problem = await self._record(scope, message, about)
                about.answered = True
                if problem is not None:
                    replaced = True
                    await refuse(problem)(scope, receive, send)
                    return
            await send(message)

        await self._app(scope, receive, leave)

    async def _record(self, scope: Scope, message: Message, about: Noted) -> Problem | None:
        """Records the request. Returns the answer to send instead when that failed."""
        status: int = message.get("status", 101)
        changes = mutates(scope)
        busy = about.problem is not None and about.problem.code == "overloaded"
        denied = busy or (400 <= status < 500 and (changes or status not in _NO_DENIALS))
        if not (changes or denied or (about.glass and status < 400)):
            return None
        outcome: AuditOutcome = "DENY" if denied else "ERROR" if status >= 500 else "ALLOW"
        draft = self._draft(scope, message, about, outcome, status)
        audit = self._services.audit
        if denied and about.who is None:
            # A request without a valid credential does not wait for the disk.
            audit.tell(draft)
            return None
        try:
            await audit.note(draft)
        except AuditUnavailable as error:
            return unavailable(error) if outcome == "ALLOW" else None
        return None

    def _draft(self, scope: Scope, message: Message, about: Noted, outcome: AuditOutcome, status: int) -> AuditDraft:
        who, route = about.who, about.route
        client = scope["client"]
        return AuditDraft(
            operation="" if route is None else route.id,
            outcome=outcome,
            reason=self._reason(scope, about) if outcome != "ALLOW" else "",
            token="" if who is None else who.token_id,
            user="" if who is None else clean(who.user),
            role="" if who is None else who.role,
            proof="" if who is None else who.proof,
            tenant="" if who is None else who.tenant,
            home="" if who is None else who.home,
            target=self._target(scope, about) if outcome == "DENY" else "",
            glass=clean(about.glass),
            method=scope["state"].get(FORM) or _method(scope),
            path="" if route is None else route.path,
            status=status,
            object="" if route is None else _object(route.path, _parameters(scope)),
            made=about.made[:_MADE_MAX] or _located(message),
            counts=about.counts,
            trace=_trace(header(scope, b"traceparent")),
            remote=client[0] if client else "",
        )

    def _reason(self, scope: Scope, about: Noted) -> str:
        problem = about.problem
        if problem is None:
            return ""
        word = problem.reason or WORDS.get(problem.code) or problem.code.replace("-", "_")
        if word == "not_found" and _CLIMBING.search(str(_parameters(scope).get("path", ""))):
            word = "path"
        elif word == "not_found" and self._foreign(scope, about):
            word = "cross_tenant"
        is_socket = scope["type"] == "websocket" and FORM not in scope["state"]
        return clean(f"ws_{word}" if is_socket else word)

    def _foreign(self, scope: Scope, about: Noted) -> bool:
        """Whether an object that was "not found" exists in another tenant."""
        return about.who is not None and self._owner(scope) not in ("", about.who.tenant)

    def _owner(self, scope: Scope) -> str:
        """The tenant of the job in the path, empty without such a job."""
        return owner_of(self._services.view, str(_parameters(scope).get("id", "")))

    def _target(self, scope: Scope, about: Noted) -> str:
        """The other tenant that a denied request was aimed at: its job's, the one it names, or none."""
        route, own = about.route, "" if about.who is None else about.who.home or about.who.tenant
        path = "" if route is None else route.path
        named = str(_parameters(scope).get("name", "")) if path.startswith("/tenants/") else ""
        aims = (self._owner(scope), about.target, named, header(scope, b"x-ares-tenant") or "")
        found = next((aim for aim in aims if aim), "")
        known = found in self._services.view.kept.tenants or found == self._owner(scope)
        return found if found != own and known else ""


def owner_of(view: View, name: str) -> str:
    """The tenant of the job, array or workflow of this id; empty when there is none."""
    if (entry := view.entries.get(name)) is not None:
        return entry.state.tenant
    found = view.arrays.get(name) or view.kept.flows.get(name)
    return "" if found is None else found.tenant


_kinds: dict[str, tuple[str, tuple[str, ...]]] = {}


def _object(path: str, given: Mapping[str, object]) -> str:
    """ "/jobs/{id}/cancel" is about "jobs/ID"."""
    found = _kinds.get(path)
    if found is None:
        steps = _PARAMETER.findall(path)
        found = _kinds[path] = (steps[-1][0] if steps else "", tuple(name for _, name in steps))
    kind, names = found
    if not names:
        return ""
    values = "/".join(str(given.get(name, "")).removeprefix("/") for name in names)
    return clean(f"{kind}/{values}")


def _located(message: Message) -> tuple[str, ...]:
    """The object that was made, from the Location of the answer."""
    for name, value in message.get("headers", ()):
        if name == b"location":
            return (clean(value.decode("latin-1").partition("/v1/")[2]),)
    return ()


def _trace(traceparent: str | None) -> str:
    match = _TRACE.fullmatch(traceparent) if traceparent else None
    return match[1] if match else ""
