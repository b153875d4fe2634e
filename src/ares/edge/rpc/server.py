"""Where gRPC clients connect. Every method is an operation of the API; what callers may do is decided there."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import Message

from ares.core.net import is_loopback
from ares.edge.rest.direct import Direct, DirectParts, DirectRefusal, DirectRequest
from ares.edge.rest.http.problems import Problem
from ares.edge.rpc.calls import Context, client_of, headers_of
from ares.edge.rpc.health import HealthService
from ares.edge.rpc.messages import BadMessage, message_class, parsed, plain, pool, refuse_unknown, written
from ares.edge.rpc.methods import PACKAGE, SERVICES, method_of
from ares.edge.rpc.reflection import ReflectionService
from ares.edge.rpc.statuses import details_of, message_of, status_of
from ares.edge.rpc.visitors import Visitors
from ares.ports.telemetry import Telemetry

# What the audit log calls this form of the API.
FORM: Final = "GRPC"
# A request without a body has a few names in it.
_ASKED_BYTES_MAX: Final = 64 * 1024
_CALLS_MAX: Final = 16_384
# How long a stream has to end once its client has left.
_LEAVING_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RpcSettings:
    """Where it listens, by which certificate, and what one message and one connection may ask of it."""

    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None
    message_bytes_max: int = 1024 * 1024
    streams_per_connection: int = 100
    # Calls in service at a time.
    calls_per_credential: int = 200
    calls_per_address: int = 2000


def _options(settings: RpcSettings) -> tuple[tuple[str, int], ...]:
    return (
        ("grpc.max_receive_message_length", settings.message_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", settings.streams_per_connection),
        ("grpc.max_metadata_size", 16 * 1024),
        ("grpc.absolute_max_metadata_size", 32 * 1024),
        ("grpc.server_handshake_timeout_ms", 10_000),
        # A connection that asks nothing is closed; clients open another.
        ("grpc.max_connection_idle_ms", 600_000),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 15_000),
        # Clients that ping more often than this are cut off.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # Two servers on one port would share clients silently.
        ("grpc.so_reuseport", 0),
    )


class RpcServer:
    """The public gRPC server of one replica. `start` returns when calls are served; `port` is then known."""

    def __init__(self, direct: Direct, settings: RpcSettings, telemetry: Telemetry) -> None:
        self._direct = direct
        self._settings = settings
        self._telemetry = telemetry
        self._server: grpc.aio.Server | None = None
        # Changes go on when their caller has left: they are recorded to the end.
        self._working: set[asyncio.Task[Any]] = set()
        self._by_address = Visitors(_CALLS_MAX, settings.calls_per_address)
        self._by_credential = Visitors(_CALLS_MAX, settings.calls_per_credential)
        self.port = settings.port

    async def start(self) -> None:
        settings = self._settings
        if settings.tls_cert is None and not is_loopback(settings.host):
            raise ValueError(
                f"{settings.host} is reachable from outside: set http.tls_cert and http.tls_key, or bind 127.0.0.1"
            )
        server = grpc.aio.server(options=_options(settings), maximum_concurrent_rpcs=_CALLS_MAX)
        visitors = Visitors()
        health = HealthService(self._direct, visitors)
        server.add_generic_rpc_handlers(
            (*(self._service(name) for name in SERVICES), health.handlers(), *ReflectionService(visitors).handlers())
        )
        address = f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"
        try:
            self.port = _bind(server, address, settings)
        except RuntimeError:
            raise OSError(f"cannot listen for gRPC on {settings.host}:{settings.port}: the port is taken") from None
        await server.start()
        self._server = server

    async def stop(self, grace_s: float) -> None:
        """Calls in service have `grace_s` to end; streams were told by then to come back elsewhere."""
        if self._server is not None:
            await self._server.stop(grace_s)
        if self._working:
            await asyncio.wait(self._working, timeout=grace_s)

    def _service(self, name: str) -> grpc.GenericRpcHandler:
        service = pool().FindServiceByName(f"{PACKAGE}.{name}")
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for operation in SERVICES[name]:
            method = service.FindMethodByName(method_of(operation))
            call = _Method(
                operation,
                self._direct.parts(operation),
                message_class(method.input_type.full_name),
                message_class(method.output_type.full_name),
            )
            if method.server_streaming:
                serve = partial(self._in_turn, self._stream, call)
                handlers[method.name] = grpc.unary_stream_rpc_method_handler(serve)
            else:
                serve = partial(self._in_turn, self._unary, call)
                handlers[method.name] = grpc.unary_unary_rpc_method_handler(serve)
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    async def _in_turn(self, serve: "_Serve", method: "_Method", data: bytes, context: Context) -> bytes | None:
        """Serves a call, if not too many of its caller's are in service."""
        address, credential = client_of(context)[0], headers_of(context).get("authorization", "")
        with self._by_address.one(address) as near, self._by_credential.one(credential or address) as known:
            if not (near and known):
                self._count(grpc.StatusCode.RESOURCE_EXHAUSTED.name)
                whose = "credential" if near else "address"
                text = (
                    f"Too many calls of this {whose} are in service. Wait for some to end, and read what they answer."
                )
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
            return await serve(method, data, context)

    async def _unary(self, method: "_Method", data: bytes, context: Context) -> bytes:
        request = method.request(data, context)
        asking = asyncio.create_task(self._direct.ask(request, partial(written, method.output)))
        if method.parts.changes:
            self._working.add(asking)
            asking.add_done_callback(self._working.discard)
        try:
            # At the deadline of its caller a read ends. A change may have been made: it goes on to its audit entry.
            answer = await (asyncio.shield(asking) if method.parts.changes else asking)
        except asyncio.CancelledError:
            self._count("CANCELLED")
            raise
        if isinstance(answer, DirectRefusal):
            await self._refuse(context, answer)
        self._count("OK")
        return answer

    async def _stream(self, method: "_Method", data: bytes, context: Context) -> None:
        request = method.request(data, context)
        gone = asyncio.Event()

        async def opened() -> None:
            await context.send_initial_metadata(())

        async def say(piece: bytes) -> None:
            # Waits while the client does not read; how long it may is decided where the stream comes from.
            await context.write(await written(method.output, piece))

        following = asyncio.create_task(self._direct.follow(request, opened, say, gone))
        try:
            refusal = await asyncio.shield(following)
        except asyncio.CancelledError:
            self._count("CANCELLED")
            gone.set()
            await asyncio.wait((following,), timeout=_LEAVING_S)
            following.cancel()
            raise
        if refusal is not None:
            await self._refuse(context, refusal)
        self._count("OK")

    async def _refuse(self, context: Context, refusal: DirectRefusal) -> NoReturn:
        status = status_of(refusal)
        self._count(status.name)
        await context.abort(status, message_of(refusal), (details_of(refusal),))
        raise AssertionError("abort raises")

    def _count(self, status: str) -> None:
        self._telemetry.count("ares_grpc_requests_total", 1, status)


_Serve = Callable[["_Method", bytes, Context], Awaitable[bytes | None]]


@dataclass(frozen=True, slots=True)
class _Method:
    """One operation with its messages."""

    operation: str
    parts: DirectParts
    input: type[Message]
    output: type[Message]

    def request(self, data: bytes, context: Context) -> DirectRequest:
        headers, client = headers_of(context), client_of(context)
        try:
            if not self.parts.body and len(data) > _ASKED_BYTES_MAX:
                raise BadMessage(f"{len(data)} bytes; {_ASKED_BYTES_MAX} are enough to ask for this")
            message = parsed(self.input, data)
            if not self.parts.body:
                refuse_unknown(message)
            path = {name: str(getattr(message, name)) for name in self.parts.path}
            query = plain(message, names=self.parts.query) if self.parts.query else {}
        except BadMessage as error:
            broken = Problem("invalid", detail=str(error), path=error.path)
            return DirectRequest(self.operation, FORM, headers=headers, client=client, broken=broken)
        body = self._body(message) if self.parts.body else None
        return DirectRequest(self.operation, FORM, path, query, body, len(data), headers, client)

    def _body(self, message: Message) -> Callable[[], dict[str, Any]]:
        def body() -> dict[str, Any]:
            # Not before the caller was let in: a large one takes a while to look through.
            try:
                refuse_unknown(message)
                given = plain(message)
            except BadMessage as error:
                raise Problem("invalid", detail=str(error), path=error.path) from None
            return {name: value for name, value in given.items() if name not in self.parts.path}

        return body


def _bind(server: grpc.aio.Server, address: str, settings: RpcSettings) -> int:
    if settings.tls_cert is None or settings.tls_key is None:
        return server.add_insecure_port(address)
    pair = (settings.tls_key.read_bytes(), settings.tls_cert.read_bytes())
    return server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
