"""Bad, odd and huge requests get a clear answer, and nothing else suffers."""

import asyncio
import contextlib
from typing import Any

import pytest

from ares.edge.rest.api import ApiSettings
from tests.integration.api.world import JOB, MISSING, World, open_world

DEEP = b"[" * 100_000
JSON = {"content-type": "application/json"}

BAD_BODIES: list[tuple[bytes, int, str, str]] = [
    (b"", 400, "malformed-json", ""),
    (b"{", 400, "malformed-json", ""),
    (b'{"spec":{"command":["x"]}} trailing', 400, "malformed-json", ""),
    (b"\xff\xfe", 400, "malformed-json", ""),
    (b'{"spec":{"command":["\xff"]}}', 400, "malformed-json", ""),
    (b'{"spec":{"command":["x"],"graceS":NaN}}', 400, "malformed-json", ""),
    (b'{"spec":{"command":["x"],"graceS":-Infinity}}', 400, "malformed-json", ""),
    (DEEP, 400, "too-deep", ""),
    (b'{"spec":' + b'{"a":' * 32 + b"1" + b"}" * 33, 400, "too-deep", ""),
    (b'{"spec":{"command":["x"]},"spec":{"command":["y"]}}', 400, "duplicate-key", ""),
    (b'{"spec":{"command":["x"],"env":{"A":"1","A":"2"}}}', 400, "duplicate-key", ""),
    (b'{"spec":{"command":["x"],"n\\u0061me":"a","name":"b"}}', 400, "duplicate-key", ""),
    (b"[]", 422, "invalid", "$"),
    (b"null", 422, "invalid", "$"),
    (b"{}", 422, "invalid", "$"),
    (b'{"spec":{}}', 422, "invalid", "$.spec"),
    (b'{"spec":{"command":"echo hi"}}', 422, "invalid", "$.spec.command"),
    (b'{"spec":{"command":[]}}', 422, "command-empty", "$.spec.command"),
    (b'{"spec":{"command":["x",1]}}', 422, "invalid", "$.spec.command[1]"),
    (b'{"spec":{"command":["x\\u0000"]}}', 422, "invalid", "$.spec.command[0]"),
    (b'{"spec":{"command":["x"],"hostNetwork":true}}', 422, "unknown-field", "$.spec"),
    (b'{"spec":{"command":["x"],"resources":{"uid":0}}}', 422, "unknown-field", "$.spec.resources"),
    (b'{"spec":{"command":["x"],"retry":{"patch":{"a":1}}}}', 422, "unknown-field", "$.spec.retry"),
    (b'{"spec":{"command":["x"]},"costEstimates":1}', 422, "unknown-field", "$"),
    (b'{"spec":{"command":["x"],"resources":{"gpus":-1}}}', 422, "invalid", "$.spec.resources.gpus"),
    (b'{"spec":{"command":["x"],"resources":{"gpus":1.5}}}', 422, "invalid", "$.spec.resources.gpus"),
    (b'{"spec":{"command":["x"],"resources":{"gpus":' + b"9" * 25 + b"}}}", 422, "invalid", "$.spec.resources.gpus"),
    (b'{"spec":{"command":["x"],"graceS":1e999}}', 422, "invalid", "$.spec.graceS"),
    (b'{"spec":{"command":["x"],"name":"' + b"n" * 10_000 + b'"}}', 422, "invalid", "$.spec.name"),
    (b'{"spec":{"command":["x"],"name":"a\\nb"}}', 422, "invalid", "$.spec.name"),
    (b'{"spec":{"command":["x"],"name":"a\\n"}}', 422, "invalid", "$.spec.name"),
    (b'{"spec":{"command":["x"],"name":"\\u001b[31m"}}', 422, "invalid", "$.spec.name"),
    (b'{"spec":{"command":["x"],"env":{"A=B":"1"}}}', 422, "invalid", "$.spec.env"),
    (b'{"spec":{"command":["x"],"priority":"ULTRA"}}', 422, "invalid", "$.spec.priority"),
    (b'{"spec":{"command":["x"]},"estimateCores":0}', 422, "invalid", "$.estimateCores"),
    (b'{"spec":{"command":["x"]},"priority":5}', 422, "invalid", "$.priority"),
    (b'{"spec":{"command":["x"]},"priority":-1}', 422, "invalid", "$.priority"),
    (b'{"spec":{"command":["x"]},"priority":true}', 422, "invalid", "$.priority"),
    (b'{"spec":{"command":["x"]},"inputRefs":"a"}', 422, "invalid", "$.inputRefs"),
    (b'{"spec":{"command":["x"]},"inputRefs":[{"ref":"a","hostPath":"/"}]}', 422, "invalid", "$.inputRefs[0]"),
    (b'{"spec":{"command":["x"]},"inputRefs":["a b"]}', 422, "invalid", "$.inputRefs[0]"),
    (b'{"spec":{"command":["x"]},"inputRefs":[' + b'"a",' * 1000 + b'"a"]}', 422, "invalid", "$.inputRefs"),
    (b'{"spec":{"command":["x"]},"requestId":"a b"}', 422, "invalid", "$.requestId"),
]


@pytest.mark.parametrize(("body", "status", "code", "path"), BAD_BODIES, ids=lambda v: str(v)[:40])
async def test_bad_bodies(world: World, body: bytes, status: int, code: str, path: str) -> None:
    async with world.client() as client:
        answer = await client.post("/v1/jobs", content=body, headers=JSON)
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem.get("path", "")) == (status, code, path)
        assert answer.headers["content-type"] == "application/problem+json"
        assert problem["status"] == status
        assert problem["type"] == f"urn:ares:error:{code}"
        assert problem["instance"] == "/v1/jobs"
        assert problem["title"]
        assert problem["fix"]


async def test_an_unknown_field_is_named(world: World) -> None:
    async with world.client() as client:
        answer = await client.post("/v1/jobs", json={"spec": {**JOB, "gpuCount": 2}})
        assert "gpuCount" in answer.json()["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/json", "content-encoding": "gzip"},
        {"content-type": "application/jsonp"},
    ],
)
async def test_other_media_types_are_refused(world: World, headers: dict[str, str]) -> None:
    async with world.client() as client:
        answer = await client.post("/v1/jobs", content=b'{"spec":{"command":["x"]}}', headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-media-type")


async def test_json_may_name_its_charset(world: World) -> None:
    async with world.client() as client:
        headers = {"content-type": "Application/JSON; charset=utf-8"}
        assert (
            await client.post("/v1/jobs", content=b'{"spec":{"command":["x"]}}', headers=headers)
        ).status_code == 201


async def test_a_large_body_is_refused_before_it_is_read(world: World) -> None:
    async with world.client() as client:
        answer = await client.post("/v1/jobs", content=b" " * (1024 * 1024 + 1), headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
        fits = b'{"spec":{"command":["x"]}}'
        answer = await client.post("/v1/jobs", content=fits + b" " * (1024 * 1024 - len(fits)), headers=JSON)
        assert answer.status_code == 201


async def chunked(world: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request whose body has no declared length; its head is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port)
    head = (
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n"
        f"content-type: application/json\r\nauthorization: Bearer {await world.token()}\r\n\r\n"
    )
    writer.write(head.encode())
    return reader, writer


async def test_a_body_of_no_declared_length_is_refused_once_it_is_too_long(world: World) -> None:
    reader, writer = await chunked(world)
    # To the byte: what a server has not read when it closes may cost the client the answer.
    writer.write(b"100001\r\n" + b" " * 0x100001)
    assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_an_endless_body_is_cut_off(world: World) -> None:
    """N36: chunked, without a declared length."""
    reader, writer = await chunked(world)

    async def flood() -> None:
        for _ in range(1024):
            writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            await writer.drain()

    flooding = asyncio.create_task(flood())
    # A client still sending may find the connection reset before it has read the answer: TCP promises no more.
    with contextlib.suppress(ConnectionResetError):
        status = await asyncio.wait_for(reader.readline(), 20)
        assert not status or status.startswith(b"HTTP/1.1 413")
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(flooding, 20)
    writer.close()


async def test_a_body_that_never_ends_is_given_up(tmp_path: Any) -> None:
    async with open_world(tmp_path, ApiSettings(body_timeout_s=0.1)) as world:
        token = await world.token()
        reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port)
        head = (
            "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n"
            f"content-type: application/json\r\nauthorization: Bearer {token}\r\n\r\n{{"
        )
        writer.write(head.encode())
        assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.1 408")
        writer.close()


@pytest.mark.parametrize(
    ("query", "code", "path"),
    [
        ("limit=0", "invalid", "query.limit"),
        ("limit=1001", "invalid", "query.limit"),
        ("limit=-1", "invalid", "query.limit"),
        ("limit=x", "invalid", "query.limit"),
        ("limit=1&limit=2", "invalid", "query.limit"),
        ("sort=name", "invalid", "query.sort"),
        ("phase=DONE", "invalid", "query.phase[0]"),
        ("phase=", "invalid", "query.phase[0]"),
        ("label=novalue", "invalid", "query.label[0]"),
        ("colour=red", "unknown-field", "query"),
        ("tenant=other", "unknown-field", "query"),
        ("&".join(f"label=a{n}=b" for n in range(200)), "bad-request", ""),
    ],
)
async def test_bad_queries(world: World, query: str, code: str, path: str) -> None:
    async with world.client() as client:
        answer = await client.get(f"/v1/jobs?{query}")
        problem = answer.json()
        assert (problem["code"], problem.get("path", "")) == (code, path)
        assert answer.status_code in (400, 422)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD"])
async def test_other_methods_are_405_and_say_which_work(world: World, method: str) -> None:
    async with world.client() as client:
        answer = await client.request(method, "/v1/jobs")
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, POST"
        if method != "HEAD":
            assert answer.json()["code"] == "method-not-allowed"
        sockets = await client.request(method, "/v1/events")
        assert sockets.headers["allow"] == "GET"


@pytest.mark.parametrize(
    "path", ["/v2/jobs", "/v1", "/v1/", f"/v1/jobs/{MISSING}/nothing", "/v1/jobs/a/b/c", "/schema", "/docs"]
)
async def test_no_such_path(world: World, path: str) -> None:
    async with world.client() as client:
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/", "//"])
async def test_the_root_leads_to_the_dashboard(world: World, path: str) -> None:
    async with world.client() as client:
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["location"]) == (307, "/ui/")


async def test_a_trailing_slash_is_forgiven(world: World) -> None:
    async with world.client() as client:
        assert (await client.get("/v1/jobs/")).status_code == 200
        assert (await client.post("/v1/jobs/", json={"spec": JOB})).status_code == 201


async def test_the_server_goes_on_after_rubbish(world: World) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port)
    writer.write(b"\x16\x03\x01rubbish\r\n\r\n")
    assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.1 400")
    writer.close()
    async with world.client() as client:
        assert (await client.get("/v1/jobs")).status_code == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"jobs":[],"jobs":[{"spec":{"command":["x"]}}]}', "duplicate-key"),
        (b'{"jobs":[{"spec":{"command":["x"]}}],"j\\u006fbs":[{"spec":{"command":["x"]}}]}', "duplicate-key"),
        (b'{"jobs":[{"spec":{"command":["x"]}}],"more":1}', "invalid"),
        (b'{"jobs":[' + DEEP, "too-deep"),
        (b'{"jobs":[1,2', "malformed-json"),
        (b'[{"spec":{"command":["x"]}}]', "invalid"),
        (b'{"jobs":7}', "invalid"),
        (b"{}", "invalid"),
    ],
    ids=lambda v: str(v)[:40],
)
async def test_bad_batches(world: World, body: bytes, code: str) -> None:
    async with world.client() as client:
        answer = await client.post("/v1/jobs/batch", content=body, headers=JSON)
        assert answer.json()["code"] == code
        assert (await client.get("/v1/jobs")).json()["jobs"] == []


async def test_duplicates_and_depth_in_one_job_of_a_batch(world: World) -> None:
    async with world.client() as client:
        good = b'{"spec":{"command":["http://x:1"]}}'
        body = b'{"jobs":[%b,{"spec":{"command":["a"]},"spec":{"command":["b"]}},%b,%b]}' % (
            good,
            b"[" * 100 + b"]" * 100,
            good,
        )
        results = (await client.post("/v1/jobs/batch", content=body, headers=JSON)).json()["results"]
        assert [r["error"] and r["error"]["code"] for r in results] == [None, "duplicate-key", "too-deep", None]
