"""Workflows over HTTP and by the client, and what hostile ones get."""

import json
from typing import Any

import pytest

from tests.integration.api.world import World

JOB: dict[str, Any] = {"command": ["true"]}
FLOW: dict[str, Any] = {
    "name": "nightly",
    "jobs": {
        "prep": JOB,
        "train": {**JOB, "needs": [{"job": "prep"}]},
        "clean": {**JOB, "finally": True},
    },
}


async def test_a_workflow_from_submission_to_its_end(world: World) -> None:
    async with world.client() as client:
        made = await client.post("/v1/flows", json=FLOW, headers={"idempotency-key": "f1"})
        assert (made.status_code, made.json()["jobs"], made.json()["replayed"]) == (201, 3, False)
        ids, flow = made.json()["ids"], made.json()["id"]
        again = await client.post("/v1/flows", json={**FLOW, "requestId": "f1"})
        assert (again.status_code, again.json()["replayed"], again.json()["ids"]) == (200, True, ids)
        turned = {**FLOW, "jobs": dict(reversed(FLOW["jobs"].items())), "requestId": "f1"}
        assert (await client.post("/v1/flows", json=turned)).json()["ids"] == ids
        seen = (await client.get(f"/v1/flows/{flow}")).json()
        assert {job["name"]: [edge["job"] for edge in job["needs"]] for job in seen["jobs"]} == {
            "prep": [], "train": ["prep"], "clean": [],
        }  # fmt: skip
        waiting = (await client.get(f"/v1/jobs/{ids['clean']}")).json()["waiting"]
        assert (waiting["code"], waiting["numbers"]) == ("WAITING_FOR_FLOW", {"open": 2})
        cancelled = (await client.post(f"/v1/flows/{flow}/cancel")).json()
        phases = {job["name"]: job["phase"] for job in cancelled["jobs"]}
        assert (phases["prep"], phases["train"]) == ("CANCELLED", "CANCELLED")
        assert phases["clean"] in ("WAITING", "PENDING")
        again = await client.post(f"/v1/flows/{flow}/retry", json={"jobs": ["train"]})
        assert again.status_code == 409


async def test_other_tenants_and_viewers_see_and_steer_nothing(world: World) -> None:
    async with world.client() as mine, world.client(tenant="acme-prod") as other, world.client("viewer") as viewer:
        flow = (await mine.post("/v1/flows", json=FLOW)).json()["id"]
        assert (await other.get(f"/v1/flows/{flow}")).status_code == 404
        assert (await other.post(f"/v1/flows/{flow}/cancel")).status_code == 404
        assert (await other.post(f"/v1/flows/{flow}/retry")).status_code == 404
        assert (await viewer.get(f"/v1/flows/{flow}")).status_code == 200
        assert (await viewer.post(f"/v1/flows/{flow}/cancel")).status_code == 403
        assert (await viewer.post("/v1/flows", json=FLOW)).status_code == 403


async def test_one_bad_job_refuses_all_and_is_named(world: World) -> None:
    async with world.client() as client:
        bad = {"jobs": {"good": JOB, "bad": {**JOB, "comand": ["x"]}}}
        no = await client.post("/v1/flows", json=bad)
        assert (no.status_code, no.json()["code"], no.json()["path"]) == (422, "unknown-field", "$.jobs.bad")
        circle = {"jobs": {"a": {**JOB, "needs": [{"job": "b"}]}, "b": {**JOB, "needs": [{"job": "a"}]}}}
        no = await client.post("/v1/flows", json=circle)
        assert (no.status_code, no.json()["code"]) == (422, "flow-cycle")
        assert "a -> b -> a" in no.json()["detail"]
        assert (await client.get("/v1/jobs")).json()["jobs"] == []


def _many(count: int, **last: Any) -> dict[str, Any]:
    jobs: dict[str, Any] = {f"j{number}": {"command": ["true"]} for number in range(count - 1)}
    return {"jobs": {**jobs, "last": {"command": ["true"], **last}}}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (_many(10_001), 422, "invalid"),
        (_many(3, needs=[{"job": f"j{number}"} for number in range(10_000)]), 422, "invalid"),
        (_many(3, needs=[{"of": [{"job": f"x{number}"} for number in range(60)]}]), 422, "needs-too-many"),
        ({"jobs": {}}, 422, "invalid"),
        ({"jobs": {"a b": JOB}}, 422, "invalid"),
        ({"jobs": {"a": JOB}, "more": 1}, 422, "invalid"),
        ({"jobs": {"a": {**JOB, "labels": {"x": "y"}, "env": {"A": "b:c:d"}}}, "name": "a:b"}, 201, None),
    ],
)
async def test_hostile_workflows_are_refused(world: World, body: Any, status: int, code: str | None) -> None:
    async with world.client() as client:
        answer = await client.post("/v1/flows", json=body)
        assert (answer.status_code, answer.json().get("code")) == (status, code)


async def test_names_that_collide_and_deep_nesting_are_refused(world: World) -> None:
    async with world.client() as client:
        job = json.dumps(JOB)
        twice = f'{{"jobs": {{"a": {job}, "a": {job}}}}}'
        no = await client.post("/v1/flows", content=twice, headers={"content-type": "application/json"})
        assert (no.status_code, no.json()["code"]) == (400, "duplicate-key")
        deep = '{"jobs": {"a": ' + '{"needs": [' * 40 + "]}" * 40 + "}}"
        no = await client.post("/v1/flows", content=deep, headers={"content-type": "application/json"})
        assert (no.status_code, no.json()["code"]) == (400, "too-deep")


async def test_a_workflow_that_refers_to_another_tenants_job_is_refused(world: World) -> None:
    async with world.client() as mine, world.client(tenant="acme-prod") as other:
        theirs = (await other.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        answers: set[str] = set()
        for name in (theirs, "0123456789abcdef"):
            no = await mine.post("/v1/flows", json=_many(2000, needs=[{"job": name}]))
            assert no.status_code == 422
            answers.add(no.text.replace(name, "X"))
        assert len(answers) == 1
        assert (await mine.get("/v1/jobs")).json()["jobs"] == []
