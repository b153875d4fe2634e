"""Builds the app from the table of routes. A route without a declared permission stops the build."""

import gzip
import re
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

from litestar import Litestar, Request, Response, WebSocket
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler, WebsocketRouteHandler
from litestar.routes import ASGIRoute, HTTPRoute, WebSocketRoute
from litestar.types import ASGIApp, Receive, Scope, Send
from litestar.utils.path import normalize_path

from ares.edge.dashboard import files
from ares.edge.rest.answers import Answer, refuse
from ares.edge.rest.api import ApiServices, ApiSettings
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.audit_middleware import Auditor
from ares.edge.rest.http.failures import Failures
from ares.edge.rest.http.gate import CALLER, PERMISSION, ROUTE, Frontier, Gate
from ares.edge.rest.http.inputs import BodyReader, QueryReader
from ares.edge.rest.http.limits import Meter, lane_of, payer
from ares.edge.rest.http.openapi import document
from ares.edge.rest.http.operation import PUBLIC, Edge, Operation, RequestCall, Socket
from ares.edge.rest.http.problems import Problem
from ares.edge.rest.http.read_through import THROUGH, through
from ares.edge.rest.http.request_context import noted
from ares.edge.rest.http.streaming import Streams
from ares.edge.rest.http.wire import header
from ares.edge.rest.routes.routes import OPERATIONS, PATH_PARAMETERS, PREFIX, SOCKETS
from ares.model.access import Principal

_PATTERNS = {name: re.compile(pattern, re.ASCII) for name, pattern in PATH_PARAMETERS.items()}
_ANYONE = (Principal(token_id="", tenant="", role="viewer"), "")
STREAMS = "ares_streams"


# Like any other that is not there, except to the audit log.
def _no_such_path() -> Problem:
    return Problem("not-found", reason="path")


METER = "ares_meter"
# What serves operations without HTTP: `scope["route_handler"]` names them.
DIRECT = "ares_direct"
# Why such a request cannot be understood.
BROKEN = "ares_broken"


class UndeclaredRoute(Exception):
    """A route declares no permission: it would be open to every caller."""


@dataclass(frozen=True, slots=True)
class _Serving:
    """What is one server's own. The table of routes is shared, and finds it in the request."""

    edge: Edge
    gate: Gate
    failures: Failures


_SERVING = "ares_serving"
# Where a route keeps the app that serves its operation.
_APP = "app"


def build_app(
    services: ApiServices, settings: ApiSettings, extra: Sequence[HTTPRouteHandler | WebsocketRouteHandler] = ()
) -> Litestar:
    """`extra` are routes of other parts, such as the dashboard; they too must declare `opt["permission"]`."""
    meter = Meter(settings.limits, services.clock, services.telemetry)
    edge = Edge(services, settings, Streams(services, settings), meter)
    failures = Failures(services.rng)
    serving = _Serving(edge, Gate(services, meter, failures.problem_of), failures)
    app = copy(_routed(extra) if extra else routed_once())
    framework, route = app.asgi_handler, app.asgi_router.handle_routing

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        """Operations are found by the framework's router and served without the rest of it, which costs as much as all
        that is done for a read. Sockets, and what is no operation, are its own."""
        scope["state"][_SERVING] = serving
        if scope["type"] == "http":
            try:
                _, handler, scope["path"], scope["path_params"], _ = route(
                    path=normalize_path(scope["path"]), method=scope["method"]
                )
            except HTTPException as error:
                await refuse(failures.problem_of(error), scope["path"])(scope, receive, send)
                return
            if (operation := handler.opt.get(_APP)) is not None:
                scope["route_handler"] = handler
                await serving.gate.enter(operation, scope, receive, send)
                return
        scope["app"] = scope["litestar_app"] = app
        await framework(scope, receive, send)

    async def direct(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"][_SERVING] = serving
        broken: Problem | None = scope["state"].get(BROKEN)
        serve = scope["route_handler"].opt[_APP] if broken is None else refuse(broken, scope["path"])
        await serving.gate.enter(serve, scope, receive, send)

    app.state = State({STREAMS: edge.streams, METER: meter, DIRECT: Auditor(direct, services)})
    app.asgi_handler = Auditor(Frontier(serve, services, settings), services)
    return app


@cache
def routed_once() -> Litestar:
    """Once in a process: the framework takes a tenth of a second and more to read the table of routes."""
    return _routed(())


def _routed(extra: Sequence[HTTPRouteHandler | WebsocketRouteHandler]) -> Litestar:
    app = Litestar(
        [
            *(_http(operation) for operation in (*OPERATIONS, _openapi())),
            *(_socket(socket) for socket in SOCKETS),
            *_pages(),
            *extra,
        ],
        middleware=[_gated],
        exception_handlers={Exception: _failed},
        openapi_config=None,
        logging_config=None,
        state=None,
    )
    _refuse_undeclared(app)
    return app


def _serving(scope: Scope) -> _Serving:
    return scope["state"][_SERVING]


def _gated(app: ASGIApp) -> ASGIApp:
    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        await _serving(scope).gate.enter(app, scope, receive, send)

    return enter


def _failed(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    return _serving(request.scope).failures.answer(request, error)


def _refuse_undeclared(app: Litestar) -> None:
    for route in app.routes:
        match route:
            case HTTPRoute():
                handlers = [h for h in route.route_handlers if h.http_methods != {"OPTIONS"}]
            case WebSocketRoute() | ASGIRoute():
                handlers = [route.route_handler]
        if not all(handler.opt.get(PERMISSION) for handler in handlers):
            raise UndeclaredRoute(f"{route.path}: declare opt={{'permission': ...}}")


def _paths(path: str, *, root: bool) -> list[str]:
    typed = re.sub(r"\{(\w+)\}", r"{\1:str}", path).replace("{path:str}", "{path:path}")
    return [PREFIX + typed, *([typed] if root else [])]


def _http(operation: Operation) -> HTTPRouteHandler:
    query = QueryReader(operation.query)
    body = None if operation.body is None else BodyReader(operation.body)
    kind = "public" if operation.access == PUBLIC else lane_of(operation.method)
    is_through = operation.id in THROUGH

    async def endpoint(request: Request[Any, Any, Any]) -> ASGIApp:
        scope = request.scope
        edge = _serving(scope).edge
        meter, settings = edge.meter, edge.settings
        lane = meter.lane(kind)
        who, token = scope["state"].get(CALLER, _ANYONE)
        path = _checked(scope["path_params"])
        asked = query.read(scope)
        kept = 0 if body is None else meter.keep(who, body.size(scope, settings))
        try:
            raw = b"" if body is None else await body.receive(scope, request.receive, settings)
            # Not before the whole body is here: a client that sends slowly must not take another one's turn.
            within_share = await meter.pacer.begin(payer(who))
            try:
                await lane.begin(who)
                try:
                    value, plain = (None, None) if body is None else body.decode(scope, raw)
                    call = RequestCall(edge, who, token, path, asked, value, plain, raw, scope)
                    if is_through and (passed := through(operation.id, call)) is not None:
                        return passed
                    return await operation.handler(call)
                finally:
                    lane.end(who)
            finally:
                meter.pacer.end(within_share=within_share)
        finally:
            if kept:
                meter.free(who, kept)

    return HTTPRouteHandler(
        _paths(operation.path, root=operation.root),
        http_method=operation.method,
        # The answers carry their own status; the framework only wants one for a body.
        status_code=200,
        opt={PERMISSION: operation.access, ROUTE: operation, _APP: _app_of(endpoint)},
        name=operation.id,
    )(endpoint)


def _app_of(endpoint: Callable[[Request[Any, Any, Any]], Awaitable[ASGIApp]]) -> ASGIApp:
    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await endpoint(Request(scope, receive, send))
            await response(scope, receive, send)
        except Exception as error:
            if noted(scope).answered:
                raise
            await refuse(_serving(scope).failures.problem_of(error), scope["path"])(scope, receive, send)

    return answered


def _socket(route: Socket) -> WebsocketRouteHandler:
    query = QueryReader(route.query)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        serving = _serving(scope)
        who, token = scope["state"][CALLER]
        try:
            path = _checked(scope["path_params"])
            asked = query.read(scope)
            call: RequestCall[Any, Any] = RequestCall(serving.edge, who, token, path, asked, None, None, b"", scope)
            await route.handler(call, receive, send)
        except Exception as error:
            await refuse(serving.failures.problem_of(error), scope["path"])(scope, receive, send)

    async def endpoint(socket: WebSocket[Any, Any, Any]) -> None:
        await serve(socket.scope, socket.receive, socket.send)

    declared = {PERMISSION: route.access, ROUTE: route, _APP: serve}
    return WebsocketRouteHandler(_paths(route.path, root=False), opt=declared, name=route.id)(endpoint)


def _pages() -> list[HTTPRouteHandler]:
    """The dashboard, at its own addresses: what it shows it asks the API for, with the rights of its user."""

    async def page(request: Request[Any, Any, Any]) -> ASGIApp:
        found = files.static_file(request.scope["path"].removeprefix(files.PREFIX).strip("/"))
        if found is None:
            raise _no_such_path()
        is_packed = "gzip" in (header(request.scope, b"accept-encoding") or "")
        headers = {**found.headers, "content-encoding": "gzip"} if is_packed else found.headers
        return Answer(found.packed if is_packed else found.plain, media_type=found.media_type, headers=headers)

    async def root(request: Request[Any, Any, Any]) -> ASGIApp:
        return Answer(b"", status=307, media_type="text/plain", headers={"location": f"{files.PREFIX}/"})

    served = ((["/"], "openDashboard", root), ([files.PREFIX, f"{files.PREFIX}/{{path:path}}"], "dashboard", page))
    return [
        HTTPRouteHandler(paths, http_method="GET", opt={PERMISSION: PUBLIC, _APP: _app_of(make)}, name=name)(make)
        for paths, name, make in served
    ]


def _checked(path: dict[str, Any]) -> dict[str, str]:
    # The one that takes the rest of the URL comes with the slash before it.
    found = {name: str(value).removeprefix("/") for name, value in path.items()}
    for name, value in found.items():
        if not _PATTERNS[name].match(value) or value.endswith("\n"):
            raise _no_such_path()
    return found


def _openapi() -> Operation:
    # Made at the first request: it would slow down the start of the server.
    @cache
    def text() -> bytes:
        return document((*OPERATIONS, operation), PATH_PARAMETERS)

    @cache
    def packed() -> bytes:
        return gzip.compress(text())

    async def openapi(call: RequestCall[NoQuery, None]) -> ASGIApp:
        # A browser reads all of it for one page: a twelfth of the bytes.
        if "gzip" in (call.header(b"accept-encoding") or ""):
            return Answer(packed(), headers={"content-encoding": "gzip"})
        return Answer(text())

    operation = Operation(
        "openapi", "GET", "/openapi.json", PUBLIC, "This document.", openapi,
        {200: ("application/json", dict[str, Any])}, NoQuery, tag="server",
    )  # fmt: skip
    return operation
