"""Jobs that wait for a person, a time or other jobs, over HTTP."""

import time

import pytest

from tests.integration.api.world import JOB, World


async def test_a_held_job_waits_until_it_is_released(world: World) -> None:
    async with world.client() as client:
        job = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        held = await client.post(f"/v1/jobs/{job}/hold", json={"reason": "wait for the data"})
        assert (held.status_code, held.json()["phase"]) == (200, "WAITING")
        seen = (await client.get(f"/v1/jobs/{job}")).json()
        assert (seen["waiting"]["code"], seen["waiting"]["remedy"]) == ("HELD", "yours")
        assert "wait for the data" in seen["waiting"]["message"]
        assert [one["id"] for one in (await client.get("/v1/jobs", params={"phase": "WAITING"})).json()["jobs"]] == [
            job
        ]
        again = await client.post(f"/v1/jobs/{job}/hold")
        assert (again.status_code, again.json()["code"]) == (409, "not-allowed")
        free = await client.post(f"/v1/jobs/{job}/release")
        assert (free.status_code, free.json()["phase"]) == (200, "PENDING")
        kinds = [event["kind"] for event in (await client.get(f"/v1/jobs/{job}/events")).json()["events"]]
        assert kinds == ["submitted", "held", "unheld"]


async def test_a_running_job_is_refused_with_the_right_way(world: World) -> None:
    async with world.client() as client:
        job = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        await world.start_job(job)
        no = await client.post(f"/v1/jobs/{job}/hold")
        assert (no.status_code, no.json()["code"]) == (409, "not-allowed")
        assert f"ares cancel {job}" in no.json()["fix"]


@pytest.mark.parametrize("verb", ["hold", "release"])
async def test_other_tenants_and_viewers_steer_nothing(world: World, verb: str) -> None:
    async with world.client() as mine, world.client(tenant="acme-prod") as other, world.client("viewer") as viewer:
        job = (await mine.post("/v1/jobs", json={"spec": {**JOB, "held": True}})).json()["id"]
        assert (await other.post(f"/v1/jobs/{job}/{verb}")).status_code == 404
        assert (await viewer.post(f"/v1/jobs/{job}/{verb}")).status_code == 403


async def test_needs_and_times_are_told_and_bad_ones_refused(world: World) -> None:
    async with world.client() as client, world.client(tenant="acme-prod") as other:
        parent = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        theirs = (await other.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        child = (await client.post("/v1/jobs", json={"spec": {**JOB, "needs": [{"job": parent}]}})).json()["id"]
        waiting = (await client.get(f"/v1/jobs/{child}")).json()["waiting"]
        assert (waiting["code"], waiting["numbers"]) == ("WAITING_FOR_JOB", {"met": 0, "wanted": 1})
        assert f"job {parent} to succeed" in waiting["message"]
        later = {**JOB, "beginAt": time.time() + 3600}
        early = (await client.post("/v1/jobs", json={"spec": later})).json()["id"]
        assert (await client.get(f"/v1/jobs/{early}")).json()["waiting"]["code"] == "BEGIN_AT"
        for needs, code in (
            ([{"job": theirs}], "need-unknown"),
            ([{"job": "nosuchjob"}], "need-unknown"),
            ([{"job": parent, "atStep": 5}], "need-invalid"),
            ([{"data": "s3://bucket/x"}], "need-invalid"),
            ([{"job": f"j{number}"} for number in range(51)], "needs-too-many"),
            ([{"job": f"j{number}"} for number in range(10_000)], "invalid"),
            ([{"job": "../x"}], "invalid"),
        ):
            no = await client.post("/v1/jobs", json={"spec": {**JOB, "needs": needs}})
            assert (no.status_code, no.json()["code"]) == (422, code)
