"""Operations of the API without HTTP, for another form of it: through the same gate, limits, audit and handlers.

A request is an ASGI scope that never was on a wire. Its operation is named, not found by a path: what a caller puts
into an id leads nowhere else.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import urlencode

import msgspec
from litestar import Litestar
from litestar.types import ASGIApp, Message, Scope

from ares.edge.rest.app import BROKEN, DIRECT
from ares.edge.rest.http.audit_middleware import FORM
from ares.edge.rest.http.operation import Operation, Socket
from ares.edge.rest.http.problems import KINDS, Problem
from ares.edge.rest.http.sockets import CLOSES, LAGGED
from ares.edge.rest.routes.routes import OPERATIONS, PREFIX, SOCKETS

# Metadata that has a meaning in HTTP too. Nothing else is passed on.
HEADERS = ("authorization", "idempotency-key", "traceparent", "x-ares-tenant", "x-ares-break-glass")
# The end of a stream, as the problem it would be before its beginning.
_CODES = {CLOSES["done"][0]: "", CLOSES["revoked"][0]: "unauthenticated", CLOSES["shutdown"][0]: "not-ready",
          LAGGED[0]: "lagged"}  # fmt: skip

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DirectRequest:
    """`query` and `body` are in plain values. The body is made when it is read: after the caller was let in."""

    operation: str
    # What the audit log calls the form of the API that is spoken.
    form: str
    path: dict[str, str] = field(default_factory=dict[str, str])
    query: Plain = field(default_factory=Plain)
    body: Callable[[], Plain] | None = None
    # Of the request as it came.
    size: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    client: tuple[str, int] = ("", 0)
    # Why it cannot be understood. A caller is told so that may ask for the operation at all.
    broken: Problem | None = None


@dataclass(frozen=True, slots=True)
class DirectRefusal:
    """A problem, as its document in HTTP says it."""

    code: str
    status: int
    title: str
    detail: str = ""
    fix: str = ""
    path: str = ""
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class DirectParts:
    """Where the fields of a request of one operation go."""

    path: tuple[str, ...]
    query: frozenset[str]
    body: bool
    changes: bool


class Direct:
    """All operations and sockets of one app."""

    def __init__(self, app: Litestar) -> None:
        self._serve: ASGIApp = app.state[DIRECT]
        self._handlers = {handler.name: handler for route in app.routes for handler in handlers_of(route)}
        self._known: dict[str, Operation | Socket] = {known.id: known for known in (*OPERATIONS, *SOCKETS)}

    def parts(self, operation: str) -> DirectParts:
        known = self._known[operation]
        path = tuple(part[1:-1] for part in known.path.split("/") if part.startswith("{"))
        query = frozenset(field.encode_name for field in msgspec.structs.fields(known.query))
        called = isinstance(known, Operation)
        return DirectParts(
            path=path,
            query=query,
            body=called and known.body is not None,
            changes=called and known.method != "GET" and not known.reads,
        )

    async def ask(self, request: DirectRequest, shape: Callable[[bytes], Awaitable[bytes]]) -> bytes | DirectRefusal:
        """One answer. What `shape` does with its JSON is charged to the caller's tenant, as the rest is."""
        answer = _Collected(shape)
        await self._serve(self._scope(request, "http"), _receive(request), answer.take)
        return answer.body if answer.status < 400 else _refusal(answer)

    async def follow(
        self, request: DirectRequest, opened: Callable[[], Awaitable[None]], say: Callable[[bytes], Awaitable[None]],
        gone: asyncio.Event,
    ) -> DirectRefusal | None:  # fmt: skip
        """A stream of messages in JSON, until its end, or until the client is `gone`. `opened`: nothing that happens
        from now on is missed."""
        refused = _Collected()
        ending: list[int] = []

        async def take(message: Message) -> None:
            kind: str = message["type"]
            if kind == "websocket.accept":
                await opened()
            elif kind == "websocket.send":
                await say(cast("Any", message)["text"].encode())
            elif kind == "websocket.close":
                ending.append(cast("Any", message)["code"])
            else:
                await refused.take(message)

        await self._serve(self._scope(request, "websocket"), _connected(gone), take)
        if refused.status >= 400:
            return _refusal(refused)
        code = _CODES.get(ending[0], "internal") if ending else ""
        return None if not code else DirectRefusal(code, KINDS[code].status, KINDS[code].title, fix=KINDS[code].fix)

    def _scope(self, request: DirectRequest, kind: Literal["http", "websocket"]) -> Scope:
        known = self._known[request.operation]
        headers = [(name.encode(), value.encode("latin-1")) for name, value in request.headers.items()]
        if request.body is not None:
            headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % request.size)]
        query = {name: _text(value) for name, value in request.query.items()}
        made: Any = {
            "type": kind,
            "method": known.method if isinstance(known, Operation) else "GET",
            "path": PREFIX + known.path,
            "path_params": request.path,
            "query_string": urlencode(query, doseq=True).encode(),
            "headers": headers,
            "subprotocols": [],
            "client": request.client,
            "state": {FORM: request.form, BROKEN: request.broken},
            "route_handler": self._handlers[request.operation],
        }
        return made


class _Collected:
    """An answer that is not sent."""

    def __init__(self, shape: Callable[[bytes], Awaitable[bytes]] | None = None) -> None:
        self._shape = shape
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    async def take(self, message: Message) -> None:
        said: Any = message
        if said["type"].endswith("response.start"):
            self.status, self.headers = said["status"], dict(said["headers"])
        elif said["type"].endswith("response.body"):
            self.body += said["body"]
            if not said["more_body"] and self._shape is not None and self.status < 400:
                self.body = await self._shape(self.body)


def _text(value: Any) -> Any:
    """As a query string says it."""
    return str(value).lower() if isinstance(value, bool) else value


def handlers_of(route: Any) -> tuple[Any, ...]:
    return tuple(getattr(route, "route_handlers", None) or (route.route_handler,))


def _receive(request: DirectRequest) -> Any:
    async def receive() -> Any:
        body = b"" if request.body is None else msgspec.json.encode(request.body())
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _connected(gone: asyncio.Event) -> Any:
    greeted = False

    async def receive() -> Any:
        nonlocal greeted
        if not greeted:
            greeted = True
            return {"type": "websocket.connect"}
        await gone.wait()
        return {"type": "websocket.disconnect"}

    return receive


def _refusal(answer: _Collected) -> DirectRefusal:
    document = msgspec.json.decode(answer.body, type=dict[str, Any])
    wait = answer.headers.get(b"retry-after")
    return DirectRefusal(
        code=document["code"],
        status=answer.status,
        title=document["title"],
        detail=document.get("detail", ""),
        fix=document["fix"],
        path=document.get("path", ""),
        retry_after_s=None if wait is None else float(wait),
    )
