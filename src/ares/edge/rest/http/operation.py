"""One value per route. The same table makes the app's routes, their checks and the OpenAPI document."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from ares.edge.rest.api import ApiServices, ApiSettings
from ares.edge.rest.http.limits import Meter
from ares.edge.rest.http.request_context import noted
from ares.edge.rest.http.streaming import Streams
from ares.edge.rest.http.wire import header
from ares.model.access import Permission, Principal

# Routes that need no credential. A test pins the list of them.
PUBLIC: Literal["public"] = "public"
Access = Permission | Literal["public"]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

Q = TypeVar("Q", bound=msgspec.Struct)
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Edge:
    """What every handler may use."""

    services: ApiServices
    settings: ApiSettings
    streams: Streams
    meter: Meter


@dataclass(frozen=True, slots=True)
class RequestCall(Generic[Q, B]):
    """A request that passed the gate, decoded. `plain` is its JSON before typing, `raw` its bytes."""

    edge: Edge
    who: Principal
    token: str
    path: dict[str, str]
    query: Q
    body: B
    plain: Any
    raw: bytes
    scope: Scope

    def header(self, name: bytes) -> str | None:
        return header(self.scope, name)

    def made(self, *names: str, **counts: int) -> None:
        """For the audit entry: what the request made, each as "kind/id", and how many of what."""
        about = noted(self.scope)
        about.made, about.counts = names, counts


Handler = Callable[[RequestCall[Any, Any]], Awaitable[ASGIApp]]
SocketHandler = Callable[[RequestCall[Any, Any], Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Body:
    """How a request's body is read. With `typed` false the handler gets bytes and decodes them itself; they are JSON
    unless the body is `binary`."""

    type: type[msgspec.Struct]
    required: bool = True
    typed: bool = True
    batch: bool = False
    binary: bool = False
    # A part that is often the same: it is decoded once for equal bytes.
    shared: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """A route. `answers` maps a good status to its media type and schema."""

    id: str
    method: Method
    path: str
    access: Access
    summary: str
    handler: Handler
    answers: dict[int, tuple[str, Any]]
    query: type[msgspec.Struct]
    body: Body | None = None
    # Codes it may answer with beyond those every route has.
    problems: tuple[str, ...] = ()
    tag: str = "jobs"
    # Also at the root, without a version: where probes and scrapers look.
    root: bool = False
    # A POST that changes nothing: it leaves no audit entry.
    reads: bool = False
    # A login link is a credential for it.
    takes_links: bool = False
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Socket:
    """A WebSocket route."""

    id: str
    path: str
    access: Access
    summary: str
    handler: SocketHandler
    query: type[msgspec.Struct]
