"""Limits of connections: their number, the time that a request may take to arrive, and the size of each part.

The HTTP library limits none of this. All of it is measured here: the handshake of TLS, the head of a request,
the framing of its body, trailers, a WebSocket's messages. It costs a request a few comparisons; the time
limits are kept by one look at all connections every second.
"""

import asyncio
import contextlib
import resource
from collections import Counter
from ssl import SSLObject
from typing import Any, Final, Literal, Protocol, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ares.core.limits import ServerLimits
from ares.edge.rest.http.problems import MEDIA_TYPE, Problem, retry_after
from ares.edge.rest.http.wire import ARRIVED

Part = Literal["", "head", "body"]

_LOOK_S = 1.0
# Requests that one connection may send ahead of their answers.
_PIPELINED_MAX = 32
# Pieces that one message of a WebSocket may come in.
_FRAGMENTS_MAX = 64
# Open files that are not connections of clients: the store, logs, agents.
_FILES_KEPT = 256


class _Refused(Exception):
    """Leaves a callback of the parser; the connection knows why."""


class _Watched(Protocol):
    """A connection that is looked at every second."""

    def look(self, now: float) -> None: ...


class Connections:
    """All open connections of one server."""

    def __init__(self, limits: ServerLimits, body_s: float, send_s: float) -> None:
        self.limits = limits
        self.body_s = body_s
        self.send_s = send_s
        self._max = min(limits.connections_max, max(1, _open_files_max() - _FILES_KEPT))
        self._by_address: Counter[str] = Counter()
        self._open: set[_Watched] = set()
        self._total = 0

    def protocols(self) -> "tuple[type[_Http], type[_Ws]]":
        """Protocol classes for HTTP and for WebSockets, whose connections are counted here."""
        return type("Http", (_Http,), {"all": self}), type("Ws", (_Ws,), {"all": self})

    def opened(self, address: str) -> Problem | None:
        """Counts a connection. The problem says why it is one too many."""
        self._total += 1
        self._by_address[address] += 1
        if self._by_address[address] > self.limits.connections_per_address_max:
            return _crowded("rate-limited", f"{self.limits.connections_per_address_max:,} from your address")
        return _crowded("overloaded", f"{self._max:,}") if self._total > self._max else None

    def closed(self, address: str) -> None:
        self._total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def watch(self, connection: _Watched) -> None:
        self._open.add(connection)

    def forget(self, connection: _Watched) -> None:
        self._open.discard(connection)

    async def run(self) -> None:
        """Ends connections that take too long. Never returns."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(_LOOK_S, self.limits.head_s / 2))
            now = loop.time()
            for connection in tuple(self._open):
                connection.look(now)


class _Http(HttpToolsProtocol):
    """One connection until it ends or becomes a WebSocket."""

    all: Connections
    # Counted before its handshake.
    admitted = False

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._address = ""
        # The part being received, and since when. With "" the time runs only before the first request.
        self._part: Part = ""
        self._since: float | None = None
        # Since when the client has not read its answer.
        self._stuck: float | None = None
        # Received, and no part of a body: of a head that is not complete, or around the pieces of a body.
        self._loose_bytes = 0
        self._why: Problem | None = None
        # The request that is being served; requests behind it may have arrived already.
        self._serving: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._since = self.loop.time()
        self.all.watch(self)
        if machine := machine_of(transport):
            self.app_state = {**self.app_state, MACHINE: machine}
        if not self.admitted and (problem := self.all.opened(self._address)) is not None:
            self._refuse(problem)

    def connection_lost(self, exc: Exception | None) -> None:
        self.all.forget(self)
        self.all.closed(self._address)
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._loose_bytes += len(data)
        super().data_received(data)
        if not self._part:
            return
        if self._since is None:
            self._since = self.loop.time()
        # The parser gathers a name or a value until it ends: of a head, and of trailers after a body.
        if self._loose_bytes > self.all.limits.head_kib_max << 10:
            self._refuse(self._too_long() if self._part == "head" else self._no_trailers())

    def on_message_begin(self) -> None:
        self._part = "head"
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._part == "body":
            # A header after the body is not checked, so it must not pass for one that was.
            self._why = self._no_trailers()
            raise _Refused
        if len(self.headers) >= self.all.limits.headers_max:
            self._why = self._too_long()
            raise _Refused
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        head_max = self.all.limits.head_kib_max << 10
        # The data may hold a body too: the exact size is computed only if it could matter.
        if self._loose_bytes > head_max and self._head_size() > head_max:
            self._why = self._too_long()
            raise _Refused
        if len(self.pipeline) >= _PIPELINED_MAX:
            self._why = _crowded("rate-limited", f"{_PIPELINED_MAX} requests ahead of their answers", "requests")
            raise _Refused
        self._part = "body"
        self._loose_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._loose_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._part = ""
        self._since = None
        self._loose_bytes = 0
        cast("Any", self.scope)["state"][ARRIVED] = True
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        # Counted on by the protocol that takes it over.
        self.all.forget(self)
        self.all.closed(self._address)
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """The answer to a request that the parser could not read or a callback refused."""
        self._refuse(self._why or Problem("bad-request", detail="this is not HTTP/1.1"))

    def pause_writing(self) -> None:
        self._stuck = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stuck = None
        super().resume_writing()

    def look(self, now: float) -> None:
        """Ends it if its client is too slow."""
        if self._stuck is not None and now - self._stuck > self.all.send_s:
            self.transport.abort()
        elif self._since is not None:
            allowed_s = self.all.limits.head_s + (self.all.body_s if self._part == "body" else 0.0)
            if now - self._since > allowed_s:
                detail = f"its {self._part or 'head'} was not complete after {allowed_s:g} s"
                self._refuse(Problem("request-timeout", detail=detail))

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _too_long(self) -> Problem:
        limits = self.all.limits
        return Problem(
            "head-too-large", detail=f"the limits are {limits.headers_max} headers and {limits.head_kib_max} KiB"
        )

    def _no_trailers(self) -> Problem:
        return Problem("bad-request", detail="fields after a body (trailers) are not taken; send them as headers")

    def _refuse(self, problem: Problem) -> None:
        """Sends the problem, unless another answer is being sent, and closes."""
        if self.transport.is_closing():
            return
        # The library's own type leaves out that there is none before the first request.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or cycle.response_complete or not cycle.response_started:
            body = problem.body()
            fields = {
                "content-type": MEDIA_TYPE, "content-length": str(len(body)), "connection": "close",
                "cache-control": "no-store", **problem.headers,
            }  # fmt: skip
            head = b"".join(f"{name}: {value}\r\n".encode() for name, value in fields.items())
            self.transport.write(b"".join((STATUS_LINE[problem.kind.status], head, b"\r\n", body)))
        self._leave()
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._serving = cycle
        super()._start_asgi_task(cycle, app)

    def _leave(self) -> None:
        """Tells the handler that the client is gone: a write to it would be an error, and a line in the log."""
        if self._serving is not None and not self._serving.response_complete:
            self._serving.disconnected = True
            self._serving.message_event.set()


class _Ws(WebSocketsSansIOProtocol):
    """A WebSocket. From a client that does not read its messages nothing is read either, and it is cut off."""

    all: Connections

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._stuck: float | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.all.opened(self.client[0] if self.client else "")
        self.all.watch(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.all.forget(self)
        self.all.closed(self.client[0] if self.client else "")
        super().connection_lost(exc)

    def handle_cont(self, event: Any) -> None:
        # The library bounds their bytes; pieces without any would be kept all the same.
        if len(self.frames) >= _FRAGMENTS_MAX:
            self.transport.abort()
            return
        super().handle_cont(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.time()
        # Each ping is answered: without this, pings of a client that does not read would fill the memory.
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stuck = None
        if not self.read_paused:
            self.transport.resume_reading()

    def look(self, now: float) -> None:
        """Ends it if its client has not read for long; the stream behind it has tried to say so before."""
        if self._stuck is not None and now - self._stuck > 2 * self.all.send_s:
            self.transport.abort()


def _crowded(code: str, limit: str, what: str = "connections") -> Problem:
    return Problem(code, detail=f"the limit is {limit} ({what})", headers=retry_after(1.0), reason="queue_full")


def _open_files_max() -> int:
    """Raised as far as the system allows: each connection is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


# Under which a connection keeps, for each of its requests, which machine it is.
MACHINE: Final = "ares_machine"


def machine_of(transport: asyncio.BaseTransport) -> str:
    """The identity in the certificate that the other side proved, empty when it has none."""
    tls: SSLObject | None = transport.get_extra_info("ssl_object")
    shown = None if tls is None else tls.getpeercert()
    if not shown:
        return ""
    names = shown.get("subjectAltName", ())
    return next((str(value) for kind, value in names if kind == "URI"), "unknown")
