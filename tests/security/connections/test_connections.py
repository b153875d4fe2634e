"""What strangers may send before and around a request: trailers, handshakes, fragments. All of it is bounded."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets

from ares.core.limits import ServerLimits
from ares.edge.rest.api import ApiSettings
from tests.integration.api.world import JOB, World, open_world
from tests.security.pki import Files, on_loopback

ANSWER_S = 60.0
BODY = json.dumps({"spec": JOB}).encode()
# Far more than a server may take, far less than would hurt a test.
ENDLESS_BYTES = 64 * 1024 * 1024


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return on_loopback(tmp_path_factory.mktemp("pki"))


@contextlib.asynccontextmanager
async def secured(folder: Path, files: Files, **limits: Any) -> AsyncGenerator[World]:
    settings = ApiSettings(tls_cert=files.cert, tls_key=files.key, limits=ServerLimits(**limits))
    async with open_world(folder, settings) as world:
        yield world


def trusting(files: Files) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files.ca))


def chunked(*lines: str, method: str = "POST", path: str = "/v1/jobs") -> bytes:
    fields = ["host: localhost", "content-type: application/json", "transfer-encoding: chunked", *lines]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode()


def pieces(body: bytes, *trailers: str) -> bytes:
    return b"%x\r\n%b\r\n0\r\n" % (len(body), body) + "".join(f"{line}\r\n" for line in trailers).encode() + b"\r\n"


async def said_to(port: int, *sent: bytes) -> bytes:
    """All that is answered to these bytes until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with contextlib.suppress(ConnectionError):
            for piece in sent:
                writer.write(piece)
                await writer.drain()
        return await asyncio.wait_for(reader.read(), ANSWER_S)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def taken(port: int, first: bytes, again: bytes) -> int:
    """How many bytes of an endless request are taken before the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = 0
    try:
        async with asyncio.timeout(ANSWER_S):
            writer.write(first)
            while sent < ENDLESS_BYTES and not reader.at_eof():
                writer.write(again)
                sent += len(again)
                await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
    return sent


# ---- trailers


async def test_a_credential_after_the_body_is_none(world: World) -> None:
    """It came after the head was judged, and was believed as if it had been in it."""
    token = await world.token()
    said = await said_to(world.server.port, chunked(), pieces(BODY, f"authorization: Bearer {token}"))
    assert said[9:12] in (b"400", b"401")
    together = await said_to(world.server.port, chunked() + pieces(BODY, f"authorization: Bearer {token}"))
    assert together.startswith(b"HTTP/1.1 400")
    assert b"trailers" in together
    async with world.client() as client:
        assert (await client.get("/v1/jobs")).json()["jobs"] == []


@pytest.mark.parametrize("trailer", ["x-a: b", "host: evil.example", "x-ares-tenant: other", "cookie: a"])
async def test_no_trailer_is_taken(world: World, trailer: str) -> None:
    """Also of those that are rightly asked for: the job is not made, and the answer says what to do."""
    asked = chunked(f"authorization: Bearer {await world.token()}")
    said = await said_to(world.server.port, asked + pieces(BODY, trailer))
    assert said.startswith(b"HTTP/1.1 400")
    assert b"send them as headers" in said
    async with world.client() as client:
        assert (await client.get("/v1/jobs")).json()["jobs"] == []


async def test_what_is_refused_is_no_line_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The request before the fault goes on being served: it hears that nobody listens, and does not break."""
    token = await world.token()
    asked = chunked(f"authorization: Bearer {token}", method="GET") + pieces(b"x", "x-a: b")
    for _ in range(20):
        assert (await said_to(world.server.port, asked)).startswith(b"HTTP/1.1 400")
    async with world.client_with(token) as client:
        assert (await client.get("/v1/jobs")).status_code == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_body_in_pieces_without_trailers_is_taken(world: World) -> None:
    asked = chunked(f"authorization: Bearer {await world.token()}", "connection: close", "te: trailers", "trailer: x-a")
    one_by_one = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
    assert (await said_to(world.server.port, asked, one_by_one)).startswith(b"HTTP/1.1 201")


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"0\r\n", b"x-a: b\r\n" * 10_000),
        (b"0\r\nx-a: ", b"b" * 100_000),
        (b"0\r\n", b"b" * 100_000),
        (b"1;", b"x" * 100_000),
    ],
    ids=["trailers", "a value", "a name", "a chunk's extension"],
)
async def test_nothing_after_or_around_a_body_is_endless(world: World, first: bytes, again: bytes) -> None:
    """One connection without a credential took 1.4 GiB of a server's memory: the parser gathers all of it."""
    assert await taken(world.server.port, chunked() + first, again) < ENDLESS_BYTES // 4


# ---- heads


def heads() -> Iterator[tuple[str, bytes, bytes]]:
    start = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n"
    yield "after another request", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" + start + b"a: ", b"b" * 100_000
    yield "of a WebSocket", start + b"connection: upgrade\r\nupgrade: websocket\r\na: ", b"b" * 100_000


@pytest.mark.parametrize(("first", "again"), [case[1:] for case in heads()], ids=[case[0] for case in heads()])
async def test_no_head_is_endless(world: World, first: bytes, again: bytes) -> None:
    assert await taken(world.server.port, first, again) < ENDLESS_BYTES // 4


# ---- handshakes


async def test_requests_over_tls(tmp_path: Path, files: Files) -> None:
    """Many at once, with the request right behind the handshake."""
    async with secured(tmp_path, files) as world:
        token, context = await world.token(), trusting(files)

        async def ask() -> bytes:
            reader, writer = await asyncio.open_connection("localhost", world.server.port, ssl=context)
            head = f"GET /v1/whoami HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n"
            writer.write(f"{head}connection: close\r\n\r\n".encode())
            said = await asyncio.wait_for(reader.read(), ANSWER_S)
            writer.close()
            return said

        answers = await asyncio.gather(*(ask() for _ in range(20)))
        assert {answer[:15] for answer in answers} == {b"HTTP/1.1 200 OK"}
        url = world.server.url.replace("https", "wss") + "/v1/events"
        caller = {"authorization": f"Bearer {token}"}
        async with websockets.connect(url, additional_headers=caller, ssl=context, proxy=None) as socket:
            await socket.ping()


async def test_who_never_begins_its_handshake_is_counted(tmp_path: Path, files: Files) -> None:
    """They took open files and memory, and no limit knew of them."""
    async with secured(tmp_path, files, connections_per_address_max=3, head_s=600.0) as world:
        port, context = world.server.port, trusting(files)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        with pytest.raises((ConnectionError, ssl.SSLError)):
            async with asyncio.timeout(ANSWER_S):
                await asyncio.open_connection("localhost", port, ssl=context)
        silent[0][1].close()
        await silent[0][1].wait_closed()
        async with asyncio.timeout(ANSWER_S):
            while True:
                # The server learns of an end when it next looks at its sockets.
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    _, writer = await asyncio.open_connection("localhost", port, ssl=context)
                    break
        for one in (writer, *(other for _, other in silent)):
            one.close()


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00\x01", b"GET /readyz HTTP/1.1\r\n\r\n"])
async def test_a_handshake_that_is_not_completed_is_given_up(tmp_path: Path, files: Files, begun: bytes) -> None:
    async with secured(tmp_path, files, head_s=0.2) as world:
        said = await said_to(world.server.port, begun)
        assert not said.startswith(b"HTTP")


async def test_a_handshake_is_not_endless(tmp_path: Path, files: Files) -> None:
    async with secured(tmp_path, files) as world:
        record = b"\x16\x03\x01\x40\x00" + b"\x01\x00\xff\xff" + b"\0" * (0x4000 - 4)
        assert await taken(world.server.port, record, record) < ENDLESS_BYTES // 4


async def test_a_server_stops_beside_handshakes(tmp_path: Path, files: Files) -> None:
    async with secured(tmp_path, files, head_s=600.0) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port)
        async with asyncio.timeout(ANSWER_S):
            await world.server.stop()
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


# ---- messages of WebSockets


async def test_a_message_comes_in_so_many_pieces(world: World) -> None:
    """Pieces without a byte count nothing towards its size, and were kept."""
    reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port)
    head = (
        "GET /v1/events HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        f"authorization: Bearer {await world.token()}\r\n"
        "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    writer.write(head.encode())
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ANSWER_S)).startswith(b"HTTP/1.1 101")
    writer.write(b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 1000)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), ANSWER_S) == b""
    writer.close()
