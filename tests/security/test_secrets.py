"""Secrets at the API: written by those who may, shown to nobody, quoted nowhere."""

import json
from typing import Any

from ares.model.access import Role
from tests.integration.api.world import JOB, World
from tests.security.audited import entries

CANARY = "c4n4ry-hunter2"
AS_JSON = {"content-type": "application/json"}
ROLES: tuple[tuple[Role, int, int], ...] = (
    ("viewer", 403, 403), ("auditor", 403, 403), ("operator", 403, 403), ("submitter", 200, 403),
    ("tenant-admin", 200, 200), ("admin", 200, 200),
)  # fmt: skip


async def put(world: World, name: str = "pw", role: Role = "submitter", tenant: str = "acme", **body: Any) -> Any:
    async with world.client(role, tenant) as client:
        return await client.put(f"/v1/secrets/{name}", json=body or {"value": CANARY})


async def test_no_answer_has_the_value(world: World) -> None:
    """N26: of any route that touches it, nor of the record's own fields."""
    answers = [await put(world), await put(world, role="tenant-admin", base64="YzRuNHJ5LWh1bnRlcjI=")]
    async with world.client("admin") as client:
        job = await client.post("/v1/jobs", json={"spec": {**JOB, "secrets": [{"name": "pw", "env": "PW"}]}})
        answers += [
            job, await client.get("/v1/secrets"), await client.get(f"/v1/jobs/{job.json()['id']}"),
            await client.get("/v1/jobs"), await client.get(f"/v1/jobs/{job.json()['id']}/events"),
            await client.get("/metrics"), await client.post("/v1/secret-keys"),
        ]  # fmt: skip
        assert [answer.status_code for answer in answers] == [200, 200, 201, *[200] * 6], [a.text for a in answers]
        (shown,) = answers[3].json()["secrets"]
        assert shown.keys() <= {
            "name", "version", "size", "createdAt", "createdBy", "updatedAt", "updatedBy", "keyId", "readable",
        }  # fmt: skip
        assert (await client.get("/v1/secrets/pw")).status_code == 405
        assert (await client.delete("/v1/secrets/pw")).status_code == 204
    for answer in answers:
        assert "c4n4ry" not in answer.text
        assert "YzRuNHJ5" not in answer.text


MISTAKES = (
    json.dumps({"value": {CANARY: CANARY}}),
    json.dumps({"value": [CANARY]}),
    json.dumps({"value": CANARY, "base64": CANARY}),
    json.dumps({"base64": f"{CANARY}!"}),
    json.dumps({"value": CANARY, "expectedVersion": CANARY}),
    json.dumps({"value": CANARY, "expectedVersion": -1}),
    json.dumps({"value": CANARY, "valeu": CANARY}),
    json.dumps({"value": CANARY * 10_000}),
    json.dumps({"value": ""}),
    json.dumps(CANARY),
    f'{{"value": "{CANARY}", "value": "{CANARY}"}}',
    f'{{"value": "{CANARY}"',
    f'{{"value": "{CANARY}\\ud800"}}',
    CANARY,
)


async def test_a_mistake_is_told_without_quoting_the_value(world: World) -> None:
    """N26: whatever is wrong with the body."""
    async with world.client() as client:
        for content in MISTAKES:
            answer = await client.put("/v1/secrets/pw", content=content.encode(), headers=AS_JSON)
            assert answer.status_code in (400, 422), content
            assert "c4n4ry" not in answer.text, content
    assert len(entries(world)) == len(MISTAKES)
    assert not any("c4n4ry" in repr(entry) for entry in entries(world))


async def test_roles(world: World) -> None:
    """N11: who may see names, and who may change what."""
    assert (await put(world)).status_code == 200
    for role, listed, changed in ROLES:
        async with world.client(role) as client:
            assert (await client.get("/v1/secrets")).status_code == listed, role
            answer = await client.put("/v1/secrets/pw", json={"value": "other-value"})
            assert answer.status_code == changed, role
            assert (await client.post("/v1/secret-keys")).status_code == (200 if role == "admin" else 403), role


async def test_other_tenants_have_their_own(world: World) -> None:
    """N10: the same name is another secret; a missing one and a foreign one are the same answer."""
    assert (await put(world)).status_code == 200
    async with world.client("tenant-admin", "other") as client:
        assert (await client.get("/v1/secrets")).json() == {"secrets": []}
        foreign, missing = await client.delete("/v1/secrets/pw"), await client.delete("/v1/secrets/none")
        assert foreign.status_code == missing.status_code == 404
        assert foreign.text.replace("pw", "none") == missing.text
        job = await client.post("/v1/jobs", json={"spec": {**JOB, "secrets": [{"name": "pw", "env": "PW"}]}})
        assert (job.status_code, job.json()["code"]) == (422, "secret-unknown")
        assert (await client.put("/v1/secrets/pw", json={"value": "mine"})).json()["version"] == 1
    async with world.client() as client:
        assert [one["version"] for one in (await client.get("/v1/secrets")).json()["secrets"]] == [1]


async def test_a_stated_version_must_hold(world: World) -> None:
    assert (await put(world, value="one", expectedVersion=0)).json()["version"] == 1
    again = await put(world, value="two", expectedVersion=0)
    assert (again.status_code, again.json()["code"]) == (403, "forbidden")
    async with world.client("tenant-admin") as client:
        lost = await client.put("/v1/secrets/pw", json={"value": "two", "expectedVersion": 0})
        assert (lost.status_code, lost.json()["code"]) == (409, "secret-conflict")
        assert (await client.put("/v1/secrets/pw", json={"value": "two", "expectedVersion": 1})).json()["version"] == 2


async def test_names_that_are_none(world: World) -> None:
    """N17: a name is never a path."""
    async with world.client() as client:
        for name in ("..", "a%2Fb", "a%00", "-x", "a%0Ab", "x" * 129, "%C3%BC"):
            answer = await client.put(f"/v1/secrets/{name}", json={"value": CANARY})
            assert answer.status_code in (404, 405), name
    assert not world.view.kept.secrets
