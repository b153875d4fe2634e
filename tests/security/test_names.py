"""Who somebody is goes by what they are and whose, never by what they are called: tokens named like users,
administrators named like a tenant's users, ids that somebody else used first."""

from typing import Any

import pytest

from tests.integration.api.world import JOB, World
from tests.security.test_identity import user

LIKE_ADA: dict[str, str] = {"role": "submitter", "name": "ada"}


async def named_ada(world: World, tenant: str = "acme") -> str:
    """A token that is nobody's and is called like a user."""
    async with world.client("tenant-admin", tenant) as admin:
        made = await admin.post("/v1/tokens", json=LIKE_ADA)
        assert made.status_code == 201, made.text
        return made.json()["token"]


async def test_a_token_called_like_a_user_does_not_pass_for_them_in_a_policy(world: World) -> None:
    """A rule that lets one user do something lets nobody do it who calls a token so."""
    ada = await user(world, "ada")
    rule = {"when": "job.priority == 'CRITICAL' && user.name != 'ada'", "action": "reject", "message": "only ada"}
    async with world.client("tenant-admin") as admin:
        assert (await admin.put("/v1/policies/critical", json=rule)).status_code == 200
    body = {"spec": {**JOB, "priority": "CRITICAL"}}
    async with world.client_with(ada) as client:
        assert (await client.post("/v1/jobs", json=body)).status_code == 201
    async with world.client_with(await named_ada(world)) as client:
        answer = await client.post("/v1/jobs", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "policy-rejected")


SECRETLY: tuple[dict[str, Any], ...] = (
    {"env": {"LD_PRELOAD": "/x.so"}},
    {"secrets": [{"name": "harmless", "env": "LD_PRELOAD"}]},
)


@pytest.mark.parametrize("how", SECRETLY)
async def test_a_variable_that_a_secret_fills_is_a_variable(world: World, how: dict[str, Any]) -> None:
    rule = {"when": "job.env_keys.exists(key, key == 'LD_PRELOAD')", "action": "reject", "message": "no preloading"}
    async with world.client("tenant-admin") as admin:
        assert (await admin.put("/v1/policies/preload", json=rule)).status_code == 200
        assert (await admin.put("/v1/secrets/harmless", json={"value": "/tmp/evil.so"})).status_code in (200, 201)
        for path in ("/v1/jobs", "/v1/plan"):
            answer = await admin.post(path, json={"spec": {**JOB, **how}})
            assert (answer.status_code, answer.json()["code"]) == (422, "policy-rejected"), answer.text


async def test_an_administrator_is_not_the_user_of_a_tenant_who_is_called_the_same(world: World) -> None:
    """What somebody from another tenant makes here is not the namesake's to end, nor the other way round."""
    ada, root = await user(world, "ada"), await user(world, "ada", "admin", tenant="ops")
    inside = {"x-ares-tenant": "acme"}
    async with world.client_with(ada) as client, world.client_with(root) as admin:
        theirs = (await admin.post("/v1/jobs", json={"spec": JOB}, headers=inside)).json()
        assert world.view.entries[theirs["id"]].state.submitted_by == "ops:ada"
        no = await client.delete(f"/v1/jobs/{theirs['id']}")
        assert (no.status_code, no.json()["code"]) == (403, "forbidden")
        retried = await client.post(f"/v1/jobs/{theirs['id']}/retry", json={})
        assert retried.status_code == 403
        made = await admin.put("/v1/secrets/shared", json={"value": "of the administrator"}, headers=inside)
        assert made.status_code in (200, 201), made.text
        for answer in (
            await client.put("/v1/secrets/shared", json={"value": "of ada"}),
            await client.delete("/v1/secrets/shared"),
        ):
            assert answer.status_code == 403, answer.text
        # And the user's own tokens are not the administrator's.
        for method, body in (("GET", None), ("POST", {"name": "x"})):
            own = await admin.request(method, "/v1/me/tokens", json=body, headers=inside)
            assert own.status_code == 403, own.text


async def test_a_retry_is_ones_own_whatever_request_ids_others_used(world: World) -> None:
    """An id that could be foreseen was taken by somebody else, and the retry became their job, or a conflict."""
    ada, eve = await user(world, "ada"), await user(world, "eve")
    spec = {**JOB, "retry": {"limit": 0}}
    async with world.client_with(ada) as client, world.client_with(eve) as other:
        job = (await client.post("/v1/jobs", json={"spec": spec})).json()["id"]
        squatted = {
            (await other.post("/v1/jobs", json={"spec": what, "requestId": f"retry:{job}:{n}"})).json()["id"]
            for n, what in ((1, spec), (2, JOB))
        }
        await world.finish_job(await world.start_job(job), code=1)
        for _ in range(2):
            answer = await client.post(f"/v1/jobs/{job}/retry", json={})
            assert answer.status_code == 200, answer.text
            again = answer.json()["id"]
            assert again not in squatted
            assert world.view.entries[again].state.submitted_by == "ada"


async def test_records_say_who_changed_them_and_not_what_the_token_is_called(world: World) -> None:
    async with world.client("admin", "ops") as admin:
        made = await admin.post("/v1/tokens", json={"role": "operator", "name": "ada", "tenant": "ops"})
        assert made.status_code == 201, made.text
    await world.services.tenants.ensure({"acme"})
    async with world.client_with(made.json()["token"]) as operator:
        answer = await operator.patch("/v1/tenants/acme/quota", json={"amounts": {"jobs": {"hard": 5}}})
        assert answer.status_code == 200, answer.text
        assert answer.json()["by"] == f"ada ({made.json()['token'].split('_')[1]})"


async def test_a_user_who_gets_a_name_again_does_not_get_what_its_last_owner_made(world: World) -> None:
    ada = await user(world, "ada")
    async with world.client_with(ada) as client:
        ids = [
            (await client.post("/v1/jobs", json={"spec": {**JOB, **more}})).json()["id"]
            for more in ({}, {"array": "0-1"})
        ]
        assert (await client.put("/v1/secrets/hers", json={"value": "of the first"})).status_code in (200, 201)
    async with world.client("tenant-admin") as admin:
        assert (await admin.delete("/v1/users/ada")).status_code in (200, 204)
    again = await user(world, "ada")
    async with world.client_with(again) as client:
        denied = [await client.delete(f"/v1/jobs/{job}") for job in ids]
        denied += [await client.post(f"/v1/jobs/{ids[0]}/retry", json={}), await client.delete("/v1/secrets/hers")]
        assert [answer.status_code for answer in denied] == [403] * 4, [answer.text for answer in denied]
        # What she makes herself is hers.
        own = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        assert (await client.delete(f"/v1/jobs/{own}")).status_code == 200
    async with world.client("tenant-admin") as admin:
        assert [(await admin.delete(f"/v1/jobs/{job}")).status_code for job in ids] == [200, 200]
