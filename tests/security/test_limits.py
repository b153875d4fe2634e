"""One caller cannot have the server for itself: rates, turns, connections, and requests that are too much."""

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets

from ares.core import keys
from ares.core.limits import ServerLimits
from ares.edge.rest.api import ApiServices, ApiSettings
from ares.edge.rest.app import METER, build_app
from ares.edge.rest.http.limits import Meter
from ares.edge.rest.http.server import HttpServer
from tests.integration.api.world import JOB, World, open_world

ANSWER_S = 30.0
WRONG = f"ares_{'0' * 10}_{'A' * 43}"


@contextlib.asynccontextmanager
async def limited(folder: Path, **limits: Any) -> AsyncGenerator[World]:
    async with open_world(folder, ApiSettings(limits=ServerLimits(**limits))) as world:
        yield world


@contextlib.asynccontextmanager
async def serving(services: ApiServices, limits: ServerLimits) -> AsyncGenerator[tuple[HttpServer, Meter]]:
    """Another server before the same services, with its meter to look at."""
    settings = ApiSettings(limits=limits)
    app = build_app(services, settings)
    server = HttpServer(app, settings)
    await server.start()
    try:
        yield server, app.state[METER]
    finally:
        await server.stop()


async def until(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(ANSWER_S):
        while not look():
            await asyncio.sleep(0.001)


async def raw(port: int, *pieces: bytes) -> bytes:
    """All that the server says to these bytes until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), ANSWER_S)
    except ConnectionError:
        # Closed while it was still being sent to: the rest was not read.
        return b""
    finally:
        writer.close()


def head(token: str, *lines: str, method: str = "POST", path: str = "/v1/jobs") -> bytes:
    fields = ["host: localhost", f"authorization: Bearer {token}", "content-type: application/json", *lines]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode()


# ---- rates


async def test_a_credential_over_its_rate(tmp_path: Path) -> None:
    """N37: 429 with the time to come again; others, also of the same tenant, do not notice."""
    async with limited(tmp_path, principal_requests_per_s=0.01, principal_requests_burst=3) as world:
        async with world.client() as one, world.client() as two, world.client(tenant="other") as other:
            assert [(await one.get("/v1/jobs")).status_code for _ in range(4)] == [200, 200, 200, 429]
            answer = await one.post("/v1/jobs", json={"spec": JOB})
            assert (answer.status_code, answer.json()["code"]) == (429, "rate-limited")
            assert 90 <= int(answer.headers["retry-after"]) <= 100
            assert answer.headers["ratelimit-limit"] == "3"
            assert answer.headers["ratelimit-remaining"] == "0"
            assert [(await client.get("/v1/jobs")).status_code for client in (two, other)] == [200, 200]
        assert 'ares_limited_total{reason="rate"} 2.0' in (await world.services.metrics(False)).decode()


async def test_a_tenant_over_its_rate(tmp_path: Path) -> None:
    """N37: more tokens do not get a tenant more."""
    async with limited(tmp_path, tenant_requests_per_s=0.01, tenant_requests_burst=4) as world:
        seen: list[int] = []
        for _ in range(3):
            async with world.client() as client:
                seen += [(await client.get("/v1/jobs")).status_code for _ in range(2)]
        assert seen == [200, 200, 200, 200, 429, 429]
        async with world.client(tenant="other") as other:
            assert (await other.get("/v1/jobs")).status_code == 200


async def test_jobs_of_a_batch_are_counted_one_by_one(tmp_path: Path) -> None:
    async with limited(tmp_path, jobs_per_s=0.01, jobs_burst=10) as world, world.client() as client:
        seven = {"jobs": [{"spec": JOB}] * 7}
        assert (await client.post("/v1/jobs/batch", json=seven)).status_code == 200
        refused = await client.post("/v1/jobs/batch", json=seven)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate-limited")
        assert [(await client.post("/v1/jobs", json={"spec": JOB})).status_code for _ in range(4)] == [
            201, 201, 201, 429,
        ]  # fmt: skip
        assert len((await client.get("/v1/jobs")).json()["jobs"]) == 10


async def test_guessing_keys(tmp_path: Path) -> None:
    """N6: 1,000 wrong keys are 401, then 429; the store is not asked any more; a good key still comes in."""
    async with limited(tmp_path, failures_per_s=0.01, refusals_burst=1000.0) as world:
        good = await world.token()
        reads = 0
        get = world.store.get

        async def counted(key: str) -> Any:
            nonlocal reads
            reads += key.startswith(keys.token(""))
            return await get(key)

        world.store.get = counted  # type: ignore[method-assign]
        async with world.client_with(None) as client:

            async def guess(number: int) -> httpx2.Response:
                key = f"ares_{number:010d}_{'A' * 43}" if number % 2 else f"{good[:-4]}{number:04d}"
                return await client.get("/v1/jobs", headers={"authorization": f"Bearer {key}"})

            answers = [await guess(number) for number in range(1000)]
            assert [answer.status_code for answer in answers] == [401] * 100 + [429] * 900
            assert reads == 50
            assert len({answer.content for answer in answers[:100]}) == 1
            assert int(answers[-1].headers["retry-after"]) >= 1
            welcome = await client.get("/v1/jobs", headers={"authorization": f"Bearer {good}"})
            assert welcome.status_code == 200
        assert 'ares_limited_total{reason="throttle"} 900.0' in (await world.services.metrics(False)).decode()


async def test_without_a_credential(tmp_path: Path) -> None:
    async with limited(tmp_path, anonymous_per_s=0.01, anonymous_burst=5) as world, world.client_with(None) as client:
        assert [(await client.get("/v1/jobs")).status_code for _ in range(7)] == [401] * 5 + [429] * 2
        # Probes are never refused.
        assert (await client.get("/readyz")).status_code == 200


# ---- turns


class Held:
    """Stands before a service: each submission waits until it is let go, and who came in which order is known."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.came: list[str] = []
        self._gates: list[asyncio.Event] = []
        self.moved = asyncio.Condition()

    async def submit(self, who: Any, requests: Any, **how: Any) -> Any:
        gate = asyncio.Event()
        async with self.moved:
            self.came.append(who.tenant)
            self._gates.append(gate)
            self.moved.notify_all()
        await gate.wait()
        return await self._inner.submit(who, requests, **how)

    def sized(self, spec: Any) -> Any:
        return self._inner.sized(spec)

    async def until(self, count: int) -> None:
        async with self.moved, asyncio.timeout(ANSWER_S):
            await self.moved.wait_for(lambda: len(self.came) >= count)

    def let_go(self, number: int) -> None:
        self._gates[number].set()


async def test_a_flooding_tenant_waits_for_itself(tmp_path: Path) -> None:
    """N37: shown by the order of service. A full queue is refused before the body is read, also for the whole
    server; who waits too long is told so."""
    limits = ServerLimits(served_at_once=1, waiting_per_tenant_max=4, waiting_max=6, waiting_s=3600.0)
    async with open_world(tmp_path) as world:
        held = Held(world.services.submit)
        services = dataclasses.replace(world.services, submit=held)  # type: ignore[arg-type]
        tokens = {name: await world.token(tenant=name) for name in ("flood", "calm", "quiet", "late")}
        async with (
            serving(services, limits) as (server, meter),
            httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=60.0) as client,
        ):
            lane = meter.lane("write")

            def post(tenant: str) -> "asyncio.Task[httpx2.Response]":
                caller = {"authorization": f"Bearer {tokens[tenant]}"}
                return asyncio.create_task(client.post("/v1/jobs", json={"spec": JOB}, headers=caller))

            sent = [post("flood")]
            await held.until(1)
            for number, tenant in enumerate(("flood", "flood", "flood", "flood", "calm", "quiet"), 1):
                sent.append(post(tenant))
                await until(lambda: lane.waiting == number)  # noqa: B023 - awaited at once
            over, full = await post("flood"), await post("late")
            assert (over.status_code, over.json()["code"]) == (429, "rate-limited")
            assert (full.status_code, full.json()["code"]) == (503, "overloaded")
            assert all(int(refused.headers["retry-after"]) >= 1 for refused in (over, full))
            unread = await raw(server.port, head(tokens["flood"], "content-length: 1000000", "connection: close"))
            assert unread.startswith(b"HTTP/1.1 429")
            # Reading goes on while nothing can be written.
            read = await client.get("/v1/jobs", headers={"authorization": f"Bearer {tokens['late']}"})
            assert read.status_code == 200
            for number in range(7):
                await held.until(number + 1)
                held.let_go(number)
            answers = await asyncio.gather(*sent)
        assert {answer.status_code for answer in answers} == {201}
        assert held.came == ["flood", "flood", "calm", "quiet", "flood", "flood", "flood"]


async def test_who_waits_too_long_is_told_so(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        held = Held(world.services.submit)
        services = dataclasses.replace(world.services, submit=held)  # type: ignore[arg-type]
        caller = {"authorization": f"Bearer {await world.token()}"}
        async with (
            serving(services, ServerLimits(served_at_once=1, waiting_s=0.05)) as (server, meter),
            httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=60.0, headers=caller) as client,
        ):
            first = asyncio.create_task(client.post("/v1/jobs", json={"spec": JOB}))
            await held.until(1)
            second = await client.post("/v1/jobs", json={"spec": JOB})
            assert (second.status_code, second.json()["code"]) == (503, "overloaded")
            assert meter.lane("write").waiting == 0
            held.let_go(0)
            assert (await first).status_code == 201
            third = asyncio.create_task(client.post("/v1/jobs", json={"spec": JOB}))
            await held.until(2)
            held.let_go(1)
            assert (await third).status_code == 201


# ---- connections


async def test_one_address_has_so_many_connections(tmp_path: Path) -> None:
    async with limited(tmp_path, connections_per_address_max=3) as world:
        port, token = world.server.port, await world.token()
        ask = head(token, method="GET")
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in held:
            writer.write(ask)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        url = world.server.url.replace("http", "ws") + "/v1/events"
        async with websockets.connect(url, additional_headers={"authorization": f"Bearer {token}"}, proxy=None):
            # A WebSocket is one of them too.
            assert (await raw(port)).startswith(b"HTTP/1.1 429")
        held[0][1].close()
        await held[0][1].wait_closed()

        async def served() -> bool:
            return (await raw(port, head(token, "connection: close", method="GET"))).startswith(b"HTTP/1.1 200")

        async with asyncio.timeout(ANSWER_S):
            while not await served():
                await asyncio.sleep(0.01)
        held[1][1].close()


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ((), b"408"),
        ((b"GET /readyz HTTP/1.1\r\n",), b"408"),
        ((b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nx-slow: ",), b"408"),
        ((b"GET /readyz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n",), b"200"),
    ],
    ids=["nothing", "a line", "half a header", "a body nobody wants"],
)
async def test_slow_requests_are_given_up(tmp_path: Path, pieces: tuple[bytes, ...], status: bytes) -> None:
    """N36, slowloris: whoever does not finish a request loses the connection."""
    settings = ApiSettings(limits=ServerLimits(head_s=0.2), body_timeout_s=0.2)
    async with open_world(tmp_path, settings) as world:
        assert (await raw(world.server.port, *pieces))[9:12] == status


async def test_a_connection_that_is_kept_may_be_idle(tmp_path: Path) -> None:
    async with limited(tmp_path, head_s=0.1) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port)
        ask = head(await world.token(), method="GET", path="/v1/whoami")
        for _ in range(2):
            writer.write(ask)
            said = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ANSWER_S)
            assert said.startswith(b"HTTP/1.1 200")
            await reader.readexactly(int(said.partition(b"content-length: ")[2].partition(b"\r")[0]))
            # Meanwhile one that came later and sends nothing is ended.
            assert (await raw(world.server.port)).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_body_of_which_nothing_comes(tmp_path: Path) -> None:
    """N36: the time runs from the head on, not from the first byte of the body."""
    async with open_world(tmp_path, ApiSettings(body_timeout_s=0.1)) as world:
        said = await raw(world.server.port, head(await world.token(), "content-length: 100"))
        assert said.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "pieces",
    [
        (b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n", b"a: b\r\n" * 1_000_000, b"\r\n"),
        (b"GET /readyz HTTP/1.1\r\nhost: localhost\r\na: ", b"b" * 6_000_000, b"\r\n\r\n"),
        (b"GET /readyz?", b"b" * 6_000_000, b" HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        (b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n" + b"a: b\r\n" * 101 + b"\r\n",),
        (b"GET /readyz HTTP/1.1\r\nhost: localhost\r\na: " + b"b" * 66_000 + b"\r\n\r\n",),
    ],
    ids=["a million headers", "an endless header", "an endless path", "101 headers", "66 kB"],
)
async def test_a_head_that_is_too_large(world: World, pieces: tuple[bytes, ...]) -> None:
    """N36."""
    said = await raw(world.server.port, *pieces)
    # What is still being sent when the connection closes may cost the client the answer: TCP promises no more.
    if said or len(b"".join(pieces)) < 100_000:
        assert said.startswith(b"HTTP/1.1 431")
        assert b'"code":"head-too-large"' in said
    async with world.client() as client:
        assert (await client.get("/v1/jobs")).status_code == 200


async def test_a_large_body_in_one_piece_is_no_large_head(world: World) -> None:
    body = json.dumps({"spec": JOB}).encode() + b" " * 200_000
    said = await raw(
        world.server.port, head(await world.token(), f"content-length: {len(body)}", "connection: close") + body
    )
    assert said.startswith(b"HTTP/1.1 201")


async def test_requests_ahead_of_their_answers_are_bounded(world: World) -> None:
    """Pipelining: some, in order; not without end."""
    ask = head(await world.token(), method="GET", path="/v1/whoami")
    last = ask.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    said = await raw(world.server.port, ask * 9 + last)
    assert said.count(b"HTTP/1.1 200") == 10
    said = await raw(world.server.port, ask * 5000)
    assert said.count(b"HTTP/1.1 200") < 5000
    assert b"HTTP/1.1 5" not in said


async def test_large_bodies_share_what_there_is(tmp_path: Path) -> None:
    """Bodies that are sent slowly cannot fill the memory: their room is kept from the start."""
    async with (
        open_world(tmp_path) as world,
        serving(world.services, ServerLimits(tenant_body_mib_max=1, body_mib_max=2)) as (server, meter),
    ):
        writers: list[asyncio.StreamWriter] = []
        for tenant in ("one", "two"):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(head(await world.token(tenant=tenant), "content-length: 1000000") + b"{")
            writers.append(writer)
        await until(lambda: meter.receiving == 2_000_000)
        more = "content-length: 900000"
        assert (await raw(server.port, head(await world.token(tenant="one"), more)))[9:12] == b"429"
        assert (await raw(server.port, head(await world.token(tenant="three"), more)))[9:12] == b"503"
        chunked = head(await world.token(tenant="three"), "transfer-encoding: chunked")
        assert (await raw(server.port, chunked))[9:12] == b"503"
        small = json.dumps({"spec": JOB}).encode()
        asked = head(await world.token(tenant="one"), f"content-length: {len(small)}", "connection: close")
        assert (await raw(server.port, asked + small))[9:12] == b"201"
        for writer in writers:
            writer.close()
        await until(lambda: meter.receiving == 0)


# ---- from a browser


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "text/plain", "origin": "https://evil.example", "user-agent": "Mozilla/5.0"}, 403),
        ({"user-agent": ""}, 201),
        ({"user-agent": "Mozilla/5.0"}, 201),
    ],
)
async def test_a_page_in_a_browser(world: World, changed: dict[str, str], status: int) -> None:
    """N5: what a page may send without asking first is refused by what the browser must say about it; a name of
    the browser decides nothing."""
    async with world.client() as client:
        body = json.dumps({"spec": JOB}).encode()
        headers = {"content-type": "application/json", **changed}
        answer = await client.post("/v1/jobs", content=body, headers=headers)
        assert answer.status_code == status
        assert len((await client.get("/v1/jobs")).json()["jobs"]) == (status == 201)
