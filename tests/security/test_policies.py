"""Policies cannot be got around, nor used against others."""

from typing import Any

from ares.control.governance.policies import POLICIES_MAX
from tests.integration.api.world import JOB, World
from tests.security.audited import last_entry

NO_BIG = {"when": "job.gpus > 4", "action": "reject", "message": "ask first"}
NO_SUDO = {"when": "job.command.exists(word, word == 'sudo')", "action": "reject", "message": "no sudo"}


DISGUISES: tuple[dict[str, Any], ...] = (
    {"resources": {"gpus": 8}},
    {"resources": {"gpus": 1}, "gang": {"ranks": 8}},
    {"resources": {"gpus": 1}, "gang": {"ranks": 8, "minRanks": 1}},
    {"alternatives": [{"gpus": 8}]},
    {"resources": {"gpus": 1}, "alternatives": [{"gpus": 1}, {"gpus": 2}, {"gpus": 5, "gpuMilli": 500}]},
    {"resources": {"gpus": 8}, "array": "0-3"},
    {"resources": {"gpus": 8, "gpuMilli": 1}},
    {"command": ["sudo", "id"]},
    {"command": ["env", "sudo"]},
    {"command": ["x"] * 4000 + ["sudo"]},
)
STRANGE: tuple[dict[str, Any], ...] = (
    {"spec": {**JOB, "Resources": {"gpus": 8}}},
    {"spec": {**JOB, "resources": {"gpus": 0, "GPUs": 8}}},
    {"spec": {**JOB, "override": {"resources": {"gpus": 8}}}},
    {"spec": {**JOB, "policies": []}},
    {"spec": JOB, "skipPolicies": True},
    {"spec": {**JOB, "gang": {"ranks": 1, "patch": {"ranks": 8}}}},
)


async def test_a_refused_job_is_refused_in_every_disguise_and_by_every_way_in(world: World) -> None:
    """N21: alternatives, gangs, arrays and shares; submitted, in a batch, and planned."""
    async with world.client("tenant-admin") as admin, world.client() as client:
        for name, policy in (("big", NO_BIG), ("sudo", NO_SUDO)):
            assert (await admin.put(f"/v1/policies/{name}", json=policy)).status_code == 200
        for spec in DISGUISES:
            body = {"spec": {**JOB, **spec}}
            for path in ("/v1/jobs", "/v1/plan"):
                refused = await client.post(path, json=body)
                assert (refused.status_code, refused.json()["code"]) == (422, "policy-rejected"), (path, spec)
            batch = (await client.post("/v1/jobs/batch", json={"jobs": [{"spec": JOB}, body]})).json()
            fine, smuggled = batch["results"]
            assert fine["error"] is None
            assert smuggled["error"]["code"] == "policy-rejected", spec
        assert len((await client.get("/v1/jobs")).json()["jobs"]) == len(DISGUISES)


async def test_fields_nobody_knows_are_refused_before_any_policy_looks(world: World) -> None:
    """N21: nothing is smuggled past a rule that reads only what it knows."""
    async with world.client() as client:
        for body in STRANGE:
            refused = await client.post("/v1/jobs", json=body)
            assert (refused.status_code, refused.json()["code"]) == (422, "unknown-field"), body


async def test_a_job_that_was_taken_before_a_rule_is_judged_when_it_is_run_again(world: World) -> None:
    """N21: retry makes a new job, and new jobs are judged."""
    async with world.client("tenant-admin") as admin, world.client() as client:
        job = (
            await client.post("/v1/jobs", json={"spec": {**JOB, "resources": {"gpus": 8}, "restart": "never"}})
        ).json()
        await world.finish_job(await world.start_job(job["id"]), code=1)
        assert (await admin.put("/v1/policies/big", json=NO_BIG)).status_code == 200
        refused = await client.post(f"/v1/jobs/{job['id']}/retry", json={})
        assert (refused.status_code, refused.json()["code"]) == (422, "policy-rejected"), refused.text
        denied = await last_entry(world)
        assert (denied.operation, denied.outcome, denied.reason) == ("retryJob", "DENY", "policy:big")


async def test_only_those_who_run_the_platform_write_its_policies_and_tenants_cannot_lift_them(world: World) -> None:
    """N13, N14: a policy of `acme` is none of `acme-prod`; the platform's is everybody's."""
    async with world.client("tenant-admin") as admin, world.client("operator") as operator, world.client() as client:
        denied = await admin.put("/v1/policies/big?platform=true", json=NO_BIG)
        assert (denied.status_code, denied.json()["code"]) == (403, "forbidden")
        for path in ("/v1/policies/dry-run?platform=true",):
            assert (await admin.post(path, json=NO_BIG)).status_code == 403
        assert (await operator.put("/v1/policies/big?platform=true", json=NO_BIG)).status_code == 200
        for method, path in (
            ("DELETE", "/v1/policies/big?platform=true"),
            ("POST", "/v1/policies/big/disable?platform=true"),
        ):
            assert (await admin.request(method, path)).status_code == 403, path
        # Its own of the same name is another policy, and lifts nothing.
        assert (await admin.put("/v1/policies/big", json={**NO_BIG, "when": "false"})).status_code == 200
        assert (await client.post("/v1/jobs", json={"spec": {**JOB, "resources": {"gpus": 8}}})).status_code == 422
        assert (await admin.delete("/v1/policies/big")).status_code == 204
        assert [one["tenant"] for one in (await admin.get("/v1/policies")).json()["policies"]] == [""]
    async with world.client("tenant-admin", "acme-prod") as other, world.client("tenant-admin") as admin:
        assert (await admin.put("/v1/policies/own", json=NO_SUDO)).status_code == 200
        assert (await other.get("/v1/policies/own")).status_code == 404
        assert [one["name"] for one in (await other.get("/v1/policies")).json()["policies"]] == ["big"]
    for role in ("viewer", "submitter", "auditor"):
        async with world.client(role) as nobody:
            assert (await nobody.put("/v1/policies/p", json=NO_BIG)).status_code == 403, role


async def test_policies_are_bounded_in_number_and_size(world: World) -> None:
    async with world.client("tenant-admin") as admin:
        long = {**NO_BIG, "when": "true || " * 300 + "true"}
        assert (await admin.put("/v1/policies/p", json=long)).json()["code"] == "invalid"
        for number in range(POLICIES_MAX):
            assert (await admin.put(f"/v1/policies/p{number}", json=NO_BIG)).status_code == 200
        full = await admin.put("/v1/policies/one-more", json=NO_BIG)
        assert (full.status_code, full.json()["code"]) == (409, "policies-full")
        assert (await admin.put("/v1/policies/p0", json={**NO_BIG, "note": "still"})).status_code == 200


async def test_what_a_policy_says_is_shown_as_it_stands(world: World) -> None:
    """N20: messages are text; nothing in them is filled in."""
    message = "{{7*7}} ${job.gpus} %s {job} $(id)"
    async with world.client("tenant-admin") as admin, world.client() as client:
        await admin.put("/v1/policies/p", json={"when": "true", "action": "reject", "message": message})
        assert message in (await client.post("/v1/jobs", json={"spec": JOB})).json()["detail"]
        bad = {"when": "true", "action": "reject", "message": "two\nlines"}
        assert (await admin.put("/v1/policies/p", json=bad)).status_code == 422


async def test_a_default_gives_nobody_more_than_they_may_have(world: World) -> None:
    """N40: a tenant's own policy lifts no ceiling of the tenant, and changes neither program nor resources."""
    async with world.client("operator") as operator, world.client("tenant-admin") as admin, world.client() as client:
        assert (await operator.patch("/v1/tenants/acme/quota", json={"priority": "NORMAL"})).status_code == 200
        up = {"when": "true", "action": "set", "set": {"priority": "'CRITICAL'"}}
        assert (await admin.put("/v1/policies/up", json=up)).status_code == 200
        refused = await client.post("/v1/jobs", json={"spec": JOB})
        assert (refused.status_code, refused.json()["code"]) == (403, "priority-ceiling")
        for field in (
            "command",
            "env.PATH",
            "resources.gpus",
            "gang.ranks",
            "secrets",
            "workdir",
            "project",
            "reservation",
            "array",
        ):
            body = {"when": "true", "action": "set", "set": {field: "'x'"}}
            assert (await admin.put("/v1/policies/more", json=body)).json()["code"] == "policy-invalid", field
