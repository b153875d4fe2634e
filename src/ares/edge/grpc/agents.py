"""Where agents connect: authenticates the stream, hands its frames to the sessions service."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple, Protocol

import grpc
import grpc.aio
import msgspec
import structlog

from ares.core.access.tokens import Denied
from ares.edge.rest.api import LOOPBACK_NAMES
from ares.model.access import Principal
from ares.model.link import AgentFrame, JoinReply, JoinRequest, ServerFrame
from ares.services.enrolment import SessionRefused

_log = structlog.get_logger(__name__)

_SERVICE: Final = "ares.v1.AgentLink"
_MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
_OPTIONS: Final = (
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    # Agents ping every two seconds; faster ones are cut off.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Two servers on one port would share agents silently.
    ("grpc.so_reuseport", 0),
)

Context = grpc.aio.ServicerContext[Any, Any]


class Sessions(Protocol):
    """What this edge needs of `services.sessions.Sessions`."""

    async def join(self, request: JoinRequest) -> JoinReply | Denied: ...

    def serve(self, who: Principal, frames: AsyncIterator[AgentFrame]) -> AsyncGenerator[ServerFrame, None]: ...


class Tokens(Protocol):
    """What this edge needs of `services.tokens.Tokens`."""

    async def authenticate(self, presented: str) -> Principal | Denied: ...


class Tls(NamedTuple):
    """A certificate chain and its key, in PEM."""

    certificate: bytes
    key: bytes


class AgentServer:
    """The gRPC server for agents of one replica."""

    def __init__(self, sessions: Sessions, tokens: Tokens) -> None:
        self._sessions = sessions
        self._tokens = tokens
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int, tls: Tls | None = None) -> int:
        """Listens; port 0 takes a free one. Returns the port."""
        if tls is None and host not in LOOPBACK_NAMES:
            raise ValueError(f"agents may not connect to {host} in the clear; configure a TLS certificate and key")
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((self._handlers(),))
        try:
            bound = _bind(server, f"{host}:{port}", tls)
        except RuntimeError:
            raise OSError(f"cannot listen for agents on {host}:{port}: the port is taken; choose another") from None
        await server.start()
        self._server = server
        return bound

    async def stop(self, grace_s: float) -> None:
        """Ends the streams: agents reconnect elsewhere and go on."""
        if self._server is not None:
            await self._server.stop(grace_s)

    def _handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "Join": grpc.unary_unary_rpc_method_handler(
                    self._join,
                    request_deserializer=msgspec.msgpack.Decoder(JoinRequest).decode,
                    response_serializer=msgspec.msgpack.Encoder().encode,
                ),
                "Session": grpc.stream_stream_rpc_method_handler(
                    self._session,
                    request_deserializer=msgspec.msgpack.Decoder(AgentFrame).decode,
                    response_serializer=msgspec.msgpack.Encoder().encode,
                ),
            },
        )

    async def _join(self, request: JoinRequest, context: Context) -> JoinReply:
        reply = await self._sessions.join(request)
        if isinstance(reply, Denied):
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                f"the join token is {reply.reason}; make a new one with `ares token join`",
            )
        return reply

    async def _session(self, frames: AsyncIterator[AgentFrame], context: Context) -> None:
        who = await self._authenticate(context)
        try:
            # Written rather than yielded: a broken stream ends the session now, not when garbage is collected.
            async with aclosing(self._sessions.serve(who, frames)) as answers:
                async for frame in answers:
                    await context.write(frame)
        except SessionRefused as refused:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refused))

    async def _authenticate(self, context: Context) -> Principal:
        presented = _bearer(context)
        if presented is None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "send the node's credential as a bearer token")
        who = await self._tokens.authenticate(presented)
        if isinstance(who, Denied):
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED, f"the node's credential is {who.reason}; join this node again"
            )
        if who.role != "node" or who.node is None:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED, f"a {who.role} token cannot run a node; use a join token"
            )
        return who


def _bind(server: grpc.aio.Server, address: str, tls: Tls | None) -> int:
    if tls is None:
        return server.add_insecure_port(address)
    credentials = grpc.ssl_server_credentials([(tls.key, tls.certificate)])
    return server.add_secure_port(address, credentials)


def _bearer(context: Context) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str) and value.startswith("Bearer "):
            return value.removeprefix("Bearer ")
    return None
