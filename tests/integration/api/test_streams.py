"""Events and logs as they happen: resumed, revoked, cut off, shut down."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets
from litestar.types import Send
from websockets.asyncio.client import ClientConnection

from ares.core.limits import ServerLimits
from ares.edge.rest.api import ApiSettings
from ares.edge.rest.http import sockets
from ares.edge.rest.http.sockets import CLOSES
from ares.edge.rest.http.streaming import Streams, TooSlow
from tests.integration.api.world import JOB, MISSING, World, open_world

QUICK = ApiSettings(recheck_s=0.05, heartbeat_s=0.05)


async def within(awaitable: Any, seconds: float = 20.0) -> Any:
    return await asyncio.wait_for(awaitable, seconds)


async def submit(client: httpx2.AsyncClient, spec: dict[str, Any] = JOB) -> str:
    return (await client.post("/v1/jobs", json={"spec": spec})).json()["id"]


async def sse(response: httpx2.Response) -> AsyncIterator[dict[str, str]]:
    """Events of a stream; comments come as an event of kind `comment`."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if not line:
            if fields:
                yield fields
            fields = {}
        elif line.startswith(":"):
            fields["event"] = "comment"
        else:
            name, _, value = line.partition(": ")
            fields[name] = value


async def real(events: AsyncIterator[dict[str, str]]) -> dict[str, str]:
    async for event in events:
        if event["event"] != "comment":
            return event
    raise AssertionError("the stream ended")


def socket(world: World, path: str, token: str) -> Any:
    url = world.server.url.replace("http", "ws") + path
    return websockets.connect(url, additional_headers={"authorization": f"Bearer {token}"}, proxy=None)


async def message(ws: ClientConnection) -> dict[str, Any]:
    return json.loads(await within(ws.recv()))


# ---- events


async def test_events_arrive_from_the_moment_the_stream_is_open(world: World) -> None:
    async with world.client() as client, client.stream("GET", "/v1/events") as response:
        assert response.headers["content-type"] == "text/event-stream"
        job = await submit(client)
        event = await within(real(sse(response)))
        assert event["event"] == "submitted"
        assert json.loads(event["data"])["job"] == job


async def test_a_stream_resumes_after_its_last_event(world: World) -> None:
    async with world.client() as client:
        jobs = [await submit(client) for _ in range(5)]
        async with client.stream("GET", "/v1/events?cursor=0") as response:
            stream = sse(response)
            first = [await within(real(stream)) for _ in range(2)]
        headers = {"last-event-id": first[-1]["id"]}
        async with client.stream("GET", "/v1/events", headers=headers) as response:
            stream = sse(response)
            rest = [await within(real(stream)) for _ in range(3)]
            late = await submit(client)
            rest.append(await within(real(stream)))
        seen = [json.loads(event["data"])["job"] for event in first + rest]
        assert seen == [*jobs, late]


async def test_events_of_one_job_and_never_of_another_tenant(world: World) -> None:
    async with world.client() as client, world.client(tenant="other") as other:
        await submit(other)
        one, two = await submit(client), await submit(client)
        async with client.stream("GET", f"/v1/events?cursor=0&job={two}") as response:
            stream = sse(response)
            assert json.loads((await within(real(stream)))["data"])["job"] == two
            await submit(other)
            await world.start_job(one)
            await world.start_job(two)
            assert json.loads((await within(real(stream)))["data"])["job"] == two
        async with client.stream("GET", "/v1/events?cursor=0") as response:
            stream = sse(response)
            tenants = {json.loads((await within(real(stream)))["data"])["tenant"] for _ in range(6)}
        assert tenants == {"acme"}


async def test_an_idle_stream_shows_signs_of_life(tmp_path: Path) -> None:
    async with open_world(tmp_path, QUICK) as world, world.client() as client:
        async with client.stream("GET", "/v1/events") as response:
            stream = sse(response)
            kinds = [(await within(anext(stream)))["event"] for _ in range(3)]
        assert kinds == ["comment"] * 3


@pytest.mark.parametrize("cursor", ["abc", "-1x", "1-2-3", "9" * 30])
async def test_a_bad_cursor_is_refused_before_anything_is_streamed(world: World, cursor: str) -> None:
    token = await world.token()
    async with world.client_with(token) as client:
        for params, headers in (({"cursor": cursor}, {}), ({}, {"last-event-id": cursor})):
            answer = await client.get("/v1/events", params=params, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (400, "bad-cursor")
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        await socket(world, f"/v1/events?cursor={cursor}", token)
    assert refused.value.response.status_code == 400


async def test_websocket_events_resume(world: World) -> None:
    token = await world.token()
    async with world.client_with(token) as client:
        async with socket(world, "/v1/events", token) as ws:
            jobs = [await submit(client) for _ in range(3)]
            first = await message(ws)
            assert first["event"]["job"] == jobs[0]
        async with socket(world, f"/api/v1/events?cursor={first['cursor']}", token) as ws:
            assert [(await message(ws))["event"]["job"] for _ in range(2)] == jobs[1:]


async def test_a_browser_gives_its_token_as_a_protocol(world: World) -> None:
    token = await world.token()
    url = world.server.url.replace("http", "ws") + "/v1/events"
    protocols = [websockets.Subprotocol("bearer"), websockets.Subprotocol(token)]
    async with websockets.connect(url, subprotocols=protocols, proxy=None) as ws:
        assert ws.subprotocol == "bearer"
    wrong = [websockets.Subprotocol("bearer"), websockets.Subprotocol(token[:-3])]
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        await websockets.connect(url, subprotocols=wrong, proxy=None)
    assert refused.value.response.status_code == 401


async def test_refused_sockets_get_problems(world: World) -> None:
    token = await world.token()
    for path, status, code in [
        ("/v1/nowhere", 404, "not-found"),
        (f"/v1/jobs/{MISSING}/logs", 404, "not-found"),
        ("/v1/events?x=1", 422, "unknown-field"),
    ]:
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
            await socket(world, path, token)
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"")["code"] == code


async def test_a_revoked_token_ends_its_streams(tmp_path: Path) -> None:
    """N7, N15: others go on."""
    async with open_world(tmp_path, QUICK) as world, world.client("admin") as admin:
        token, other = await world.token(), await world.token()
        async with (
            socket(world, "/v1/events", token) as ws,
            socket(world, "/v1/events", other) as safe,
            world.client_with(token) as client,
            client.stream("GET", "/v1/events") as response,
        ):
            await admin.delete(f"/v1/tokens/{token.split('_')[1]}")
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await within(ws.recv())
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason.split(":")[0]) == (4401, "unauthenticated")
            last = await within(real(sse(response)))
            assert (last["event"], json.loads(last["data"])["code"]) == ("error", "unauthenticated")
            await submit(admin)
            assert (await message(safe))["event"]["kind"] == "submitted"


def test_revocation_is_noticed_in_time() -> None:
    assert ApiSettings().recheck_s <= 4.0


async def test_streams_are_counted_per_token(tmp_path: Path) -> None:
    async with open_world(tmp_path, ApiSettings(streams_per_token_max=2)) as world:
        token = await world.token()
        async with socket(world, "/v1/events", token), world.client_with(token) as client:
            async with client.stream("GET", "/v1/events") as response:
                await within(anext(sse(response)))
                refused = await client.get("/v1/events")
                assert (refused.status_code, refused.json()["code"]) == (429, "too-many-streams")
                assert int(refused.headers["retry-after"]) > 0
                async with socket(world, "/v1/events", await world.token()) as other:
                    assert other
            async with world.client("operator") as viewer:
                while "ares_streams_open 1.0" not in (await viewer.get("/metrics")).text:
                    pass
            async with socket(world, "/v1/events", token) as again:
                assert again


async def test_a_reader_that_reads_nothing_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut off, with a clear end should it read on after all; its last cursor is where to go on."""
    async with open_world(tmp_path) as world:
        token, real_send = await world.token(), Streams.send
        stuck = False

        async def send(streams: Streams, sending: Any) -> None:
            nonlocal stuck
            await real_send(streams, sending)
            if stuck:
                stuck = False
                raise TooSlow

        monkeypatch.setattr(Streams, "send", send)
        async with world.client_with(token) as client, client.stream("GET", "/v1/events") as response:
            stream = sse(response)
            await within(anext(stream))
            stuck = True
            await submit(client)
            last = [await within(real(stream)) for _ in range(2)]
            assert [event["event"] for event in last] == ["submitted", "error"]
            assert json.loads(last[1]["data"])["code"] == "lagged"
            async with socket(world, f"/v1/events?cursor={last[0]['id']}", token) as ws:
                stuck = True
                job = await submit(client)
                assert (await message(ws))["event"]["job"] == job
                closed = await within(_until_closed(ws))
                assert (closed.code, closed.reason.split(":")[0]) == (4408, "lagged")


async def test_streams_are_counted_per_tenant(tmp_path: Path) -> None:
    """More tokens do not get a tenant more."""
    async with (
        open_world(tmp_path, ApiSettings(limits=ServerLimits(streams_per_tenant_max=2))) as world,
        socket(world, "/v1/events", await world.token()),
        socket(world, "/v1/events", await world.token()),
        world.client() as client,
    ):
        refused = await client.get("/v1/events")
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-streams")
        assert "the tenant acme" in refused.json()["detail"]
        async with socket(world, "/v1/events", await world.token(tenant="other")) as other:
            assert other


async def test_the_past_is_read_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten unread streams from the beginning took 283 MiB: each held the whole past."""
    monkeypatch.setattr("ares.control.queries.events._RING_EVENTS", 10)
    async with world.client() as client:
        await client.post("/v1/jobs/batch", json={"jobs": [{"spec": JOB}] * 700})
        await world.view.catch_up()
        pages: list[int] = []
        inner = world.store.range

        async def measured(prefix: str, **asked: Any) -> Any:
            page = await inner(prefix, **asked)
            pages.append(len(page.kvs))
            return page

        world.store.range = measured  # type: ignore[method-assign]
        async with client.stream("GET", "/v1/events?cursor=0") as response:
            stream = sse(response)
            seen = [json.loads((await within(real(stream)))["data"])["job"] for _ in range(700)]
    assert len(set(seen)) == 700
    assert max(pages) <= 64


async def _until_closed(ws: ClientConnection) -> Any:
    try:
        while True:
            await ws.recv()
    except websockets.ConnectionClosed as closed:
        return closed.rcvd


async def test_a_reader_that_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    """A stalled client holds neither memory nor a place."""
    async with open_world(tmp_path, ApiSettings(send_timeout_s=0.2)) as world:
        token = await world.token()
        async with world.client_with(token) as client, world.client("operator") as viewer:
            job = await submit(client)
            state = await world.start_job(job)
            reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port, limit=1024)
            writer.write(
                f"GET /v1/jobs/{job}/logs?follow=true HTTP/1.1\r\nhost: localhost\r\n"
                f"authorization: Bearer {token}\r\n\r\n".encode()
            )
            await within(reader.readline())
            world.logs.append("acme", job, state.attempt, 0, 0, b"x" * 32 * 1024 * 1024)
            while "ares_streams_open 0.0" not in (await viewer.get("/metrics")).text:
                await asyncio.sleep(0.01)
            received = await within(reader.read())
            assert len(received) < 32 * 1024 * 1024
            writer.close()


async def test_stopping_the_server_ends_streams_at_once(tmp_path: Path) -> None:
    async with open_world(tmp_path, ApiSettings(shutdown_s=60.0)) as world:
        token = await world.token()
        async with world.client_with(token) as client:
            async with client.stream("GET", "/v1/events") as response, socket(world, "/v1/events", token) as ws:
                stream = sse(response)
                await within(anext(stream))
                stopping = asyncio.create_task(world.server.stop())
                last = await within(real(stream))
                assert json.loads(last["data"])["code"] == "not-ready"
                closed = await within(_until_closed(ws))
                assert closed.code == 1001
            await client.aclose()
            await within(stopping)


async def test_clients_are_told_why_before_the_library_closes_their_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the library's own close, 1012 without a reason, came first."""
    close = sockets._close  # pyright: ignore[reportPrivateUsage]
    told: list[bool] = []

    async def late(send: Send, why: tuple[int, str]) -> None:
        library = world.server._server  # pyright: ignore[reportPrivateUsage]
        assert library is not None
        told.append(library.should_exit)
        await close(send, why)

    monkeypatch.setattr(sockets, "_close", late)
    async with open_world(tmp_path, ApiSettings(shutdown_s=60.0)) as world:
        token = await world.token()
        async with socket(world, "/v1/events", token) as ws:
            stopping = asyncio.create_task(world.server.stop())
            closed = await within(_until_closed(ws))
            assert (closed.code, closed.reason) == CLOSES["shutdown"]
            await within(stopping)
    assert told == [False]


# ---- logs


async def test_logs_of_a_finished_attempt(world: World) -> None:
    async with world.client() as client:
        job = await submit(client)
        empty = await client.get(f"/v1/jobs/{job}/logs")
        assert (empty.status_code, empty.content, empty.headers["x-ares-attempt"]) == (200, b"", "0")
        state = await world.start_job(job)
        text = b"".join(b"line %d \xff\n" % n for n in range(200_000))
        world.logs.append("acme", job, 1, 0, 0, text)
        await world.finish_job(state)
        whole = await client.get(f"/v1/jobs/{job}/logs")
        assert whole.content == text
        assert whole.headers["content-type"].startswith("text/plain")
        assert (whole.headers["x-ares-attempt"], whole.headers["x-ares-log-offset"]) == ("1", "0")
        tail = await client.get(f"/v1/jobs/{job}/logs?tail=3")
        assert tail.content == b"line 199997 \xff\nline 199998 \xff\nline 199999 \xff\n"
        assert int(tail.headers["x-ares-log-offset"]) == len(text) - len(tail.content)
        assert (await client.get(f"/v1/jobs/{job}/logs?tail=0")).content == b""
        assert (await client.get(f"/v1/jobs/{job}/logs?offset={len(text) - 5}")).content == text[-5:]
        assert (await client.get(f"/v1/jobs/{job}/logs?offset={len(text) + 5}")).content == b""
        assert (await client.get(f"/v1/jobs/{job}/logs?rank=1")).content == b""
        assert (await client.get(f"/v1/jobs/{job}/logs?attempt=1&follow=true")).content == text
        both = await client.get(f"/v1/jobs/{job}/logs?tail=1&offset=1")
        assert (both.status_code, both.json()["path"]) == (422, "query.tail")


@pytest.mark.parametrize(
    "query", ["tail=-1", "tail=1m", "tail=x", "rank=-1", "attempt=0", "offset=-1", "follow=perhaps"]
)
async def test_bad_log_queries(world: World, query: str) -> None:
    async with world.client() as client:
        answer = await client.get(f"/v1/jobs/{MISSING}/logs?{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_following_a_job_from_before_its_start_to_its_end(world: World) -> None:
    async with world.client() as client:
        job = await submit(client)
        async with client.stream("GET", f"/v1/jobs/{job}/logs?follow=true") as response:
            pieces = response.aiter_raw()
            state = await world.start_job(job)
            world.logs.append("acme", job, 1, 0, 0, b"one\n")
            assert await within(anext(pieces)) == b"one\n"
            world.logs.append("acme", job, 1, 0, 4, b"two\n")
            assert await within(anext(pieces)) == b"two\n"
            world.logs.append("acme", job, 1, 0, 8, b"end\n")
            await world.finish_job(state)
            rest = b"".join([piece async for piece in pieces])
        assert rest == b"end\n"


async def test_following_for_a_while(world: World) -> None:
    async with world.client() as client:
        job = await submit(client)
        await world.start_job(job)
        text = b"".join(b"%d\n" % n for n in range(1000))
        world.logs.append("acme", job, 1, 0, 0, text)
        answer = await within(client.get(f"/v1/jobs/{job}/logs?tail=1s"))
        assert answer.content == b"".join(b"%d\n" % n for n in range(900, 1000))


async def test_websocket_logs(world: World) -> None:
    token = await world.token()
    async with world.client_with(token) as client:
        job = await submit(client)
        state = await world.start_job(job)
        world.logs.append("acme", job, 1, 0, 0, b"one\xff")
        async with socket(world, f"/v1/jobs/{job}/logs?follow=true", token) as ws:
            first = await message(ws)
            assert base64.b64decode(first["data"]) == b"one\xff"
            assert (first["attempt"], first["offset"], first["next"], first["complete"]) == (1, 0, 4, False)
        async with socket(world, f"/v1/jobs/{job}/logs?follow=true&offset={first['next']}", token) as ws:
            world.logs.append("acme", job, 1, 0, 4, b"two")
            assert base64.b64decode((await message(ws))["data"]) == b"two"
            await world.finish_job(state)
            assert (await message(ws))["complete"]
            assert (await within(_until_closed(ws))).code == 1000


async def test_a_search_goes_on_where_it_was_without_a_lost_or_doubled_line(world: World) -> None:
    text = b"".join(b"%d %s\n" % (n, b"loss" if n % 3 == 0 else b"other") for n in range(1000)) + b"last loss"
    async with world.client() as client:
        job = await submit(client)
        state = await world.start_job(job)
        world.logs.append("acme", job, 1, 0, 0, text)
        wanted = [line.decode() for line in text.split(b"\n") if b"loss" in line]
        found: list[str] = []
        offset = 0
        while True:
            path = f"/v1/jobs/{job}/logs/search?text=loss&limit=7&offset={offset}"
            page = (await client.get(path)).json()
            found += [line["text"] for line in page["lines"]]
            assert all(text[line["offset"] :].startswith(line["text"].encode()) for line in page["lines"])
            if not page["lines"]:
                break
            offset = page["next"]
        assert found == wanted[:-1], "the last line is not whole while the attempt runs"
        assert not page["complete"]
        await world.finish_job(state)
        page = (await client.get(f"/v1/jobs/{job}/logs/search?text=loss&offset={offset}")).json()
        assert ([line["text"] for line in page["lines"]], page["complete"]) == (["last loss"], True)
    async with world.client(tenant="other") as other:
        assert (await other.get(f"/v1/jobs/{job}/logs/search?text=loss")).status_code == 404


@pytest.mark.parametrize(
    "query", ["", "text=", f"text={'x' * 257}", "text=a&offset=-1", "text=a&limit=1001", "text=a&rank=-1"]
)
async def test_bad_log_searches(world: World, query: str) -> None:
    async with world.client() as client:
        answer = await client.get(f"/v1/jobs/{MISSING}/logs/search?{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_a_search_reads_a_bounded_part_at_a_time(world: World) -> None:
    line = b"x" * 1023 + b"\n"
    async with world.client() as client:
        job = await submit(client)
        await world.finish_job(await world.start_job(job))
        world.logs.append("acme", job, 1, 0, 0, line * (10 << 10))
        first = (await client.get(f"/v1/jobs/{job}/logs/search?text=nothing")).json()
        assert (first["lines"], first["next"], first["complete"]) == ([], 8 << 20, False)
        rest = (await client.get(f"/v1/jobs/{job}/logs/search?text=nothing&offset={first['next']}")).json()
        assert (rest["lines"], rest["next"], rest["complete"]) == ([], 10 << 20, True)


async def test_output_since_a_time(world: World) -> None:
    async with world.client() as client:
        job = await submit(client)
        await world.finish_job(await world.start_job(job))
        world.logs.append("acme", job, 1, 0, 0, b"text\n")
        assert (await client.get(f"/v1/jobs/{job}/logs?since=0")).content == b"text\n"
        assert (await client.get(f"/v1/jobs/{job}/logs?since=99999999999")).content == b""
        both = await client.get(f"/v1/jobs/{job}/logs?tail=1&since=1")
        assert (both.status_code, both.json()["path"]) == (422, "query.tail")
