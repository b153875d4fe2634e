"""Access control of requests. Every request is refused unless a rule allows it.

`Frontier` is before the router and checks where a request comes from; `Gate` is before each handler
and checks the caller against the permission of the route.
"""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from litestar.types import ASGIApp, Message, Receive, Scope, Send
from msgspec import structs

from ares.control.state.pacing import PACE
from ares.control.state.view import View
from ares.core.access.table import MACHINES, WIDE, scope_of, sees_all
from ares.core.access.tokens import denied, parse
from ares.core.refusal import Refusal
from ares.edge.rest.answers import refuse
from ares.edge.rest.api import ApiServices, ApiSettings
from ares.edge.rest.http.audit_middleware import mutates, owner_of, unavailable
from ares.edge.rest.http.connections import MACHINE
from ares.edge.rest.http.cookies import from_own_page, session_cookie
from ares.edge.rest.http.limits import Meter, address, lane_of, payer
from ares.edge.rest.http.operation import PUBLIC, Access, Operation
from ares.edge.rest.http.problems import Problem, not_found
from ares.edge.rest.http.request_context import noted
from ares.edge.rest.http.wire import header
from ares.model.access import Permission, Principal

PERMISSION = "permission"
# The table's entry for a route, for its audit entry.
ROUTE = "route"
# Where the gate leaves the verified caller for the handler.
CALLER = "ares_caller"
# A caller that this process itself has put there: a person whom the global plane let in.
VOUCHED = "ares_vouched"


def _unauthenticated() -> Problem:
    return Problem("unauthenticated", headers={"www-authenticate": "Bearer"})


# Every path is also served under /api.
_API, _OTHER_PREFIX = "/api", "/api/v1/"
_SAFE_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]

ProblemOf = Callable[[Exception], Problem]


class Gate:
    """Authenticates and authorises, the same for HTTP and WebSockets."""

    def __init__(self, services: ApiServices, meter: Meter, problem_of: ProblemOf) -> None:
        self._services = services
        self._meter = meter
        self._problem_of = problem_of

    async def enter(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on to its handler, or refuses it."""
        try:
            await self._check(scope)
        except Exception as error:
            problem = self._problem_of(error)
            if problem.kind.status == 429:
                who, _ = scope["state"].get(CALLER, (None, ""))
                await self._meter.hold(address(scope) if who is None else payer(who))
            await refuse(problem, scope["path"])(scope, receive, send)
            return
        who, _ = scope["state"].get(CALLER, (None, ""))
        if who is None:
            # Of an earlier request on this connection, if any.
            PACE.set(None)
            await app(scope, receive, send)
        else:
            work = cast("Coroutine[Any, Any, None]", app(scope, receive, send))
            await self._meter.pacer.serve(payer(who), work, writes=mutates(scope))

    async def _check(self, scope: Scope) -> None:
        access: Access | None = scope["route_handler"].opt.get(PERMISSION)
        if access is None:
            # Only the framework's own OPTIONS routes declare nothing.
            raise Problem("method-not-allowed", headers={"allow": _allowed(scope)})
        about = noted(scope)
        about.route = scope["route_handler"].opt.get(ROUTE)
        if access == PUBLIC:
            return
        if machine := scope["state"].get(MACHINE):
            self._denied("wrong_role_cert")
            detail = f"a machine's certificate ({machine}) is for the agents' port alone"
            raise Problem("forbidden", detail=detail, reason="wrong_role_cert")
        vouched: Principal | None = scope["state"].get(VOUCHED)
        token = "" if vouched is not None else _bearer(scope) or self._session(scope)
        who = await self._authenticate(scope, token, access) if token else vouched
        if not isinstance(who, Principal):
            self._denied(who.reason if isinstance(who, Refusal) else "no-credential")
            if token:
                self._meter.failed(scope)
            else:
                self._meter.anonymous(scope)
            raise replace(_unauthenticated(), reason="no_credential" if who is None else who.reason)
        scope["state"][CALLER] = (who, token)
        about.who = who
        self._meter.admit(who, lane_of(scope["method"]) if scope["type"] == "http" else "read")
        asked = RequestScope(
            header(scope, b"x-ares-tenant") or "",
            scope["path_params"].get("id", ""),
            header(scope, b"x-ares-break-glass") or "",
        )
        try:
            entered = enter(who, access, asked, self._services.view)
        except Problem as problem:
            self._denied(problem.reason or problem.code)
            raise
        scope["state"][CALLER] = (entered, token)
        about.who = entered
        if entered.home and scope_of(who, access) == "glass":
            about.glass = asked.glass
        if (refusing := self._services.audit.refusing) is not None and mutates(scope):
            raise unavailable(refusing)

    async def _authenticate(self, scope: Scope, token: str, access: Access) -> Principal | Refusal:
        known = parse(token)
        if known and known[0] not in self._services.view.tokens and self._meter.guesses(scope):
            # An unknown token costs a read of the store: not for an address that guesses.
            return denied("unknown")
        who = await self._services.tokens.authenticate(token)
        if isinstance(who, Principal) and (who.proof == "session") == bool(_bearer(scope)):
            # A token is no cookie, and what a cookie holds is no token.
            return denied("malformed")
        if isinstance(who, Refusal) and access == "machines:join":
            # Elsewhere a join token is no credential.
            return await self._services.authority.invited(token)
        route = noted(scope).route
        if isinstance(who, Refusal) and isinstance(route, Operation) and route.takes_links:
            return await self._services.browser_logins.sessions.invited(token)
        return who

    def _session(self, scope: Scope) -> str:
        """From a browser's cookie, if one of our own pages sent it."""
        cookie = session_cookie(scope)
        if cookie and not from_own_page(scope):
            self._denied("bad-origin")
            raise Problem("bad-origin", detail="a session is for this server's own pages", reason="bad_origin")
        return cookie

    def _denied(self, reason: str) -> None:
        self._services.telemetry.count("ares_auth_denials_total", 1, reason)


def _allowed(scope: Scope) -> str:
    routes = [route for route in scope["litestar_app"].routes if route.path_format == scope["path_template"]]
    methods = {method for route in routes for method in getattr(route, "methods", ())}
    return ", ".join(sorted(methods - {"OPTIONS"}))


def _bearer(scope: Scope) -> str:
    """From the Authorization header or, where browsers cannot set one, the WebSocket's protocols. Never the URL."""
    scheme, _, token = (header(scope, b"authorization") or "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    if scope["type"] == "websocket":
        offered = scope["subprotocols"]
        if len(offered) == 2 and offered[0] == "bearer":
            return offered[1]
    return ""


class Frontier:
    """Checks Host and Origin of every request, and counts every answer."""

    def __init__(self, app: ASGIApp, services: ApiServices, settings: ApiSettings) -> None:
        self._app = app
        self._services = services
        self._hosts = frozenset(name.lower() for name in settings.allowed_hosts)
        self._origins = frozenset(settings.allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(_OTHER_PREFIX):
            scope["path"] = scope["path"].removeprefix(_API)
            scope["raw_path"] = scope["raw_path"].removeprefix(_API.encode())
        exit_ = (
            self._socket_exit(scope, receive, send) if scope["type"] == "websocket" else self._http_exit(scope, send)
        )
        problem = self._foreign(scope)
        if problem is not None:
            self._services.telemetry.count("ares_auth_denials_total", 1, problem.code)
            await refuse(problem, scope["path"])(scope, receive, exit_)
            return
        await self._app(scope, receive, exit_)

    def _foreign(self, scope: Scope) -> Problem | None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
        if _name_of(host) not in self._hosts:
            return Problem("wrong-host")
        origin = header(scope, b"origin")
        if origin is not None and origin not in self._origins and _place_of(origin) != host:
            return Problem("bad-origin")
        return None

    def _http_exit(self, scope: Scope, send: Send) -> Send:
        clock, telemetry = self._services.clock, self._services.telemetry
        began = clock.monotonic()

        async def leave(message: Message) -> None:
            if message["type"] == "http.response.start":
                status, route = message["status"], noted(scope).route
                telemetry.count("ares_http_requests_total", 1, str(status))
                # A path that leads nowhere is text of a client: its method too.
                named, method = ("none", "none") if route is None else (route.id, str(getattr(route, "method", "GET")))
                took, group = clock.monotonic() - began, f"{status // 100}xx"
                telemetry.observe("ares_http_request_duration_seconds", took, named, method, group)
                given = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(safe for safe in _SAFE_HEADERS if safe[0] not in given)]
            await send(message)

        return leave

    def _socket_exit(self, scope: Scope, receive: Receive, send: Send) -> Send:
        """Before the handshake, a close (the router's word for "no such route") becomes a proper answer."""
        open_ = False

        async def leave(message: Message) -> None:
            nonlocal open_
            kind: Any = message["type"]
            if kind == "websocket.close" and not open_:
                await refuse(not_found())(scope, receive, send)
                return
            open_ = open_ or kind == "websocket.accept"
            await send(message)

        return leave


def _place_of(origin: str) -> str:
    """Host and port of a web origin, empty when it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _name_of(host: str) -> str:
    """Without the port; IPv6 without brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


# ---- the rights of an authenticated caller on a route: by the permission table, and in the tenant it acts for


# The least length of a reason for break-glass access.
GLASS_CHARS_MIN = 8


def enter(who: Principal, permission: Permission, asked: "RequestScope", view: View) -> Principal:
    """The caller with its rights: in its own tenant, or as a delegate in the tenant it asked for. Raises Problem."""
    scope = scope_of(who, permission)
    if scope is None:
        raise _denied(who, permission, asked, view)
    # Objects without a tenant are open to every caller; to act in another tenant takes more.
    if scope not in WIDE or not sees_all(who):
        if asked.tenant not in ("", who.tenant):
            raise Problem("tenant-mismatch", reason="tenant_mismatch")
        return who
    tenant = asked.tenant or asked.owner(view) or who.tenant
    if asked.tenant not in ("", who.tenant) and asked.tenant not in view.kept.tenants:
        # A header is text: only one that names a tenant may become part of keys and paths.
        raise Problem("no-such-tenant", detail=f"there is no tenant {asked.tenant[:63]!r}", reason="no_such_tenant")
    if scope == "glass" and not _at_home(who, tenant):
        _need_reason(who, permission, asked.glass)
    return who if tenant == who.tenant else structs.replace(who, tenant=tenant, home=who.tenant)


class RequestScope:
    """What a request names: a tenant to act in, a job, and the reason of break-glass access."""

    __slots__ = ("glass", "job", "tenant")

    def __init__(self, tenant: str, job: str, glass: str) -> None:
        self.tenant = tenant
        self.job = job
        self.glass = glass

    def owner(self, view: View) -> str:
        """The tenant of the job in the path, empty when there is none."""
        return owner_of(view, self.job) if self.job else ""


def _denied(who: Principal, permission: Permission, asked: RequestScope, view: View) -> Problem:
    """The refusal. A caller learns that it lacks a permission, but not that another tenant's object exists."""
    if asked.job and asked.owner(view) != who.tenant and _bound(who):
        return not_found()
    reason = "wrong_role_cert" if who.role in MACHINES else "role"
    return Problem("forbidden", detail=f"the role {who.role!r} does not have {permission}", reason=reason)


def _bound(who: Principal) -> bool:
    """Whether the caller may at most know that other tenants' jobs exist."""
    return scope_of(who, "jobs:read") in ("tenant", "facts") and scope_of(who, "nodes:admit") is None


def _at_home(who: Principal, tenant: str) -> bool:
    """Whether the caller works in that tenant, and is not only an operator of the platform."""
    return tenant == who.tenant and scope_of(who, "jobs:submit") is not None


def _need_reason(who: Principal, permission: Permission, reason: str) -> None:
    if len(reason.strip()) < GLASS_CHARS_MIN:
        raise Problem(
            "break-glass",
            detail=f"{permission} of another tenant is for emergencies only",
            fix=f"say why in the header X-Ares-Break-Glass ({GLASS_CHARS_MIN} characters or more); it is recorded",
            reason="glass",
        )
