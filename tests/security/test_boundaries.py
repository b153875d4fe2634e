"""Between tenants, and between a request and what it may name."""

import asyncio
import base64
import json
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import websockets

from tests.integration.api.world import JOB, MISSING, World

RESERVATION = {"name": "demo", "asked": {"gpus": 0, "cpuMilli": 1000}, "startsInS": 0, "lastsS": 3600}


async def submitted(world: World, tenant: str, **spec: Any) -> str:
    async with world.client(tenant=tenant) as client:
        answer = await client.post("/v1/jobs", json={"spec": {**JOB, **spec}})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]


async def exactly(world: World, path: str, token: str) -> tuple[int, bytes]:
    """A GET of just these bytes: client libraries tidy paths up."""
    where = urlsplit(world.server.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    answer = await reader.read()
    writer.close()
    status, _, body = answer.partition(b"\r\n")
    return int(status.split()[1]), body


async def test_lists_have_only_ones_own_rows_whatever_is_asked(world: World) -> None:
    """N12: filters, orders and prefixes of another tenant's jobs, waiting, ended and cancelled ones."""
    theirs = await submitted(world, "other", name="canary-job", labels={"team": "canary"})
    ended = await world.finish_job(await world.start_job(await submitted(world, "other"), "other"))
    mine = await submitted(world, "acme", labels={"team": "canary"})
    async with world.client("viewer", "acme") as client:
        for query in (
            "", "?sort=submitted", "?name=canary-job", "?label=team=canary", "?phase=SUCCEEDED", "?phase=PENDING",
            "?node=n1", "?limit=1000", f"?array={theirs}", "?arrays=whole",
        ):  # fmt: skip
            answer = await client.get(f"/v1/jobs{query}")
            assert answer.status_code == 200, query
            assert {job["id"] for job in answer.json()["jobs"]} <= {mine}, query
        for job in (theirs, ended.id):
            assert (await client.get(f"/v1/jobs/resolve?prefix={job[:6]}")).json()["ids"] == []
        for path in (
            "/v1/prio",
            "/v1/leases",
            "/v1/usage?by=tenant",
            "/v1/cost?by=tenant",
            "/v1/cost/budgets",
            "/v1/cost/focus",
            "/v1/sla",
            "/v1/nodepools",
            "/v1/predictions",
        ):
            answer = await client.get(path)
            assert answer.status_code == 200, path
            assert theirs not in answer.text, path
            assert "canary-job" not in answer.text, path


async def test_a_cursor_is_worth_nothing_to_another_tenant_nor_when_it_is_changed(world: World) -> None:
    """N12: every single bit of it counts."""
    for _ in range(3):
        await submitted(world, "other")
    async with world.client("viewer", "other") as owner, world.client("viewer", "acme") as thief:
        cursor = (await owner.get("/v1/jobs?limit=1")).json()["cursor"]
        assert (await owner.get("/v1/jobs", params={"cursor": cursor})).status_code == 200
        assert (await thief.get("/v1/jobs", params={"cursor": cursor})).json()["code"] == "bad-cursor"
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        for place in range(0, len(raw) * 8, 5):
            bent = bytearray(raw)
            bent[place // 8] ^= 1 << (place % 8)
            text = base64.urlsafe_b64encode(bent).decode().rstrip("=")
            answer = await owner.get("/v1/jobs", params={"cursor": text})
            assert (answer.status_code, answer.json()["code"]) == (400, "bad-cursor"), place


async def test_streams_of_other_tenants_do_not_exist(world: World) -> None:
    """N15: refused before the upgrade, the same as for no job at all."""
    job = await submitted(world, "other")
    token = await world.token("viewer", "acme")
    bodies = set[bytes]()
    for named in (job, MISSING):
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
            await websockets.connect(
                world.server.url.replace("http", "ws") + f"/v1/jobs/{named}/logs",
                additional_headers={"authorization": f"Bearer {token}"},
                proxy=None,
            )
        assert refused.value.response.status_code == 404
        bodies.add(bytes(refused.value.response.body or b""))
    assert len(bodies) == 1


@pytest.mark.parametrize(
    "name",
    [
        "../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%252e%252e%252fetc", "..\\..\\etc", "/etc/passwd",
        "//etc/passwd", "a%00.txt", "x" * 5000, "․․/etc", "．．/etc", "%c0%ae%c0%ae/etc", ".", "..", "a/./b", "a//b",
        "%2e%2e", "~root", "file:///etc/passwd", "con", "a\u202etxt",
    ],
)  # fmt: skip
async def test_names_of_files_lead_nowhere(world: World, name: str) -> None:
    """N17: outputs, and log streams by names that are none."""
    job = (await world.finish_job(await world.start_job(await submitted(world, "acme")))).id
    written = quote(name, safe="%/.\\:~")
    token = await world.token("viewer")
    for path in (f"/v1/jobs/{job}/outputs/{written}", f"/v1/jobs/{written}/logs", f"/v1/jobs/{written}"):
        status, body = await exactly(world, path, token)
        # "." and ".." name nothing here: the list of outputs is what a path without a name gives.
        assert status in (400, 404, 414), (path, status)
        assert b"root:" not in body
    async with world.client("viewer") as client:
        answer = await client.get(f"/v1/jobs/{job}/logs", params={"stream": name, "follow": "false"})
        assert answer.status_code in (400, 404, 422), answer.status_code


@pytest.mark.parametrize(
    "text", ["{{ 7*7 }}", "${HOME}", "$(id)", "{0.__class__}", "%(name)s", "%s%n", "#{7*7}", "<% 7*7 %>", "{tenant}"]
)
async def test_templates_are_text(world: World, text: str) -> None:
    """N20: what people write comes back as they wrote it, in specifications, labels, reasons and problems."""
    async with world.client("submitter") as client:
        made = await client.post("/v1/jobs", json={"spec": {**JOB, "command": ["echo", text], "env": {"X": text}}})
        seen = (await client.get(f"/v1/jobs/{made.json()['id']}")).json()
        assert (seen["spec"]["command"], seen["spec"]["env"]) == (["echo", text], {"X": text})
        ended = await client.post(f"/v1/jobs/{made.json()['id']}/cancel", json={"reason": text})
        assert text in ended.json()["reason"]
        refused = await client.post("/v1/jobs", json={"spec": {**JOB, "sla": "x", "labels": {"a": text}}})
        assert refused.status_code == 422
        assert "49" not in refused.text


@pytest.mark.parametrize(
    "field",
    [
        "hostPath", "hostNetwork", "privileged", "uid", "user", "securityContext", "devices", "volumes", "mounts",
        "capabilities", "podSpecPatch", "patch", "override", "template", "nodeName", "tenant", "submittedBy",
        "fence", "phase", "state", "__proto__", "constructor",
    ],
)  # fmt: skip
async def test_no_field_is_smuggled_in(world: World, field: str) -> None:
    """N21: at every level of a submission, alone, in a batch, and in what only looks."""
    value = {"privileged": True, "hostPath": "/"}
    smuggled = (
        {"spec": JOB, field: value},
        {"spec": {**JOB, field: value}},
        {"spec": {**JOB, "resources": {"gpus": 0, f"x-{field}": value}}},
        {"spec": {**JOB, "retry": {"limit": 1, field: value}}},
        {"spec": {**JOB, "gang": {"ranks": 2, field: value}}},
        {"spec": {**JOB, "image": {"ref": "python:3.12", field: value}}},
        {"spec": {**JOB, "python": {"path": "/opt/env", field: value}}},
    )
    async with world.client("submitter") as client:
        for body in smuggled:
            for path in ("/v1/jobs", "/v1/plan", "/v1/predictions"):
                answer = await client.post(path, json=body)
                assert (answer.status_code, answer.json()["code"]) == (422, "unknown-field"), (path, body)
            batch = (await client.post("/v1/jobs/batch", json={"jobs": [body]})).json()
            assert batch["results"][0]["error"]["code"] == "unknown-field", body
        assert (await client.get("/v1/jobs")).json()["jobs"] == []


async def test_references_do_not_reach_into_other_tenants(world: World) -> None:
    """N48: reservations, affinities and arrays of another tenant are none."""
    theirs = await submitted(world, "other", labels={"app": "canary"})
    async with world.client("admin", "other") as admin:
        booked = await admin.post("/v1/reservations", json=RESERVATION)
        assert booked.status_code in (201, 409, 422), booked.text
    async with world.client("submitter", "acme") as client:
        named = await client.post("/v1/jobs", json={"spec": {**JOB, "reservation": "demo"}})
        unknown = await client.post("/v1/jobs", json={"spec": {**JOB, "reservation": "nothing"}})
        assert named.json()["code"] == unknown.json()["code"] == "reservation-unknown"
        assert named.text.replace("demo", "X") == unknown.text.replace("nothing", "X")
        near = {**JOB, "jobAffinity": [{"labels": {"app": "canary"}, "level": "node"}]}
        made = await client.post("/v1/jobs", json={"spec": near})
        assert made.status_code == 201
        shown = json.dumps((await client.get(f"/v1/jobs/{made.json()['id']}/explain")).json())
        assert theirs not in shown
        for verb in ("cancel", "retry"):
            assert (await client.post(f"/v1/jobs/{theirs}_0/{verb}")).status_code == 404
            assert (await client.post(f"/v1/jobs/{theirs}/{verb}")).status_code == 404
    async with world.client("viewer", "other") as owner:
        assert (await owner.get(f"/v1/jobs/{theirs}")).json()["state"]["phase"] == "PENDING"
