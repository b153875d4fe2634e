"""Submitting, reading and steering jobs over HTTP."""

import asyncio

import pytest

from ares.model.job import PRIORITIES
from tests.integration.api.world import JOB, MISSING, World


async def test_a_job_from_submission_to_result(world: World) -> None:
    async with world.client() as client:
        made = await client.post("/v1/jobs", json={"spec": JOB})
        assert made.status_code == 201
        job = made.json()["id"]
        assert made.json() == {
            "id": job,
            "replayed": False,
            "tasks": 1,
            "links": {"self": f"/v1/jobs/{job}", "events": f"/v1/jobs/{job}/events", "logs": f"/v1/jobs/{job}/logs"},
            "warnings": [{"code": "NO_NODES", "message": "no node is registered", "remedy": "operator"}],
            "deadline": None,
        }
        assert made.headers["location"] == f"/v1/jobs/{job}"
        waiting = (await client.get(f"/v1/jobs/{job}")).json()
        assert waiting["state"]["phase"] == "PENDING"
        assert waiting["spec"]["command"] == JOB["command"]
        await world.finish_job(await world.start_job(job), value={"loss": 0.5})
        done = (await client.get(f"/api/v1/jobs/{job}")).json()
        assert done["state"]["phase"] == "SUCCEEDED"
        assert done["result"]["value"] == {"loss": 0.5}
        ledger = (await client.get(f"/v1/jobs/{job}/events")).json()["events"]
        assert [event["kind"] for event in ledger] == ["submitted", "bound", "started", "succeeded"]


async def test_values_are_written_out_whole(world: World) -> None:
    """Readers that do not know our defaults see them."""
    async with world.client() as client:
        job = (await client.post("/v1/jobs", json={"spec": {"command": ["true"]}})).json()["id"]
        detail = (await client.get(f"/v1/jobs/{job}")).json()
        assert detail["spec"]["resources"] == {
            "cpuMilli": 1000, "memoryMib": 256, "gpus": 0, "gpuModel": None, "gpuMilli": 1000, "gpuMemoryMib": 0,
            "devices": {},
        }  # fmt: skip
        assert detail["state"]["fence"] == {"epoch": 1, "counter": 0}
        assert detail["result"] is None


@pytest.mark.parametrize("header", [True, False])
async def test_the_same_request_gives_the_same_job(world: World, header: bool) -> None:
    headers = {"idempotency-key": "abc"} if header else {}
    body = {"spec": JOB} if header else {"spec": JOB, "requestId": "abc"}
    async with world.client() as client:
        first = await client.post("/v1/jobs", json=body, headers=headers)
        again = await client.post("/v1/jobs", json=body, headers=headers)
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json() == {**first.json(), "replayed": True}
        other = await client.post("/v1/jobs", json={**body, "spec": {"command": ["false"]}}, headers=headers)
        assert other.status_code == 409
        assert other.json()["code"] == "request-conflict"
        assert first.json()["id"] not in other.text
        assert len((await client.get("/v1/jobs")).json()["jobs"]) == 1


async def test_request_ids_in_header_and_body_must_agree(world: World) -> None:
    async with world.client() as client:
        body = {"spec": JOB, "requestId": "one"}
        same = await client.post("/v1/jobs", json=body, headers={"idempotency-key": "one"})
        assert same.status_code == 201
        differ = await client.post("/v1/jobs", json=body, headers={"idempotency-key": "two"})
        assert (differ.status_code, differ.json()["code"]) == (400, "request-id-mismatch")
        bad = await client.post("/v1/jobs", json={"spec": JOB}, headers={"idempotency-key": "a b"})
        assert (bad.status_code, bad.json()["path"]) == (422, "header.Idempotency-Key")


async def test_request_ids_are_each_tenants_own(world: World) -> None:
    async with world.client(tenant="acme") as acme, world.client(tenant="acme-prod") as other:
        body = {"spec": JOB, "requestId": "shared"}
        one, two = await acme.post("/v1/jobs", json=body), await other.post("/v1/jobs", json=body)
        assert (one.status_code, two.status_code) == (201, 201)
        assert one.json()["id"] != two.json()["id"]


async def test_fields_beside_the_specification_fill_it(world: World) -> None:
    async with world.client() as client:
        beside = {"priority": "HIGH", "expectedRuntime": 60, "estimateCores": 2.5, "tenantId": "acme"}
        job = (await client.post("/v1/jobs", json={"spec": JOB, **beside})).json()["id"]
        spec = (await client.get(f"/v1/jobs/{job}")).json()["spec"]
        assert (spec["priority"], spec["expectedRuntimeS"], spec["resources"]["cpuMilli"]) == ("HIGH", 60, 2500)
        said = {**JOB, "priority": "NORMAL", "expectedRuntimeS": 5, "resources": {"cpuMilli": 1000}}
        job = (await client.post("/v1/jobs", json={"spec": said, **beside})).json()["id"]
        spec = (await client.get(f"/v1/jobs/{job}")).json()["spec"]
        assert (spec["priority"], spec["expectedRuntimeS"], spec["resources"]["cpuMilli"]) == ("NORMAL", 5, 1000)


async def test_the_whole_body_of_the_requirement_is_taken_recorded_and_shown(world: World) -> None:
    """`{tenantId, spec, inputRefs, priority, estimateCores, expectedRuntime, costEstimate}`, as the design has it."""
    refs = ["s3://datasets/imagenet/train", "imagenet@v3", f"sha256:{'a' * 64}"]
    body = {
        "tenantId": "acme", "spec": JOB, "inputRefs": refs, "priority": 1, "estimateCores": 4, "expectedRuntime": 1800,
        "costEstimate": 12.5,
    }  # fmt: skip
    async with world.client() as client:
        made = await client.post("/v1/jobs", json={**body, "requestId": "whole"})
        assert made.status_code == 201, made.text
        spec = (await client.get(f"/v1/jobs/{made.json()['id']}")).json()["spec"]
        assert (spec["priority"], spec["expectedRuntimeS"], spec["resources"]["cpuMilli"]) == ("HIGH", 1800, 4000)
        assert (spec["inputRefs"], spec["claimedCost"]) == (refs, 12.5)
        # What was sent along is of the payload: another claim under the same id is another request.
        again = await client.post("/v1/jobs", json={**body, "requestId": "whole"})
        other = await client.post("/v1/jobs", json={**body, "requestId": "whole", "costEstimate": 0.5})
        assert (again.status_code, other.status_code) == (200, 409)
        batch = await client.post("/v1/jobs/batch", json={"jobs": [body, {**body, "priority": 5}]})
        assert [one["error"] is None for one in batch.json()["results"]] == [True, False]
        for number, name in enumerate(PRIORITIES):
            job = (await client.post("/v1/jobs", json={"spec": JOB, "priority": number})).json()["id"]
            assert (await client.get(f"/v1/jobs/{job}")).json()["spec"]["priority"] == name
        foreign = await client.post("/v1/jobs", json={**body, "tenantId": "other"})
        assert (foreign.status_code, foreign.json()["code"]) == (403, "tenant-mismatch")
        plan = await client.post("/v1/plan", json=body)
        assert plan.status_code == 200, plan.text


async def test_the_callers_trace_goes_on(world: World) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with world.client() as client:
        made = await client.post("/v1/jobs", json={"spec": JOB}, headers={"traceparent": parent})
        detail = (await client.get(f"/v1/jobs/{made.json()['id']}")).json()
        assert detail["state"]["trace"] == parent


async def test_a_batch_has_an_outcome_for_each_job(world: World) -> None:
    async with world.client() as client:
        await client.post("/v1/jobs", json={"spec": JOB, "requestId": "seen"})
        jobs = [
            {"spec": JOB},
            {"spec": JOB, "requestId": "seen"},
            {"spec": {"command": []}},
            {"spec": JOB, "surprise": 1},
            {"spec": {"command": ["x"]}, "requestId": "seen"},
            {"spec": JOB, "tenantId": "other"},
            {"spec": {**JOB, "array": "0-4"}},
            7,
        ]
        answer = await client.post("/v1/jobs/batch", json={"jobs": jobs})
        assert answer.status_code == 200
        body = answer.json()
        assert (body["created"], body["replayed"], body["rejected"]) == (2, 1, 5)
        codes = [None if r["error"] is None else r["error"]["code"] for r in body["results"]]
        conflict, mismatch = "request-conflict", "tenant-mismatch"
        assert codes == [None, None, "command-empty", "unknown-field", conflict, mismatch, None, "invalid"]
        assert body["results"][2]["error"]["path"] == "$.jobs[2].spec.command"
        assert body["results"][6]["tasks"] == 5


async def test_a_batch_is_bounded(world: World) -> None:
    async with world.client() as client:
        empty = await client.post("/v1/jobs/batch", json={"jobs": []})
        assert (empty.status_code, empty.json()["path"]) == (422, "$.jobs")
        many = await client.post("/v1/jobs/batch", json={"jobs": [0] * 10_001})
        assert (many.status_code, many.json()["path"]) == (422, "$.jobs")
        keyed = await client.post("/v1/jobs/batch", json={"jobs": [{"spec": JOB}]}, headers={"idempotency-key": "x"})
        assert keyed.status_code == 400
        big = {"jobs": [{"spec": {"command": ["x" * 100_000]}}] * 12}
        assert (await client.post("/v1/jobs/batch", json=big)).status_code == 200
        assert (await client.post("/v1/jobs/batch", content=b" " * (16 * 1024 * 1024 + 1))).status_code == 413


async def test_lists_are_filtered_sorted_and_paged(world: World) -> None:
    async with world.client() as client:
        ids: list[str] = []
        for n in range(7):
            spec = {**JOB, "name": f"job{n % 2}", "labels": {"n": str(n), "all": "yes"}}
            ids.append((await client.post("/v1/jobs", json={"spec": spec})).json()["id"])
        await world.start_job(ids[0])

        async def listed(query: str) -> list[str]:
            return [job["id"] for job in (await client.get(f"/v1/jobs?{query}")).json()["jobs"]]

        assert await listed("") == ids[::-1]
        assert await listed("sort=submitted") == ids
        assert await listed("phase=RUNNING") == ids[:1]
        assert await listed("phase=RUNNING&phase=PENDING&sort=submitted") == ids
        assert await listed("phase=RUNNING,PENDING&sort=submitted") == ids
        assert await listed("name=job1&sort=submitted") == ids[1::2]
        assert await listed("label=n%3D3&label=all%3Dyes") == [ids[3]]
        assert await listed("node=n1") == [ids[0]]
        pages: list[str] = []
        cursor = ""
        for _ in range(4):
            page = (await client.get("/v1/jobs", params={"limit": 2, "cursor": cursor, "sort": "submitted"})).json()
            pages += [job["id"] for job in page["jobs"]]
            cursor = page["cursor"]
        assert (pages, cursor) == (ids, "")


async def test_cursors_are_bound_to_the_tenant_and_cannot_be_made_up(world: World) -> None:
    async with world.client(tenant="acme") as client, world.client(tenant="evil") as thief:
        for who in (client, thief):
            for _ in range(3):
                await who.post("/v1/jobs", json={"spec": JOB})
        cursor = (await client.get("/v1/jobs?limit=1")).json()["cursor"]
        assert cursor
        stolen = await thief.get("/v1/jobs", params={"cursor": cursor})
        assert (stolen.status_code, stolen.json()["code"]) == (400, "bad-cursor")
        for bad in ("x", "AAAA", cursor[:-2], cursor[:-1] + ("A" if cursor[-1] != "A" else "B"), "é", "%"):
            answer = await client.get("/v1/jobs", params={"cursor": bad})
            assert (answer.status_code, answer.json()["code"]) == (400, "bad-cursor"), bad


async def test_resolving_short_ids(world: World) -> None:
    async with world.client() as client, world.client(tenant="other") as other:
        job = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        assert (await client.get("/v1/jobs/resolve", params={"prefix": job[:8]})).json() == {"ids": [job]}
        assert (await other.get("/v1/jobs/resolve", params={"prefix": job[:8]})).json() == {"ids": []}
        assert (await client.get("/v1/jobs/resolve")).status_code == 422


@pytest.mark.parametrize("way", ["delete", "post", "post-without-body"])
async def test_cancel_is_final(world: World, way: str) -> None:
    async with world.client() as client:
        job = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        if way == "delete":
            answer = await client.delete(f"/v1/jobs/{job}", params={"reason": "no need"})
        elif way == "post":
            answer = await client.post(f"/v1/jobs/{job}/cancel", json={"reason": "no need"})
        else:
            answer = await client.post(f"/v1/jobs/{job}/cancel")
        assert (answer.status_code, answer.json()["phase"]) == (200, "CANCELLED")
        assert (await client.get(f"/v1/jobs/{job}")).json()["state"]["phase"] == "CANCELLED"


async def test_a_finished_job_cannot_be_cancelled(world: World) -> None:
    async with world.client() as client:
        job = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        await world.finish_job(await world.start_job(job))
        answer = await client.delete(f"/v1/jobs/{job}")
        assert (answer.status_code, answer.json()["code"]) == (409, "job-finished")


async def test_retry_makes_a_new_job_until_the_budget_is_spent(world: World) -> None:
    async with world.client() as client:
        spec = {**JOB, "restart": "never"}
        job = (await client.post("/v1/jobs", json={"spec": spec})).json()["id"]
        early = await client.post(f"/v1/jobs/{job}/retry")
        assert (early.status_code, early.json()["code"]) == (409, "not-allowed")
        await world.finish_job(await world.start_job(job), code=1)
        again = await client.post(f"/v1/jobs/{job}/retry", json={"reason": "fixed"})
        assert again.status_code == 200
        assert again.json()["id"] != job
        assert again.json()["retryOf"] == job
        answers = [await client.post(f"/v1/jobs/{job}/retry") for _ in range(20)]
        assert (answers[-1].status_code, answers[-1].json()["code"]) == (409, "retry-budget-exhausted")


@pytest.mark.parametrize("way", ["delete", "post"])
async def test_a_repeated_cancel_is_no_error(world: World, way: str) -> None:
    async with world.client() as client:
        for spec in (JOB, {**JOB, "array": "0-2"}):
            job = (await client.post("/v1/jobs", json={"spec": spec})).json()["id"]
            path = f"/v1/jobs/{job}"
            first, second = [
                await (client.delete(path) if way == "delete" else client.post(f"{path}/cancel")) for _ in range(2)
            ]
            assert (first.status_code, second.status_code) == (200, 200), second.text
            assert second.json()["phase"] == "CANCELLED"
            assert first.json()["seq"] == second.json()["seq"]


async def test_a_retry_with_a_request_id_is_one_retry(world: World) -> None:
    async with world.client() as client:
        job = (await client.post("/v1/jobs", json={"spec": {**JOB, "restart": "never"}})).json()["id"]
        await world.finish_job(await world.start_job(job), code=1)
        path, keyed = f"/v1/jobs/{job}/retry", {"idempotency-key": "once"}
        answers = await asyncio.gather(*(client.post(path, headers=keyed) for _ in range(8)))
        assert {one.status_code for one in answers} == {200}, [one.text for one in answers]
        (made,) = {one.json()["id"] for one in answers}
        # Another id is another retry; and it can be retried itself, by its own id only.
        other = await client.post(path, headers={"idempotency-key": "twice"})
        assert (other.status_code, other.json()["manualRetries"]) == (200, 2)
        await world.finish_job(await world.start_job(made), code=1)
        taken = await client.post(f"/v1/jobs/{made}/retry", headers=keyed)
        assert (taken.status_code, taken.json()["code"]) == (409, "request-conflict")
        assert (await client.post(path, headers=keyed)).json()["id"] == made
        bad = await client.post(path, headers={"idempotency-key": "a b"})
        assert (bad.status_code, bad.json()["path"]) == (422, "header.Idempotency-Key")
        # Nobody can have taken the id under which it was made.
        squat = await client.post("/v1/jobs", json={"spec": JOB, "requestId": f"retry {job} 3"})
        assert squat.status_code == 422
        assert len((await client.get("/v1/jobs")).json()["jobs"]) == 3


async def test_a_waiting_job_is_hurried_once_for_a_request(world: World) -> None:
    async with world.client() as client:
        spec = {**JOB, "retry": {"limit": 3, "baseS": 3600, "maxS": 3600}}
        job = (await client.post("/v1/jobs", json={"spec": spec})).json()["id"]
        path, keyed = f"/v1/jobs/{job}/retry", {"idempotency-key": "now"}
        early = [await client.post(path, headers=keyed) for _ in range(2)]
        assert [one.json().get("code") for one in early] == ["not-allowed"] * 2
        await world.finish_job(await world.start_job(job), code=1)
        first, second = [await client.post(path, headers=keyed) for _ in range(2)]
        assert (first.status_code, second.status_code) == (200, 200), second.text
        assert (first.json()["phase"], second.json()["phase"]) == ("PENDING", "PENDING")
        await world.finish_job(await world.start_job(job), code=1)
        late = await client.post(path, headers=keyed)
        assert (late.status_code, late.json()["phase"], late.json()["id"]) == (200, "RETRYING", job)
        again = await client.post(path, headers={"idempotency-key": "again"})
        assert (again.status_code, again.json()["phase"]) == (200, "PENDING")


async def test_other_tenants_jobs_answer_like_missing_ones(world: World) -> None:
    """Byte for byte, whatever is asked."""
    async with world.client(tenant="acme") as owner, world.client(tenant="acme-prod") as other:
        job = (await owner.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        array = (await owner.post("/v1/jobs", json={"spec": {**JOB, "array": "0-1"}})).json()["id"]
        asks = [
            ("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("POST", "/retry"), ("GET", "/events"), ("GET", "/logs"),
            ("GET", "/logs?follow=true&tail=5"),
        ]  # fmt: skip
        for method, path in asks:
            missing = await other.request(method, f"/v1/jobs/{MISSING}{path}")
            assert missing.status_code == 404
            for hidden in (job, array, f"{array}_0", "no-such-form", "x" * 5000):
                answer = await other.request(method, f"/v1/jobs/{hidden}{path}")
                assert answer.content == missing.content, (method, path, hidden)
                assert {k: v for k, v in answer.headers.items() if k != "date"} == {
                    k: v for k, v in missing.headers.items() if k != "date"
                }
        assert (await other.get("/v1/jobs")).json()["jobs"] == []
        assert (await other.get(f"/v1/leases?job={job}")).json()["leases"] == []
        assert (await owner.get(f"/v1/jobs/{job}")).json()["state"]["phase"] == "PENDING"


@pytest.mark.parametrize("name", ["../x", "..%2f..%2fetc", "%252e%252e", "a%00b", "a%0ab", "\\..\\", "ａｂｃ"])
async def test_odd_ids_name_nothing(world: World, name: str) -> None:
    async with world.client() as client:
        for path in (f"/v1/jobs/{name}", f"/v1/jobs/{name}/logs"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


async def test_user_text_stays_data(world: World) -> None:
    async with world.client() as client:
        spec = {"command": ["$(id)", "; rm -rf /", "{{x}}", "%s\n\x1b[31m"], "labels": {"a": "${HOME} {0}"}}
        job = (await client.post("/v1/jobs", json={"spec": spec})).json()["id"]
        kept = (await client.get(f"/v1/jobs/{job}")).json()["spec"]
        assert (kept["command"], kept["labels"]) == (spec["command"], spec["labels"])


async def test_a_list_by_user_and_by_time(world: World) -> None:
    async with world.client() as client:
        first = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        own = (await client.get("/v1/jobs")).json()["jobs"][0]["submittedBy"]

        async def ids(**filters: str) -> list[str]:
            answer = await client.get("/v1/jobs", params=filters)
            assert answer.status_code == 200, answer.text
            return [job["id"] for job in answer.json()["jobs"]]

        assert await ids(user=own) == [first]
        assert await ids(user="nobody-else") == []
        # The index of users is kept from now on: a later job is in it.
        second = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        assert await ids(user=own) == [second, first]
        assert await ids(user=own, sort="submitted", limit="1") == [first]
        at = (await client.get(f"/v1/jobs/{second}")).json()["state"]["submittedAt"]
        assert await ids(since=str(at + 1)) == []
        assert await ids(until=str(at - 1e6)) == []
        assert await ids(since=str(at - 1e6), until=str(at + 1)) == [second, first]
        assert await ids(since=str(at - 1e6), sort="submitted") == [first, second]
        bad = await client.get("/v1/jobs", params={"since": "-1"})
        assert bad.status_code == 422
    async with world.client(tenant="other") as other:
        assert (await other.get("/v1/jobs", params={"user": own})).json()["jobs"] == []


async def test_a_page_looks_at_a_bounded_number_of_jobs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is rare among many takes several pages, so that others have their turn between."""
    monkeypatch.setattr("ares.control.queries.job_list._LOOKED_MAX", 1)
    monkeypatch.setattr("ares.control.queries.job_list.LOOKED_AT", 1)
    async with world.client() as client:
        ids = [(await client.post("/v1/jobs", json={"spec": JOB})).json()["id"] for _ in range(3)]
        await client.post(f"/v1/jobs/{ids[0]}/cancel")
        found: list[list[str]] = []
        cursor = ""
        while True:
            page = (await client.get("/v1/jobs", params={"phase": "CANCELLED", "cursor": cursor})).json()
            found.append([job["id"] for job in page["jobs"]])
            if not (cursor := page["cursor"]):
                break
        assert found == [[], [], [ids[0]], []]
