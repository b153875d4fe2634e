"""Where agents connect: authenticates the stream, hands its frames to the sessions service.

With TLS the certificate names the agent, and no handshake succeeds without one. Without TLS, on the control plane's
own machine, the token names it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, TypeVar
from zlib import crc32

import grpc
import grpc.aio
import msgspec
import structlog

from ares.control.execution.enrolment import SessionRefused
from ares.control.governance.audit import Audit
from ares.core.access.tokens import denied
from ares.core.audit.chain import clean
from ares.core.net import is_loopback
from ares.core.refusal import Refusal
from ares.edge.grpc.clusters import LEAVE_FIRST, cluster_handlers
from ares.edge.grpc.frames import Context, frames, log_messages, side_messages
from ares.edge.grpc.listening import TlsSource, bind
from ares.edge.grpc.services import (
    AsideService,
    AskService,
    ChildService,
    ClusterService,
    LogService,
    MachineChecks,
    SessionService,
    StagingService,
    TokenChecks,
)
from ares.model.access import Principal, Proof
from ares.model.audit import AuditDraft
from ares.model.job_session import ChildAnswer, ChildCall
from ares.model.link import CertifyReply, CertifyRequest, FetchRequest, JoinReply, JoinRequest
from ares.model.node import MachineRole, Presented
from ares.model.secret import encode_secret
from ares.ports.audit import AuditUnavailable
from ares.ports.store import StoreError
from ares.ports.telemetry import Telemetry

_log = structlog.get_logger(__name__)

_T = TypeVar("_T", JoinRequest, CertifyRequest, FetchRequest, ChildCall)

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
    # A machine has one stream and now and then a call beside it. Its metadata is a token; a handshake takes a second.
    ("grpc.max_concurrent_streams", 16),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.absolute_max_metadata_size", 32 * 1024),
    ("grpc.server_handshake_timeout_ms", 10_000),
    # Two servers on one port would share agents silently.
    ("grpc.so_reuseport", 0),
)

# An open stream's credential is looked at again: revocation takes effect within 5 s.
_RECHECK_S: Final = 2.0

Serve = Callable[[Principal, Context], Coroutine[Any, Any, None]]


class _Shown(NamedTuple):
    """The credential of a caller: a certificate, or a token."""

    certificate: Presented | None
    token: str


class AgentServer:
    """The gRPC server for agents of one replica."""

    def __init__(
        self,
        sessions: SessionService,
        staging: StagingService,
        asides: AsideService,
        children: ChildService,
        tokens: TokenChecks,
        machines: MachineChecks,
        audit: Audit,
        telemetry: Telemetry,
        recheck_s: float = _RECHECK_S,
        *,
        logs: LogService | None = None,
        clusters: ClusterService | None = None,
        asks: AskService | None = None,
    ) -> None:
        self._sessions = sessions
        self._staging = staging
        self._asides = asides
        self._children = children
        self._tokens, self._machines = tokens, machines
        self._audit = audit
        self._telemetry = telemetry
        self._recheck_s = recheck_s
        self._logs, self._clusters, self._asks = logs, clusters, asks
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int, tls: TlsSource | None = None) -> int:
        """Listens; port 0 takes a free one. Returns the port."""
        if tls is None and not is_loopback(host):
            raise ValueError(f"agents may not connect to {host} in the clear; configure a TLS certificate and key")
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((self._handlers(), *cluster_handlers(self._stream, self._clusters, self._asks)))
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            bound = bind(server, address, tls)
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
        # The only encoder that takes secrets: they leave a replica here and nowhere else.
        encode = msgspec.msgpack.Encoder(enc_hook=encode_secret).encode
        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "Join": grpc.unary_unary_rpc_method_handler(self._join, response_serializer=encode),
                "Certify": grpc.unary_unary_rpc_method_handler(self._certify, response_serializer=encode),
                "Fetch": grpc.unary_stream_rpc_method_handler(self._fetch, response_serializer=encode),
                "Child": grpc.unary_unary_rpc_method_handler(self._child, response_serializer=encode),
                "Session": grpc.stream_stream_rpc_method_handler(
                    partial(self._stream, self._serve, "node"), response_serializer=encode
                ),
                "Aside": grpc.stream_stream_rpc_method_handler(
                    partial(self._stream, self._serve_aside, "node"), response_serializer=encode
                ),
                "Logs": grpc.stream_stream_rpc_method_handler(
                    partial(self._stream, self._serve_logs, "node"), response_serializer=encode
                ),
            },
        )

    async def _join(self, data: bytes, context: Context) -> JoinReply:
        if _is_secure(context):
            await _refuse(context, "impossible", "machines join by POST /v1/join; this port is for those that have")
        if (refusing := self._audit.refusing) is not None:
            await _refuse(context, "unavailable", f"nothing can be recorded now: {refusing}")
        reply = await self._sessions.join(await _read(data, JoinRequest, context))
        if isinstance(reply, Refusal):
            await self._deny(
                context,
                "credential",
                f"join:{reply.code}",
                f"the join token is {reply.code}; make a new one with `ares token join`",
            )
        joined = AuditDraft(
            operation="joinMachine", outcome="ALLOW", role=reply.role, proof="token", remote=_address(context),
            made=(clean(f"{reply.role}s/{reply.node}"),),
        )  # fmt: skip
        # The token is spent: if the disk failed just now, the node gets its credential, and the entry comes later.
        with contextlib.suppress(AuditUnavailable):
            await self._audit.note(joined)
        return reply

    async def _certify(self, data: bytes, context: Context) -> CertifyReply:
        shown = self._shown(context).certificate
        if shown is None:
            await _refuse(context, "impossible", "only a certificate can be renewed")
        request = await _read(data, CertifyRequest, context)
        try:
            renewed = await self._machines.renew(shown, request.request)
        except StoreError as error:
            await _refuse(context, "unavailable", str(error))
        if isinstance(renewed, Refusal):
            await self._denied(context, renewed, _about(shown))
        self._audit.tell(_allowed("renewCertificate", "certificate", shown.role, shown.name, shown.serial))
        return CertifyReply(certificate=renewed.certificate, authority=renewed.authority)

    async def _fetch(self, data: bytes, context: Context) -> None:
        """Files for an attempt on the caller's node."""
        who, _ = await self._machine(context, self._shown(context), "node")
        found = await self._staging.fetch(who, await _read(data, FetchRequest, context))
        if isinstance(found, Refusal):
            missing = found.code == "not-found"
            await context.abort(
                grpc.StatusCode.NOT_FOUND if missing else grpc.StatusCode.PERMISSION_DENIED, found.message
            )
        try:
            async for piece in found:
                await context.write(piece)
        except OSError as error:
            # The disk, not the file: the agent asks again.
            await _refuse(context, "unavailable", f"files cannot be read now: {error.strerror or error}")

    async def _child(self, data: bytes, context: Context) -> ChildAnswer:
        """A job that an attempt on the caller's node submits."""
        who, _ = await self._machine(context, self._shown(context), "node")
        if (refusing := self._audit.refusing) is not None:
            await _refuse(context, "unavailable", f"nothing can be recorded now: {refusing}")
        return await self._children.submit(who, await _read(data, ChildCall, context))

    async def _machine(self, context: Context, shown: _Shown, role: MachineRole) -> tuple[Principal, str]:
        """The node or cluster that calls, and its name. Any other caller is turned away."""
        who = await self._authenticate(shown)
        about = _about(shown.certificate)
        if isinstance(who, Refusal):
            await self._denied(context, who, about, role)
        name = who.node if role == "node" else who.cluster
        if who.role != role or name is None:
            await self._deny(
                context,
                "not_granted",
                "wrong_role_cert",
                f"who is a {who.role} cannot run a {role}; join with a token for a {role}",
                about,
            )
        return who, name

    async def _stream(self, serve: Serve, role: MachineRole, _: AsyncIterator[bytes], context: Context) -> None:
        shown = self._shown(context)
        who, node = await self._machine(context, shown, role)
        serving = asyncio.create_task(serve(who, context))
        ending = asyncio.create_task(self._until_denied(node, shown))
        try:
            await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (serving, ending):
                task.cancel()
            served, no = await asyncio.gather(serving, ending, return_exceptions=True)
        if isinstance(no, Refusal):
            _log.warning("agent.cut_off", node=node, reason=no.code)
            await self._denied(context, no, _about(shown.certificate) or f"{role}s/{node}", role)
        if isinstance(served, SessionRefused):
            kind, why = served.reason, str(served)
            _forget_stack(served)
            del served, no, serving, ending
            await _refuse(context, kind, why)
        if isinstance(served, Exception):
            raise served

    async def _serve(self, who: Principal, context: Context) -> None:
        # Written rather than yielded: a broken stream ends the session now, not when garbage is collected.
        async with aclosing(self._sessions.serve(who, frames(context))) as answers:
            async for frame in answers:
                await context.write(frame)

    async def _serve_aside(self, who: Principal, context: Context) -> None:
        async with aclosing(self._asides.serve(who, side_messages(context))) as commands:
            async for command in commands:
                await context.write(command)

    async def _serve_logs(self, who: Principal, context: Context) -> None:
        if self._logs is None:
            raise SessionRefused("output is taken by the session alone")
        async with aclosing(self._logs.serve(who, log_messages(context))) as answers:
            async for acks in answers:
                await context.write(acks)

    # ---- authentication

    def _shown(self, context: Context) -> _Shown:
        """With TLS the certificate alone counts: a token in addition says nothing."""
        if not _is_secure(context):
            return _Shown(None, _bearer(context))
        proofs = list((context.auth_context() or {}).get("x509_pem_cert", ()))
        return _Shown(self._machines.read(proofs[0]) if len(proofs) == 1 else None, "")

    async def _authenticate(self, shown: _Shown) -> Principal | Refusal:
        if shown.certificate is not None:
            return self._machines.identify(shown.certificate)
        if not shown.token:
            return denied("malformed", "no_credential")
        return await self._tokens.authenticate(shown.token)

    async def _until_denied(self, node: str, shown: _Shown) -> Refusal:
        while True:
            await asyncio.sleep(until_turn_s(node, self._recheck_s, asyncio.get_running_loop().time()))
            try:
                who = await self._authenticate(shown)
            except StoreError:
                # Nothing is known to have changed.
                continue
            if isinstance(who, Refusal):
                return who

    async def _denied(self, context: Context, no: Refusal, about: str, role: MachineRole = "node") -> NoReturn:
        # A certificate that ended while the stream was open may have been renewed: the agent comes back with that.
        kind = "unavailable" if no.code == "expired" and _is_secure(context) else "credential"
        fix = LEAVE_FIRST if role == "cluster" else _FIX
        await self._deny(context, kind, no.code, f"the {role}'s credential is {no.code}; {fix}", about)

    async def _deny(self, context: Context, kind: str, reason: str, text: str, about: str = "") -> NoReturn:
        self._telemetry.count("ares_auth_denials_total", 1, reason)
        self._audit.tell(
            AuditDraft(
                operation="agentLink", outcome="DENY", reason=reason, remote=_address(context), object=clean(about)
            )
        )
        _log.warning("agent.denied", reason=reason, about=about, peer=context.peer())
        await _refuse(context, kind, text)


# What an agent is refused for, and the status that tells it so. Only an unavailable server is worth coming back to.
STATUSES: Final = {
    "credential": grpc.StatusCode.UNAUTHENTICATED,
    "not_granted": grpc.StatusCode.PERMISSION_DENIED,
    "malformed": grpc.StatusCode.INVALID_ARGUMENT,
    "unavailable": grpc.StatusCode.UNAVAILABLE,
    "impossible": grpc.StatusCode.FAILED_PRECONDITION,
}


async def _refuse(context: Context, kind: str, text: str) -> NoReturn:
    """The one place where the status of a refusal is chosen. A kind that only a session knows is an impossible one."""
    await context.abort(STATUSES.get(kind, STATUSES["impossible"]), text)
    raise AssertionError("abort raises")


_FIX: Final = "remove the agent's identity file and join this node again with a new token of `ares token join`"


async def _read(data: bytes, kind: type[_T], context: Context) -> _T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        await _refuse(context, "malformed", f"the request cannot be taken: {str(error)[:300]}")
        raise AssertionError("a refusal raises") from None


def _address(context: Context) -> str:
    """Whence they come, without the port: the same for all that comes from there."""
    return context.peer().partition(":")[2].rpartition(":")[0] or context.peer()


def _forget_stack(error: BaseException) -> None:
    """Drops the traceback of an error. It refers to the frame that was refused, and that to the error: a cycle that is
    freed late. Where the error is answered, its traceback is not needed."""
    while error.__context__ is not None or error.__traceback__ is not None:
        error.__traceback__ = None
        before, error.__context__ = error.__context__, None
        if before is None:
            return
        error = before


def _allowed(what: str, proof: Proof, role: MachineRole, name: str, credential: str = "") -> AuditDraft:
    return AuditDraft(
        operation=what, outcome="ALLOW", user=name, role=role, proof=proof, token=credential, object=f"{role}s/{name}"
    )


def until_turn_s(node: str, every_s: float, now: float) -> float:
    """Each node has its own time within the period: a thousand that came at once, or were all kept waiting by a pause,
    are not looked at in one go ever after."""
    turn_s = crc32(node.encode()) / 2**32 * every_s
    return every_s - (now - turn_s) % every_s


def _about(shown: Presented | None) -> str:
    return "" if shown is None else f"{shown.role}s/{shown.name}"


def _is_secure(context: Context) -> bool:
    return list((context.auth_context() or {}).get("transport_security_type", ())) == [b"ssl"]


def _bearer(context: Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str) and value.startswith("Bearer "):
            return value.removeprefix("Bearer ")
    return ""
