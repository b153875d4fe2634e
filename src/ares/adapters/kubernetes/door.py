"""The door of a Kubernetes agent, for the helpers in its pods: gRPC with TLS, and a certificate that pods are told."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import grpc
import grpc.aio
import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ares.model.base import Record
from ares.ports.kubernetes import (
    MESSAGE_BYTES_MAX,
    POD,
    SERVICE,
    TOKEN,
    NotYet,
    PodFile,
    PodKept,
    PodLeave,
    PodPart,
    PodService,
    PodTask,
    Unwelcome,
)

# At once: a pod's helper makes one after the other, and a call that broke may not have ended yet. Of one address, which
# pods in the network of their node share.
_CALLS_OF_A_POD, _CALLS_OF_AN_ADDRESS = 4, 512
_YEARS_S = 10 * 365 * 86_400.0
_FILE = msgspec.msgpack.Decoder(PodFile)
_encode = msgspec.msgpack.Encoder().encode
Context = grpc.aio.ServicerContext[Any, Any]


class DoorIdentity(Record, frozen=True):
    """By which pods know the door, in PEM."""

    certificate: str
    key: str


def new_identity(now: float) -> DoorIdentity:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ares-door")])
    begin = datetime.fromtimestamp(now, UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(begin - timedelta(days=1))
        .not_valid_after(begin + timedelta(seconds=_YEARS_S))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("ares-door")]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    return DoorIdentity(made.public_bytes(pem).decode(), secret.decode())


class _Calls:
    """How many are under way, by whose they are."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def one_of(self, whose: str, most: int) -> Generator[None]:
        if self._open[whose] >= most:
            raise NotYet(f"{most} calls are under way already")
        self._open[whose] += 1
        try:
            yield
        finally:
            self._open[whose] -= 1
            if not self._open[whose]:
                del self._open[whose]


class DoorServer:
    def __init__(self, address: str, identity: DoorIdentity, service: PodService[Any]) -> None:
        self._service = service
        self._by_address, self._by_pod = _Calls(), _Calls()
        self._server = grpc.aio.server(options=(("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),))
        handlers: dict[str, Any] = {
            "Leave": grpc.unary_unary_rpc_method_handler(self._leave, None, _encode),
            "Stage": grpc.unary_stream_rpc_method_handler(self._stage, None, _encode),
            "Next": grpc.unary_unary_rpc_method_handler(self._next, None, _encode),
            "HandOver": grpc.stream_unary_rpc_method_handler(self._hand_over, _FILE.decode, _encode),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        pair = (identity.key.encode(), identity.certificate.encode())
        self._server.add_secure_port(address, grpc.ssl_server_credentials([pair]))

    async def start(self) -> None:
        await self._server.start()

    async def close(self) -> None:
        await self._server.stop(0)

    @contextmanager
    def _pod(self, context: Context) -> Generator[Any]:
        """The pod, while its call is under way. Raises Unwelcome, and NotYet beyond what it may have at once."""
        said = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        with self._by_address.one_of(context.peer().rpartition(":")[0], _CALLS_OF_AN_ADDRESS):
            pod = self._service.admitted(said.get(POD, ""), said.get(TOKEN, ""))
            with self._by_pod.one_of(said[POD], _CALLS_OF_A_POD):
                yield pod

    async def _leave(self, _: bytes, context: Context) -> PodLeave:
        return await self._answered(context, self._service.leave)

    async def _next(self, _: bytes, context: Context) -> PodTask:
        return await self._answered(context, self._service.next)

    async def _answered(self, context: Context, call: Callable[[Any], Any]) -> Any:
        try:
            with self._pod(context) as pod:
                return await call(pod)
        except (NotYet, Unwelcome) as no:
            await _refuse(context, no)

    async def _stage(self, _: bytes, context: Context) -> AsyncIterator[PodPart]:
        try:
            with self._pod(context) as pod:
                async for part in self._service.parts(pod):
                    yield part
        except (NotYet, Unwelcome) as no:
            await _refuse(context, no)

    async def _hand_over(self, files: AsyncIterator[PodFile], context: Context) -> PodKept:
        try:
            with self._pod(context) as pod:
                await self._service.hand_over(pod, files)
        except (NotYet, Unwelcome) as no:
            await _refuse(context, no)
        return PodKept()


async def _refuse(context: Context, no: NotYet | Unwelcome) -> NoReturn:
    later = isinstance(no, NotYet)
    if not later:
        # A guess takes its time.
        await asyncio.sleep(0.2)
    await context.abort(grpc.StatusCode.UNAVAILABLE if later else grpc.StatusCode.PERMISSION_DENIED, str(no))
