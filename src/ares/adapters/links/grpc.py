"""The agent's end of the gRPC stream. Messages are MessagePack of `model.link`, not protobuf."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
import msgspec

from ares.adapters.links.diagnosis import diagnosis
from ares.core.access.certificates import CONTROL_PLANE
from ares.model.job_session import ChildAnswer, ChildCall, SideCommand, SideMessage
from ares.model.link import (
    AgentFrame,
    CertifyReply,
    CertifyRequest,
    FetchPiece,
    FetchRequest,
    JoinReply,
    JoinRequest,
    ServerFrame,
)
from ares.model.secret import decode_secret
from ares.model.telemetry.log_stream import LogAcks, LogMessage
from ares.ports.link import LinkBroken, LinkRefused, Proof

_T = TypeVar("_T", JoinReply, CertifyReply)

_SERVICE: Final = "/ares.v1.AgentLink"
# The lease must outlast two addresses that do not answer.
_CONNECT_TIMEOUT_S: Final = 2.0
_JOIN_TIMEOUT_S: Final = 10.0
_SEND_TIMEOUT_S: Final = 15.0
# For 64 MiB: a link that needs longer is of no use for files.
_FETCH_TIMEOUT_S: Final = 300.0
_CLOSE_TIMEOUT_S: Final = 1.0
_MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
# A broken connection is noticed well before the lease ends, so that another replica can be tried in time.
_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 2_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    # The agent decides when to reconnect. The library must not add waits of its own.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_retries", 0),
    # A new session is a new connection: a dead connection must not be used again.
    ("grpc.use_local_subchannel_pool", 1),
)
# The name in every control plane's certificate, whatever its address is.
_SECURE_OPTIONS: Final = (*_OPTIONS, ("grpc.ssl_target_name_override", CONTROL_PLANE))
# Refusals that would be the same at the next try.
_REFUSALS: Final = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.NOT_FOUND,
    }
)


def spread(addresses: Sequence[str], node: str) -> tuple[str, ...]:
    """The order in which a node tries them: by a digest of both, so that one address more or less moves few nodes."""
    return tuple(sorted(addresses, key=lambda address: hashlib.sha256(f"{node}\0{address}".encode()).digest()))


class GrpcLink:
    """`ports.link.Link` over one or several control-plane addresses, tried in turn.

    Each node has an order of its own, so that the nodes spread over the replicas, and those of a lost replica over
    the others, without a load balancer.
    """

    def __init__(self, addresses: Sequence[str], proof: Proof | None = None, *, node: str = "") -> None:
        """Without a proof the link has no TLS, and may only stay on this machine. Without a node: as they are given."""
        if not addresses:
            raise ValueError("an agent needs at least one control-plane address, host:port")
        self._addresses = spread(addresses, node) if node else tuple(addresses)
        self._turn = 0
        self._proof = proof
        self._credentials = None if proof is None else _credentials(proof)

    def prove_by(self, proof: Proof) -> None:
        """The certificate to use from the next connection on."""
        self._proof = proof
        self._credentials = _credentials(proof)

    async def join(self, request: JoinRequest) -> JoinReply:
        return await self._ask("Join", request, JoinReply)

    async def certify(self, request: CertifyRequest) -> CertifyReply:
        """Gets the next certificate. The present one authenticates the request."""
        return await self._ask("Certify", request, CertifyReply)

    async def _ask(self, method: str, request: JoinRequest | CertifyRequest, reply: type[_T]) -> _T:
        address = self._next()
        async with self.channel(address) as channel:
            call = channel.unary_unary(
                f"{_SERVICE}/{method}",
                request_serializer=msgspec.msgpack.Encoder().encode,
                response_deserializer=msgspec.msgpack.Decoder(reply).decode,
            )
            try:
                return await call(request, timeout=_JOIN_TIMEOUT_S)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    raise LinkBroken(f"{address}: {await diagnosis(address, self._proof)}") from None
                raise explain(address, error) from None

    async def fetch(self, credential: str, request: FetchRequest) -> AsyncIterator[FetchPiece]:
        address = self._next()
        async with self.channel(address) as channel:
            ask = channel.unary_stream(
                f"{_SERVICE}/Fetch",
                request_serializer=msgspec.msgpack.Encoder().encode,
                response_deserializer=msgspec.msgpack.Decoder(FetchPiece).decode,
            )
            try:
                async for piece in ask(request, metadata=proof_of(credential), timeout=_FETCH_TIMEOUT_S):
                    yield piece
            except grpc.aio.AioRpcError as error:
                raise explain(address, error) from None

    async def submit_child(self, credential: str, call: ChildCall) -> ChildAnswer:
        address = self._next()
        async with self.channel(address) as channel:
            ask = channel.unary_unary(
                f"{_SERVICE}/Child",
                request_serializer=msgspec.msgpack.Encoder().encode,
                response_deserializer=msgspec.msgpack.Decoder(ChildAnswer).decode,
            )
            try:
                return await ask(call, metadata=proof_of(credential), timeout=_JOIN_TIMEOUT_S)
            except grpc.aio.AioRpcError as error:
                raise explain(address, error) from None

    async def connect(self, credential: str) -> "GrpcSession":
        address, channel = await self.open()
        return GrpcSession(address, channel, credential, self.channel)

    async def open(self) -> tuple[str, grpc.aio.Channel]:
        """A connection to the next address that is ready to be used. Raises LinkBroken."""
        address = self._next()
        channel = self.channel(address)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await _ready(address, channel)
        except TimeoutError:
            await channel.close()
            raise LinkBroken(f"{address} did not answer within {_CONNECT_TIMEOUT_S:g} s") from None
        except LinkBroken:
            await channel.close()
            # The library keeps the cause to itself.
            raise LinkBroken(f"{address} cannot be reached: {await diagnosis(address, self._proof)}") from None
        except BaseException:
            await channel.close()
            raise
        return address, channel

    def channel(self, address: str) -> grpc.aio.Channel:
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, options=_OPTIONS)
        return grpc.aio.secure_channel(address, self._credentials, options=_SECURE_OPTIONS)

    async def close(self) -> None:
        """Nothing to do: sessions own their channels."""

    def _next(self) -> str:
        address = self._addresses[self._turn % len(self._addresses)]
        self._turn += 1
        return address


class GrpcSession:
    """One open stream (`ports.link.Session`)."""

    def __init__(
        self,
        address: str,
        channel: grpc.aio.Channel,
        credential: str,
        another: Callable[[str], grpc.aio.Channel],
    ) -> None:
        self._address = address
        self._channel = channel
        self._credential = credential
        self._another = another
        open_stream = channel.stream_stream(
            f"{_SERVICE}/Session",
            request_serializer=msgspec.msgpack.Encoder().encode,
            response_deserializer=msgspec.msgpack.Decoder(ServerFrame, dec_hook=decode_secret).decode,
        )
        self._call: grpc.aio.StreamStreamCall[AgentFrame, ServerFrame] = open_stream(metadata=proof_of(credential))

    async def aside(self) -> "GrpcSideStream":
        """On a connection of its own (`ports.link.Sideways`)."""
        return GrpcSideStream(self._address, self._another(self._address), self._credential)

    async def log_line(self) -> "GrpcOutputLine":
        """On a connection of its own (`ports.link.OutputLines`)."""
        return GrpcOutputLine(self._address, self._another(self._address), self._credential)

    async def send(self, frame: AgentFrame) -> None:
        try:
            async with asyncio.timeout(_SEND_TIMEOUT_S):
                await self._call.write(frame)
        except TimeoutError:
            raise LinkBroken(f"{self._address} took nothing for {_SEND_TIMEOUT_S:g} s") from None
        except grpc.aio.AioRpcError as error:
            raise explain(self._address, error) from None
        except asyncio.InvalidStateError:
            raise await self._end() from None

    async def frames(self) -> AsyncIterator[ServerFrame]:
        while True:
            try:
                frame: Any = await self._call.read()
            except grpc.aio.AioRpcError as error:
                raise explain(self._address, error) from None
            if not isinstance(readable(frame, self._address), ServerFrame):
                raise await self._end()
            yield frame

    async def _end(self) -> LinkBroken | LinkRefused:
        code, details = await self._call.code(), await self._call.details()
        kind = LinkRefused if code in _REFUSALS else LinkBroken
        return kind(f"{self._address} ended the stream: {details or code.name}")

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close(_CLOSE_TIMEOUT_S)


class GrpcSideStream:
    """The stream for sessions (`ports.link.SideStream`)."""

    def __init__(self, address: str, channel: grpc.aio.Channel, credential: str) -> None:
        self._address = address
        self._channel = channel
        open_stream = channel.stream_stream(
            f"{_SERVICE}/Aside",
            request_serializer=msgspec.msgpack.Encoder().encode,
            response_deserializer=msgspec.msgpack.Decoder(SideCommand).decode,
        )
        self._call: grpc.aio.StreamStreamCall[SideMessage, SideCommand] = open_stream(metadata=proof_of(credential))

    async def send(self, message: SideMessage) -> None:
        try:
            await self._call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            raise LinkBroken(f"{self._address} ended the stream for sessions") from None

    async def commands(self) -> AsyncIterator[SideCommand]:
        while True:
            try:
                command: Any = await self._call.read()
            except grpc.aio.AioRpcError as error:
                raise explain(self._address, error) from None
            if readable(command, self._address) is grpc.aio.EOF:
                raise LinkBroken(f"{self._address} ended the stream for sessions")
            yield command

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close(_CLOSE_TIMEOUT_S)


class GrpcOutputLine:
    """The stream for output of loud attempts (`ports.link.OutputLine`)."""

    def __init__(self, address: str, channel: grpc.aio.Channel, credential: str) -> None:
        self._address = address
        self._channel = channel
        open_stream = channel.stream_stream(
            f"{_SERVICE}/Logs",
            request_serializer=msgspec.msgpack.Encoder().encode,
            response_deserializer=msgspec.msgpack.Decoder(LogAcks).decode,
        )
        self._call: grpc.aio.StreamStreamCall[LogMessage, LogAcks] = open_stream(metadata=proof_of(credential))

    async def send(self, message: LogMessage) -> None:
        try:
            await self._call.write(message)
        except grpc.aio.AioRpcError as error:
            raise explain(self._address, error) from None
        except asyncio.InvalidStateError:
            raise await self._end() from None

    async def acks(self) -> AsyncIterator[LogAcks]:
        while True:
            try:
                acks: Any = await self._call.read()
            except grpc.aio.AioRpcError as error:
                raise explain(self._address, error) from None
            if readable(acks, self._address) is grpc.aio.EOF:
                raise await self._end()
            yield acks

    async def _end(self) -> LinkBroken | LinkRefused:
        code, details = await self._call.code(), await self._call.details()
        kind = LinkRefused if code in _REFUSALS else LinkBroken
        return kind(f"{self._address} ended the stream for output: {details or code.name}")

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close(_CLOSE_TIMEOUT_S)


def readable(message: Any, address: str) -> Any:
    """A message as it was read, which is None when it could not be decoded: the stream is open, and must not be."""
    if message is None:
        raise LinkBroken(f"{address} sent a message that this version cannot read")
    return message


def proof_of(credential: str) -> tuple[tuple[str, str], ...] | None:
    return (("authorization", f"Bearer {credential}"),) if credential else None


def _credentials(proof: Proof) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(proof.authorities.encode(), proof.key.encode(), proof.certificate.encode())


async def _ready(address: str, channel: grpc.aio.Channel) -> None:
    """Connects, and gives up at the first failure. The library itself would go on trying."""
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
            raise LinkBroken(f"{address} cannot be reached")
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)


def explain(address: str, error: grpc.aio.AioRpcError) -> LinkBroken | LinkRefused:
    kind = LinkRefused if error.code() in _REFUSALS else LinkBroken
    return kind(f"{address}: {error.details() or error.code().name}")
