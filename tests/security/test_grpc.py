"""The gRPC service before hostile callers: who may do what, what is bounded, and bytes that are no calls."""

import asyncio
import contextlib
import random
import struct
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from ares.core.limits import ServerLimits
from ares.edge.rest.api import ApiSettings
from ares.edge.rpc.methods import PACKAGE, SERVICES, method_of
from ares.edge.rpc.server import RpcServer, RpcSettings
from tests.integration.api.world import MISSING
from tests.integration.rpc.conftest import RpcWorld, open_rpc
from tests.rpc import RpcClient
from tests.security.audited import last_entry
from tests.security.matrix import PRINCIPALS, VERBS, WHERES, Where, cell

Code = grpc.StatusCode
CODES = {"1": Code.UNAUTHENTICATED, "3": Code.PERMISSION_DENIED, "4": Code.NOT_FOUND}
METHODS = [(service, operation) for service, operations in SERVICES.items() for operation in operations]
# Fast enough for a matrix, and for a fuzzer.
ROOMY = ApiSettings(
    limits=ServerLimits(
        tenant_requests_per_s=100_000, tenant_requests_burst=100_000, principal_requests_per_s=100_000,
        principal_requests_burst=100_000, anonymous_per_s=100_000, anonymous_burst=100_000, failures_per_s=100_000,
        failures_burst=100_000, jobs_per_s=100_000, jobs_burst=100_000,
    )
)  # fmt: skip


async def outcome(client: RpcClient, service: str, operation: str, request: bytes, **more: str) -> grpc.StatusCode:
    """How the call ended; a stream that opened and was left is OK."""
    path = f"/{PACKAGE}.{service}/{method_of(operation)}"
    metadata = client.metadata(**more)
    try:
        if operation.startswith("stream"):
            call = client.channel.unary_stream(path)(request, metadata=metadata, timeout=20.0)
            await call.initial_metadata()
            if operation == "streamJobLogs":
                await call.read()
            if not call.done():
                call.cancel()
                return Code.OK
            return await call.code()
        await client.channel.unary_unary(path)(request, metadata=metadata, timeout=20.0)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return Code.OK


def request_of(client: RpcClient, operation: str, name: str) -> bytes:
    api, verb = client.made.api, VERBS[operation]
    message: Any = getattr(api, f"{method_of(operation)}Request")()
    for field in ("id", "name", "cluster"):
        if verb.names and field in message.DESCRIPTOR.fields_by_name:
            setattr(message, field, name)
            break
    if operation == "submitJob":
        message.spec.command.append("true")
    if operation == "searchJobLogs":
        message.text = "a"
    return message.SerializeToString()


@pytest.mark.parametrize("principal", PRINCIPALS)
async def test_the_matrix_of_the_threat_model_holds_for_every_method(tmp_path: Path, principal: Any) -> None:
    async with open_rpc(tmp_path, ROOMY) as world:
        token = None if principal == "anonymous" else await world.api.token(principal)
        mates = {tenant: await world.api.token("submitter", tenant) for tenant in ("acme", "other")}
        async with world.client_with(token) as client:
            for service, operation in METHODS:
                for where in WHERES:
                    verb = VERBS[operation]
                    name = await named(world, client, verb.names, where, mates)
                    more = {"x_ares_tenant": "other"} if where == "other" and verb.names != "job" else {}
                    got = await outcome(client, service, operation, request_of(client, operation, name), **more)
                    wanted = getattr(cell(verb.group, principal), where)
                    told = f"{principal} {operation} {where}: {got}"
                    if wanted == "y":
                        assert got not in (Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.INTERNAL), told
                        assert got != Code.NOT_FOUND or verb.names == "thing", told
                    else:
                        assert got == CODES[wanted], told


async def named(world: RpcWorld, client: RpcClient, kind: str, where: Where, mates: dict[str, str]) -> str:
    """An object of the caller's own, of another tenant, or none."""
    if kind != "job" or where == "missing":
        return MISSING if kind == "job" else "nobody"
    if where == "own" and client.token is not None:
        with contextlib.suppress(grpc.aio.AioRpcError):
            return (await client.submit("true")).id
    async with world.client_with(mates["acme" if where == "own" else "other"]) as mate:
        return (await mate.submit("true")).id


async def test_a_denied_call_is_in_the_audit_log(tmp_path: Path) -> None:
    async with open_rpc(tmp_path) as world, world.client("viewer") as viewer, world.client_with("nonsense") as stranger:
        with pytest.raises(grpc.aio.AioRpcError):
            await viewer.submit("true")
        entry = await last_entry(world.api)
        assert (entry.operation, entry.method, entry.outcome, entry.reason) == ("submitJob", "GRPC", "DENY", "role")
        assert await outcome(stranger, "EventService", "streamEvents", b"") == Code.UNAUTHENTICATED
        entry = await last_entry(world.api)
        assert (entry.operation, entry.method, entry.reason) == ("streamEvents", "GRPC", "bad_key")
        assert entry.remote == "127.0.0.1"


async def test_streams_are_counted_for_each_credential(tmp_path: Path) -> None:
    async with open_rpc(tmp_path, ApiSettings(streams_per_token_max=2)) as world, world.client() as client:
        streams = [
            client.events.StreamEvents(client.made.api.StreamEventsRequest(), metadata=client.metadata())
            for _ in range(2)
        ]
        for stream in streams:
            await stream.initial_metadata()
        assert await outcome(client, "EventService", "streamEvents", b"") == Code.RESOURCE_EXHAUSTED
        streams[0].cancel()
        while await outcome(client, "EventService", "streamEvents", b"") != Code.OK:
            await asyncio.sleep(0.01)


async def test_a_reader_that_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    async with open_rpc(tmp_path, ApiSettings(send_timeout_s=0.2)) as world, world.client() as client:
        made = await client.submit("true")
        await world.api.start_job(made.id)
        world.api.logs.append("acme", made.id, 1, 0, 0, b"x" * 32 * 1024 * 1024)
        asked = client.made.api.StreamJobLogsRequest(id=made.id, follow=True)
        stream = client.logs.StreamJobLogs(asked, metadata=client.metadata())
        await stream.initial_metadata()
        await world.without_streams()
        # It is counted until it has taken the end, which waits behind what it did not read.
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await drained(stream)
        assert caught.value.code() == Code.ABORTED


async def drained(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


async def test_calls_whose_answers_are_not_read_stay_their_callers_own(tmp_path: Path) -> None:
    bounded = RpcSettings("", 0, calls_per_credential=3)
    async with open_rpc(tmp_path, ApiSettings(send_timeout_s=0.1), bounded) as world, world.client() as client:
        made = await client.submit("true")
        await world.api.start_job(made.id)
        world.api.logs.append("acme", made.id, 1, 0, 0, b"x" * 32 * 1024 * 1024)
        asked = client.made.api.StreamJobLogsRequest(id=made.id)
        stalled = [client.logs.StreamJobLogs(asked, metadata=client.metadata()) for _ in range(3)]
        for stream in stalled:
            await stream.initial_metadata()
        await world.without_streams()
        # They were cut off, and their places are not given back for nothing.
        assert await outcome(client, "JobService", "getJob", b"") == Code.RESOURCE_EXHAUSTED
        async with world.client() as another:
            assert await outcome(another, "JobService", "listJobs", b"") == Code.OK
        for stream in stalled:
            stream.cancel()
        while await outcome(client, "JobService", "listJobs", b"") != Code.OK:
            await asyncio.sleep(0.01)


async def test_a_message_that_is_too_long_is_refused_unread(tmp_path: Path) -> None:
    bounded = RpcSettings("", 0, message_bytes_max=100_000)
    async with open_rpc(tmp_path, ROOMY, bounded) as world, world.client() as client:
        assert await outcome(client, "JobService", "submitJob", b"x" * 200_000) == Code.RESOURCE_EXHAUSTED
        # One that asks for nothing but names has less.
        many = client.made.api.ListJobsRequest(label=[f"a{n}=b" for n in range(9000)])
        assert await outcome(client, "JobService", "listJobs", many.SerializeToString()) == Code.INVALID_ARGUMENT
        assert (await client.submit("true")).id


async def test_random_messages_break_nothing(tmp_path: Path) -> None:
    """Every method, with bytes at random and with good messages that were damaged."""
    chance = random.Random(17)
    allowed = {
        Code.OK, Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.FAILED_PRECONDITION, Code.PERMISSION_DENIED,
        Code.ALREADY_EXISTS,
    }  # fmt: skip
    async with open_rpc(tmp_path, ROOMY) as world, world.client() as client:
        for service, operation in METHODS:
            good = request_of(client, operation, MISSING) * 3
            for turn in range(40):
                data = bytearray(chance.randbytes(chance.randrange(60)) if turn % 2 else good)
                for _ in range(min(4, len(data))):
                    data[chance.randrange(len(data))] = chance.randrange(256)
                assert await outcome(client, service, operation, bytes(data)) in allowed, (operation, bytes(data))
        # Numbers that JSON does not have, and values without a bottom.
        api = client.made.api
        endless = api.JobSpec(command=["true"], time_limit_s=float("nan"))
        assert await outcome(
            client, "JobService", "submitJob", api.SubmitJobRequest(spec=endless).SerializeToString()
        ) == Code.INVALID_ARGUMENT  # fmt: skip
        deep = api.SubmitJobRequest(spec=api.JobSpec(command=["true"]))
        value = deep.priority
        for _ in range(40):
            value = value.list_value.values.add()
        value.string_value = "HIGH"
        assert await outcome(client, "JobService", "submitJob", deep.SerializeToString()) == Code.INVALID_ARGUMENT


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
HOSTILE = {
    "no HTTP/2": b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    "half a preface": PREFACE[:9],
    "headers that are no HPACK": PREFACE + frame(1, 4, 1, b"\xff" * 60),
    "headers without an end": PREFACE + frame(1, 0, 1, b"\x82") + frame(9, 0, 1, b"\x82" * 16_000) * 40,
    "data for no stream": PREFACE + frame(0, 0, 7, b"x" * 1000),
    "a window that overflows": PREFACE + frame(8, 0, 0, b"\x7f\xff\xff\xff") * 4,
    "resets in a row": PREFACE + b"".join(
        frame(1, 5, n, b"\x83\x86") + frame(3, 0, n, bytes(4)) for n in range(1, 2001, 2)
    ),
    "pings in a row": PREFACE + frame(6, 0, 0, bytes(8)) * 2000,
    "a frame of 16 MiB": PREFACE + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + b"x" * 100_000,
    "settings that are wrong": PREFACE + frame(4, 0, 0, b"\0\5\xff\xff\xff\xff" * 50),
}  # fmt: skip


async def test_bytes_that_are_no_calls_break_nothing(tmp_path: Path) -> None:
    async with open_rpc(tmp_path) as world, world.client() as client:
        for data in HOSTILE.values():
            reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port)
            with contextlib.suppress(OSError):
                writer.write(data)
                await writer.drain()
            # Others are served meanwhile, and after.
            assert (await client.submit("true")).id
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            del reader
        assert (await client.submit("true")).id


async def test_it_does_not_listen_beyond_this_machine_in_the_clear(tmp_path: Path) -> None:
    async with open_rpc(tmp_path) as world:
        server: Any = world.server
        far = RpcServer(server._direct, RpcSettings("0.0.0.0", 0), world.api.services.telemetry)
        with pytest.raises(ValueError, match=r"http\.tls_cert"):
            await far.start()
