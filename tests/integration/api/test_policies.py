"""Policies over HTTP: saved or refused with a position, applied, tried, taken back."""

from typing import Any

import httpx2

from tests.integration.api.world import JOB, World

REJECT = {"when": "job.gpus > 4", "action": "reject", "message": "ask the operators first"}


async def put(client: httpx2.AsyncClient, name: str, body: dict[str, Any], query: str = "") -> dict[str, Any]:
    answer = await client.put(f"/v1/policies/{name}{query}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def job(**resources: Any) -> dict[str, Any]:
    return {"spec": {**JOB, "resources": resources}}


async def test_a_policy_is_in_force_at_once_and_says_its_name_message_and_values(world: World) -> None:
    async with world.client("tenant-admin") as admin, world.client() as client:
        saved = await put(admin, "no-big-jobs", REJECT)
        assert (saved["version"], saved["tenant"], saved["by"].split()[0]) == (1, "acme", "tenant-admin")
        refused = await client.post("/v1/jobs", json=job(gpus=8))
        assert refused.status_code == 422
        said = refused.json()
        assert said["code"] == "policy-rejected"
        assert said["detail"] == "policy no-big-jobs of tenant acme: ask the operators first (job.gpus = 8)"
        assert (await client.post("/v1/jobs", json=job(gpus=4))).status_code == 201
        async with world.client(tenant="other") as other:
            assert (await other.post("/v1/jobs", json=job(gpus=8))).status_code == 201


async def test_what_cannot_be_judged_cannot_be_saved_and_the_place_is_named(world: World) -> None:
    async with world.client("tenant-admin") as admin:
        refused = await admin.put("/v1/policies/p", json={**REJECT, "when": "tenant.gpu_hours <\n  tenant.quota"})
        assert refused.status_code == 422
        said = refused.json()
        assert (said["code"], said["path"]) == ("policy-invalid", "$.when")
        assert "when, line 2, column 3: there is no tenant.quota; did you mean" in said["detail"]
        for body in (
            {**REJECT, "message": " "},
            {**REJECT, "set": {"priority": "'LOW'"}},
            {"when": "true", "action": "set"},
            {"when": "true", "action": "set", "set": {"command": "'id'"}},
            {"when": "true", "action": "set", "set": {"resources.gpus": "8"}},
            {"when": "true", "action": "set", "set": {"timeLimitS": "3600"}},
            {"when": "true", "action": "set", "set": {"labels.": "'x'"}},
        ):
            assert (await admin.put("/v1/policies/p", json=body)).json()["code"] == "policy-invalid", body
        assert (await admin.put("/v1/policies/check", json=REJECT)).status_code in (405, 422)
        assert (await admin.get("/v1/policies")).json()["policies"] == []
        checked = (await admin.post("/v1/policies/check", json={**REJECT, "when": "job.gpus > 4.0"})).json()
        assert (checked["ok"], checked["mistakes"][0]["column"]) == (False, 10)
        assert {"name": "job.gpus", "type": "int", "about": "of all ranks of one task"} in checked["names"]


async def test_defaults_fill_what_was_left_out_and_a_repeat_is_still_the_same_job(world: World) -> None:
    sets = {"timeLimitS": "3600.0", "labels.cost-centre": "tenant.name", "retry.limit": "1", "priority": "'LOW'"}
    async with world.client("tenant-admin") as admin, world.client() as client:
        body = {**job(), "requestId": "once"}
        before = (await client.post("/v1/jobs", json=body)).json()["id"]
        await put(admin, "defaults", {"when": "true", "action": "set", "set": sets})
        again = await client.post("/v1/jobs", json=body)
        assert (again.status_code, again.json()["id"]) == (200, before)
        bare = (await client.post("/v1/jobs", json=job())).json()["id"]
        spec = (await client.get(f"/v1/jobs/{bare}")).json()["spec"]
        assert (spec["timeLimitS"], spec["priority"], spec["retry"]["limit"]) == (3600.0, "LOW", 1)
        assert spec["labels"] == {"cost-centre": "acme"}
        said = {"timeLimitS": 60, "priority": "HIGH", "labels": {"cost-centre": "mine"}, "retry": {"limit": 7}}
        own = (await client.post("/v1/jobs", json={"spec": {**JOB, **said}})).json()["id"]
        spec = (await client.get(f"/v1/jobs/{own}")).json()["spec"]
        assert (spec["timeLimitS"], spec["priority"], spec["retry"]["limit"]) == (60.0, "HIGH", 7)
        assert spec["labels"] == {"cost-centre": "mine"}


async def test_a_default_the_job_cannot_have_refuses_it_and_says_whose_fault_it_is(world: World) -> None:
    async with world.client("tenant-admin") as admin, world.client() as client:
        await put(admin, "odd", {"when": "true", "action": "set", "set": {"priority": "job.name"}})
        refused = (await client.post("/v1/jobs", json=job())).json()
        assert refused["code"] == "policy-rejected"
        assert refused["detail"].startswith("policy odd could not be evaluated: priority: Invalid enum value 'train'")


async def test_defaults_come_before_refusals_whatever_the_names_are(world: World) -> None:
    async with world.client("tenant-admin") as admin, world.client() as client:
        await put(admin, "a-needs-limit", {**REJECT, "when": "job.time_limit_s == 0.0"})
        assert (await client.post("/v1/jobs", json=job())).status_code == 422
        await put(admin, "z-limit", {"when": "true", "action": "set", "set": {"timeLimitS": "60.0"}})
        assert (await client.post("/v1/jobs", json=job())).status_code == 201


async def test_warnings_come_with_the_answer_of_jobs_batches_and_plans(world: World) -> None:
    async with world.client("tenant-admin") as admin, world.client() as client:
        await put(
            admin, "owner", {"when": "!has(job.labels.owner)", "action": "warn", "message": "say {{whose}} it is"}
        )
        wanted = {"code": "policy", "message": "policy owner: say {{whose}} it is", "remedy": ""}
        assert wanted in (await client.post("/v1/jobs", json=job())).json()["warnings"]
        batch = (await client.post("/v1/jobs/batch", json={"jobs": [job(), job()]})).json()
        assert all(wanted in one["warnings"] for one in batch["results"])
        assert (await client.post("/v1/plan", json=job())).json()["warnings"] == [wanted["message"]]


async def test_a_rule_without_an_answer_refuses_and_says_so(world: World) -> None:
    async with world.client("tenant-admin") as admin, world.client() as client:
        for action in ("reject", "warn", "alert"):
            await put(admin, "p", {"when": "job.labels['owner'] == 'x'", "action": action, "message": "m"})
            refused = (await client.post("/v1/jobs", json=job())).json()
            assert refused["code"] == "policy-rejected", action
            assert refused["detail"] == 'policy p could not be evaluated: Key not found in map : "owner"'


async def test_versions_are_kept_switched_and_brought_back(world: World) -> None:
    async with world.client("tenant-admin") as admin, world.client() as client:
        await put(admin, "p", REJECT)
        assert (await put(admin, "p", REJECT))["version"] == 1
        await put(admin, "p", {**REJECT, "when": "job.gpus > 100", "note": "looser", "expectedVersion": 1})
        lost = await admin.put("/v1/policies/p", json={**REJECT, "expectedVersion": 1})
        assert (lost.status_code, lost.json()["code"]) == (409, "policy-conflict")
        assert (await client.post("/v1/jobs", json=job(gpus=8))).status_code == 201
        back = (await admin.post("/v1/policies/p/revert", json={"version": 1})).json()
        assert (back["version"], back["when"], back["note"]) == (3, "job.gpus > 4", "version 1 again")
        assert (await client.post("/v1/jobs", json=job(gpus=8))).status_code == 422
        off = (await admin.post("/v1/policies/p/disable", json={"note": "for the demo"})).json()
        assert (off["version"], off["enabled"]) == (4, False)
        assert (await client.post("/v1/jobs", json=job(gpus=8))).status_code == 201
        kept = (await admin.get("/v1/policies/p/versions")).json()["policies"]
        assert [one["version"] for one in kept] == [4, 3, 2, 1]
        assert (await admin.post("/v1/policies/p/revert", json={"version": 9})).status_code == 404
        assert (await admin.delete("/v1/policies/p")).status_code == 204
        assert (await admin.delete("/v1/policies/p")).status_code == 404
        assert (await admin.get("/v1/policies/p")).status_code == 404


async def test_a_dry_run_counts_recent_jobs_and_changes_nothing(world: World) -> None:
    async with world.client("tenant-admin") as admin, world.client() as client:
        big = [(await client.post("/v1/jobs", json=job(gpus=8))).json()["id"] for _ in range(3)]
        array = (await client.post("/v1/jobs", json={"spec": {**JOB, "array": "0-4", "resources": {"gpus": 8}}})).json()
        for _ in range(2):
            await client.post("/v1/jobs", json=job())
        ended = await world.finish_job(await world.start_job(big[0]))
        tried = (await admin.post("/v1/policies/dry-run", json=REJECT)).json()
        assert tried["text"] == "would have rejected 4 of 6 jobs"
        assert set(tried["jobs"]) == {*big, array["id"], ended.id}
        broken = {**REJECT, "when": "job.labels['owner'] == 'x'"}
        tried = (await admin.post("/v1/policies/dry-run", json=broken)).json()
        assert (tried["matched"], tried["failed"]) == (0, 6)
        sets = {"when": "job.gpus == 0", "action": "set", "set": {"timeLimitS": "60.0"}}
        assert (await admin.post("/v1/policies/dry-run", json=sets)).json()["matched"] == 2
        assert (await admin.post("/v1/policies/dry-run?limit=2", json=REJECT)).json()["lookedAt"] == 2
        assert (await admin.get("/v1/policies")).json()["policies"] == []
        assert (await client.post("/v1/jobs", json=job(gpus=8))).status_code == 201


async def test_a_rule_may_ask_what_its_tenant_uses(world: World) -> None:
    async with world.client("tenant-admin") as admin, world.client() as client:
        await put(admin, "queue", {**REJECT, "when": "tenant.jobs >= 2.0", "message": "two at a time"})
        answers = [(await client.post("/v1/jobs", json=job())).status_code for _ in range(3)]
        assert answers == [201, 201, 422]
