"""Canaries: values that must turn up nowhere, planted wherever a value goes in, and looked for in all that is left."""

import asyncio
import base64
import hashlib
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from structlog.processors import JSONRenderer
from structlog.testing import capture_logs

from ares.app.processes import redact
from ares.control.governance.secrets import Secrets
from ares.edge.client.calls.secrets import rotate_key
from ares.edge.rest.api import ApiSettings
from ares.model.secret import Secret
from tests.integration.api.world import JOB, World, open_world
from tests.platform import Platform, eventually
from tests.security.audited import entries

SECRET = "s3cr3t-c4n4ry"
HEADER = "h3ad3r-c4n4ry"
QUERY = "qu3ry-c4n4ry"
ENV = "3nv-c4n4ry"
URL = "ur1-c4n4ry"
ALL = (SECRET, HEADER, QUERY, ENV, URL)


def seen(text: str | bytes, *canaries: str) -> list[str]:
    raw = text.encode() if isinstance(text, str) else text
    return [one for one in canaries if one.encode() in raw or base64.b64encode(one.encode())[:-3] in raw]


async def _half_a_body(world: World, token: str) -> str:
    """Says that more will come, and waits for what the server makes of it."""
    where = urlsplit(world.server.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    head = f"PUT /v1/secrets/pw HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f'{head}Content-Type: application/json\r\nContent-Length: 999\r\n\r\n{{"value": "{SECRET}'.encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


async def _refusals(world: World, client: httpx2.AsyncClient) -> list[str]:
    """Mistakes and strangers, with a canary in every place."""
    async with world.client_with(f"ares_{HEADER}_{HEADER}") as stranger:
        said = [
            await client.get(f"/v1/jobs?token={QUERY}"),
            await client.get(f"/v1/jobs?name={QUERY}"),
            await client.put(f"/v1/secrets/pw?key={QUERY}", json={"value": SECRET}),
            await client.put("/v1/secrets/pw", content=SECRET.encode()),
            await client.get("/v1/jobs/0000000000000000", headers={"x-ares-tenant": "other", "x-api-key": HEADER}),
            await client.put("/v1/nothing", json={"value": SECRET}, headers={"cookie": f"session={HEADER}"}),
            await stranger.get("/v1/jobs"),
            await stranger.get("/v1/jobs", headers={"authorization": f"Basic {HEADER}"}),
            await stranger.put("/v1/secrets/pw", json={"value": SECRET}),
        ]
    assert [answer.status_code for answer in said].count(200) == 1
    return [answer.text for answer in said]


async def _failing_job(client: httpx2.AsyncClient, world: World) -> None:
    spec = {**JOB, "env": {"PLAIN": ENV}, "secrets": [{"name": "pw", "env": "PW"}]}
    job = await client.post("/v1/jobs", json={"spec": spec})
    await world.finish_job(await world.start_job(job.json()["id"]), code=1)


async def test_answers_logs_audit_metrics_and_traces_of_every_kind_of_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N26: 2xx, 4xx, a handler that crashes with the value in its hands, and a timeout."""

    async def crash(self: Secrets, *args: Any) -> None:
        raise RuntimeError(f"cannot keep {args!r}")

    with capture_logs() as events:
        async with open_world(tmp_path, ApiSettings(body_timeout_s=0.2)) as world, world.client("admin") as client:
            said = [(await client.put("/v1/secrets/pw", json={"value": SECRET})).text]
            await _failing_job(client, world)
            hook = {"kind": "webhook", "url": f"https://hooks.example/{URL}?sig={URL}", "secret": f"{HEADER}-signs"}
            said += [(await client.put("/v1/channels/ops", json=hook)).text.replace(hook["secret"], "")]
            bob = {"kind": "webhook", "url": f"https://bob:{URL}@hooks.example/"}
            said += [(await client.put("/v1/channels/bob", json=bob)).text, (await client.get("/v1/channels")).text]
            said += await _refusals(world, client)
            monkeypatch.setattr(Secrets, "put", crash)
            broken = await client.put("/v1/secrets/pw", json={"value": SECRET})
            assert broken.status_code == 500
            late = await _half_a_body(world, client.headers["authorization"].removeprefix("Bearer "))
            assert late.startswith("HTTP/1.1 408")
            said += [broken.text, late, (await client.get("/metrics")).text]
            audit = [repr(entry) for entry in entries(world)]
            (job,) = (await client.get("/v1/jobs")).json()["jobs"]
            spans = [(await client.get(f"/v1/jobs/{job['id']}/trace", params={"format": "otlp"})).text]
            stored = (await world.store.range("/")).kvs
            assert [kv.key for kv in stored if seen(kv.value, SECRET, HEADER, QUERY, URL)] == []
    logged = [str(JSONRenderer()(None, "", redact(None, "", event))) for event in events]
    assert any("http.internal" in line for line in logged)
    assert "resourceSpans" in spans[0]
    assert audit
    for what in (*said, *logged, *spans, *audit):
        assert seen(what, *ALL) == [], what


def test_logs_hold_no_credential_that_is_handed_to_them() -> None:
    """N26: by type, by name, and by what they look like."""
    event: dict[str, Any] = {
        "event": f"got Bearer {HEADER}{'x' * 16} from https://bob:{URL}@hooks.example/x?sig={QUERY}",
        "value": Secret(SECRET.encode()),
        "nested": {"Authorization": HEADER, "deep": [Secret(SECRET.encode()), f"ares_0a1b2c3d4e_{HEADER}{'x' * 30}"]},
        "password": SECRET,
        "store": f"etcd://root:{URL}@10.0.0.1:2379",
        "jwt": f"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.{HEADER}",
    }
    said = repr(redact(None, "info", event))
    assert seen(said, *ALL) == []
    assert "ares_0a1b2c3d4e_***" in said
    assert "hooks.example/x?***" in said


def files(folder: Path) -> dict[str, bytes]:
    found = dict[str, bytes]()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def processes() -> bytes:
    """The arguments of all processes, and the environment of those of ours that are no jobs."""
    said = b""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        said += arguments if b"ARES_JOB_ID=" in environment else arguments + environment
    return said


@pytest.mark.slow
def test_nothing_is_left_of_them_after_jobs_failures_and_kills(tmp_path: Path) -> None:
    """N26, N27: real processes; a job prints its secret, one fails, agent and server are killed, and all bytes that
    any of them left are looked at: logs, the store with its journal, audit, state directories, memory files."""
    with Platform(tmp_path) as platform:
        server, agent = platform.server(), platform.agent("n1")
        assert platform.cli("secret", "set", "pw", text=f"{SECRET}\n").code == 0
        client = platform.client()
        client.set_secret("key", f"{SECRET}-line-one\n{SECRET}-line-two\n")
        given = ["pw", "key:file=key.pem"]
        script = 'echo "pw=$PW"; cat $ARES_SECRETS_DIR/key.pem; printf "%s" "$PW" > $ARES_OUTPUT_DIR/digest.tmp;'
        script += "sha256sum < $ARES_OUTPUT_DIR/digest.tmp; rm $ARES_OUTPUT_DIR/digest.tmp;"
        script += 'printf \'{"got": "%s"}\' "$PW" > $ARES_RESULT_FILE'
        good = client.submit(command=["sh", "-c", script], secrets=given, env={"PLAIN": ENV})
        assert client.wait(good).result.value == {"got": "***"}  # type: ignore[union-attr]
        log = platform.cli("logs", good.id).out
        digest = hashlib.sha256(SECRET.encode()).hexdigest()
        assert log.splitlines() == ["pw=***", "***", f"{digest}  -"]

        listed = platform.cli("secret", "list", "-o", "json").json()
        assert [one["name"] for one in listed["secrets"]] == ["key", "pw"]  # type: ignore[index]
        assert client.send(rotate_key()).rewrapped == 2
        bad = client.submit(command=["sh", "-c", 'echo "$PW" >&2; exit 3'], secrets=given, retries=0)
        assert client.wait(bad).state.phase == "FAILED"
        fifo = tmp_path / "wait"
        os.mkfifo(fifo)
        long = client.submit(
            command=["sh", "-c", f'echo "$PW"; [ $ARES_ATTEMPT = 2 ] || read line < {fifo}'], secrets=given
        )
        eventually(lambda: client.get(long).state.phase == "RUNNING", "the start of the job")
        assert seen(processes(), SECRET) == []
        agent.kill()
        server.kill()
        platform.server()
        platform.agent("n1")
        client = platform.client()
        assert client.wait(long).state.phase == "SUCCEEDED"
        with pytest.raises(Exception, match="credential"):
            platform.client(token=f"ares_{HEADER}_{HEADER}").secrets()
        assert platform.cli("secret", "delete", "key").code == 0
        left = files(tmp_path)
        shown = {name for name, data in left.items() if seen(data, SECRET, HEADER)}
        assert shown == set()
        assert any(name.endswith("store.db") for name in left)
        # What is in a job's own specification is in the store, and only there.
        assert {name for name, data in left.items() if seen(data, ENV)} <= {
            f"server-0/store.db{end}" for end in ("", "-wal")
        }
    assert [
        path for path in Path("/dev/shm").glob("ares-*/*") if path.name.startswith((good.id, bad.id, long.id))
    ] == []


def test_the_canary_would_be_seen() -> None:
    """What the other tests look with."""
    assert seen(f"x{SECRET}y", SECRET) == [SECRET]
    assert seen(base64.b64encode(SECRET.encode()), SECRET) == [SECRET]
    assert str(sys.executable).encode() in processes()
