"""Quotas and budgets against people who want more: through real HTTP, and through two real servers on one store."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ares.core.lifecycle.handlers import MANUAL_RETRIES_MAX
from ares.core.lifecycle.inputs import Exit
from ares.model.link import AttemptRef
from ares.model.profile import Pool, Profile
from ares.model.state import ExitInfo, OutputFile
from tests.integration.api.world import JOB, ROOT, World
from tests.platform import Platform
from tests.security.audited import entries


def wants(**resources: Any) -> dict[str, Any]:
    return {"spec": {**JOB, "resources": resources}}


async def limit(world: World, tenant: str = "acme", **amounts: float) -> None:
    await world.services.tenants.ensure({tenant})
    async with world.client("operator", "ops") as operator:
        body = {"amounts": {name.replace("_", "-"): {"hard": most} for name, most in amounts.items()}, "threshold": 1.0}
        answer = await operator.patch(f"/v1/tenants/{tenant}/quota", json=body)
        assert answer.status_code == 200, answer.text


async def test_a_refusal_has_the_numbers_of_every_level_and_says_when_to_come_again(world: World) -> None:
    """N38: and the audit has an entry for each."""
    await limit(world, cpu=3)
    async with world.client() as client:
        answers = await asyncio.gather(*(client.post("/v1/jobs", json=wants(cpuMilli=1000)) for _ in range(8)))
        assert sorted(one.status_code for one in answers) == [201] * 3 + [429] * 5, [one.text for one in answers]
        no = next(one for one in answers if one.status_code == 429)
        problem = no.json()
        assert problem["code"] == "quota-exceeded"
        assert int(no.headers["retry-after"]) >= 1
        tenant, user = problem["quota"]
        assert tenant == {
            "level": "tenant", "name": "", "measure": "cpu", "asked": 1.0, "used": 3.0, "limit": 3.0, "soft": None,
            "free": 0.0, "exceeded": True,
        }  # fmt: skip
        assert (user["level"], user["used"], user["limit"]) == ("user", 3.0, None)
        batch = await client.post("/v1/jobs/batch", json={"jobs": [wants(cpuMilli=1000)]})
        assert batch.json()["results"][0]["error"]["quota"][0]["limit"] == 3.0
    denied = [one for one in entries(world) if one.reason == "quota" and one.outcome == "DENY"]
    assert len(denied) >= 5


_NO_AMOUNTS: list[dict[str, Any]] = [
    {"spec": {**JOB, "resources": {"cpuMilli": -1}}},
    {"spec": {**JOB, "resources": {"cpuMilli": 0}}},
    {"spec": {**JOB, "resources": {"cpuMilli": 1.5}}},
    {"spec": {**JOB, "resources": {"gpus": 0.5}}},
    {"spec": {**JOB, "resources": {"gpus": -1}}},
    {"spec": {**JOB, "resources": {"memoryMib": 10**30}}},
    {"spec": {**JOB, "resources": {"gpuMilli": 0, "gpus": 1}}},
    {"spec": {**JOB, "resources": {"devices": {"mig-1g.10gb": -1}}}},
    {"spec": {**JOB, "gang": {"ranks": -2}}},
    {"spec": {**JOB, "expectedRuntimeS": -1}},
    {"spec": {**JOB, "timeLimitS": 1e300}},
    {"spec": JOB, "costEstimate": -0.01},
    {"spec": JOB, "costEstimate": 1e300},
    {"spec": JOB, "costEstimate": "0"},
    {"spec": JOB, "estimateCores": -4},
]


async def test_amounts_that_are_none_are_refused(world: World) -> None:
    """N39: negative, in parts, out of range; words that are no numbers are no JSON."""
    async with world.client() as client:
        for body in _NO_AMOUNTS:
            answer = await client.post("/v1/jobs", json=body)
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid"), (body, answer.text)
        for word, status in (("NaN", 400), ("Infinity", 400), ("-Infinity", 400), ("1e999", 422)):
            text = json.dumps({"spec": JOB})[:-1] + f', "costEstimate": {word}}}'
            answer = await client.post("/v1/jobs", content=text, headers={"content-type": "application/json"})
            assert answer.status_code == status, (word, answer.text)
    assert world.view.entries == {}


async def test_saying_that_it_costs_nothing_does_not_help(world: World) -> None:
    """N39: the server's estimate counts, whatever the client says."""
    await world.services.profiles.put(ROOT, Profile(pools={"big": Pool(gpu_hour=2.0)}))
    await limit(world, budget=3)
    async with world.client() as client:
        asks = {"spec": {**JOB, "resources": {"gpus": 1}}, "costEstimate": 0}
        first, second = [await client.post("/v1/jobs", json=asks) for _ in range(2)]
        assert first.status_code == 201
        assert (second.status_code, second.json()["code"]) == (429, "budget-exceeded")
        assert second.json()["quota"][0]["used"] == 2.0
        # Nor does a job that is free: it is priced by what it asks for.
        longer = {"spec": {**JOB, "resources": {"gpus": 1}, "timeLimitS": 7200.0}, "costEstimate": 0.0}
        assert (await client.post("/v1/jobs", json=longer)).status_code in (403, 429)


async def test_nobody_raises_a_priority_above_the_ceiling_not_even_beside_the_specification(world: World) -> None:
    """N40."""
    await world.services.tenants.ensure({"acme"})
    async with world.client("operator", "ops") as operator:
        assert (await operator.patch("/v1/tenants/acme/quota", json={"priority": "NORMAL"})).status_code == 200
    for role in ("submitter", "tenant-admin"):
        async with world.client(role) as client:  # type: ignore[arg-type]
            for body in ({"spec": {**JOB, "priority": "CRITICAL"}}, {"spec": JOB, "priority": "HIGH"}):
                answer = await client.post("/v1/jobs", json=body)
                assert (answer.status_code, answer.json()["code"]) == (403, "priority-ceiling")
            assert (await client.patch("/v1/tenants/acme/quota", json={"priority": "CRITICAL"})).status_code == 403
    async with world.client("admin") as admin:
        assert (await admin.post("/v1/jobs", json={"spec": {**JOB, "priority": "CRITICAL"}})).status_code == 201
    assert [one.reason for one in entries(world) if one.outcome == "DENY"].count("priority") == 4


async def test_retries_by_hand_end_and_count_against_the_quota(world: World) -> None:
    """N40: the number of retries is fixed, and each one must fit like any other job."""
    async with world.client() as client:
        job = (await client.post("/v1/jobs", json={"spec": {**JOB, "retry": {"limit": 0}}})).json()["id"]
        for _ in range(MANUAL_RETRIES_MAX):
            await world.finish_job(await world.start_job(job), code=1)
            again = await client.post(f"/v1/jobs/{job}/retry", json={})
            assert again.status_code == 200, again.text
            job = again.json()["id"]
        await world.finish_job(await world.start_job(job), code=1)
        over = await client.post(f"/v1/jobs/{job}/retry", json={})
        assert (over.status_code, over.json()["code"]) == (409, "retry-budget-exhausted")
        other = (await client.post("/v1/jobs", json={"spec": {**JOB, "retry": {"limit": 0}}})).json()["id"]
        await world.finish_job(await world.start_job(other), code=1)
        await limit(world, jobs=1)
        assert (await client.post("/v1/jobs", json={"spec": JOB})).status_code == 201
        full = await client.post(f"/v1/jobs/{other}/retry", json={})
        assert (full.status_code, full.json()["code"]) == (429, "quota-exceeded")


async def test_a_job_that_is_submitted_again_is_as_old_as_its_submission(world: World) -> None:
    """N40: nobody brings an age along."""
    async with world.client() as client:
        first = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        await client.delete(f"/v1/jobs/{first}")
        second = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        one, two = [(await client.get(f"/v1/jobs/{job}")).json()["state"] for job in (first, second)]
        assert two["submittedAt"] >= one["endedAt"]
        for field in ("submittedAt", "queuedAt", "manualRetries"):
            smuggled = await client.post("/v1/jobs", json={"spec": {**JOB, field: 1.0}})
            assert (smuggled.status_code, smuggled.json()["code"]) == (422, "unknown-field")


async def test_a_job_is_changed_after_its_admission_by_updates_alone(world: World) -> None:
    """N40: no other specification is taken, an update is judged as a job is (integration/api/test_steering.py), and a
    request id does not carry another payload in."""
    async with world.client() as client:
        body = {"spec": JOB, "requestId": "once"}
        job = (await client.post("/v1/jobs", json=body)).json()["id"]
        for method, status in (("PUT", 405), ("PATCH", 422)):
            answer = await client.request(method, f"/v1/jobs/{job}", json={"spec": {**JOB, "priority": "CRITICAL"}})
            assert answer.status_code == status
        assert (await client.get(f"/v1/jobs/{job}")).json()["spec"].get("priority", "NORMAL") == "NORMAL"
        more = await client.post("/v1/jobs", json={**body, "spec": {**JOB, "resources": {"gpus": 8}}})
        assert (more.status_code, more.json()["code"]) == (409, "request-conflict")


async def test_downloads_beyond_the_month_are_refused_with_numbers(world: World) -> None:
    async with world.client("tenant-admin") as client:
        job = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        state = await world.start_job(job)
        ref, data = AttemptRef(job=job, tenant="acme", fence=state.fence), b"x" * 1024
        digest = hashlib.sha256(data).hexdigest()
        await world.blobs.append(ref, digest, 0, data)
        assert await world.blobs.seal(ref, digest, len(data)) is None
        file = OutputFile(path="out.bin", size=len(data), sha256=digest)
        await world.apply(job, Exit(fence=state.fence, exit=ExitInfo(code=0), outputs=(file,)))
        await limit(world, egress=2048 / 2**30)
        answers = [await client.get(f"/v1/jobs/{job}/outputs/out.bin") for _ in range(3)]
        assert [one.status_code for one in answers] == [200, 200, 429]
        assert answers[2].json()["quota"][0]["used"] == pytest.approx(2048 / 2**30)
        shown = (await client.get("/v1/quota")).json()
        assert {one["measure"]: one["used"] for one in shown["uses"]}["storage"] == pytest.approx(1024 / 2**30)


# Of each: a job that takes 89 of 100, and one that takes 1.
_MEASURES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "cpu": (wants(cpuMilli=89_000), wants(cpuMilli=1000)),
    "gpus": (wants(gpus=89), wants(gpus=1)),
    "budget": (
        {"spec": {**wants(gpus=1)["spec"], "expectedRuntimeS": 89 * 3600.0}},
        {"spec": {**wants(gpus=1)["spec"], "expectedRuntimeS": 3600.0}},
    ),
}


@pytest.mark.slow
def test_two_servers_on_one_store_admit_together_what_fits(tmp_path: Path) -> None:
    """N38: 50 submissions at once at 89 % of a quota, for cores, GPUs and cost, through two real processes on etcd."""
    with Platform(tmp_path, "etcd") as platform:
        platform.server(0)
        platform.server(1)
        urls = [platform.servers[number].url for number in (0, 1)]
        asyncio.run(judge_through_both(urls, platform.admin_token))


async def judge_through_both(urls: list[str], token: str) -> None:
    async with httpx2.AsyncClient(
        trust_env=False, headers={"authorization": f"Bearer {token}"}, timeout=30.0, verify=False
    ) as client:
        one, two = urls
        tenant = (await client.get(f"{one}/v1/whoami")).json()["tenant"]
        priced = await client.patch(f"{one}/v1/profile", json={"settings": {"pools.default.gpu_hour": "1"}})
        assert priced.status_code == 200, priced.text
        for measure, (most, small) in _MEASURES.items():
            quota = {"quota": {"own": {"amounts": {measure: {"hard": 100.0}}}, "threshold": 1.0}}
            assert (await client.put(f"{two}/v1/tenants/{tenant}/quota", json=quota)).status_code == 200
            before = await client.post(f"{one}/v1/jobs", json=most)
            assert before.status_code == 201, before.text
            answers = await asyncio.gather(*(client.post(f"{urls[n % 2]}/v1/jobs", json=small) for n in range(50)))
            jobs = [before.json()["id"], *(answer.json()["id"] for answer in answers if answer.status_code == 201)]
            assert len(jobs) - 1 == 11, measure
            refused = [answer.json() for answer in answers if answer.status_code != 201]
            assert {(no["status"], no["quota"][0]["used"], no["quota"][0]["free"]) for no in refused} == {
                (429, 100.0, 0.0)
            }
            await asyncio.gather(*(client.delete(f"{urls[n % 2]}/v1/jobs/{job}") for n, job in enumerate(jobs)))


@pytest.mark.parametrize(("qos", "counted"), [("guaranteed", 1), ("burstable", 2), ("best-effort", 4)])
async def test_memory_counts_as_far_as_a_job_may_use_it(world: World, qos: str, counted: int) -> None:
    """A best-effort job that asked for one MiB used all that a node had, outside of every quota."""
    await limit(world, memory=1)
    async with world.client() as client:
        fits = {"spec": {**JOB, "qos": qos, "resources": {"memoryMib": 1024 // counted}}}
        assert (await client.post("/v1/jobs", json=fits)).status_code == 201
        assert (await client.post("/v1/jobs", json=fits)).json()["code"] == "quota-exceeded"


@pytest.mark.parametrize(
    ("toleration", "taken"),
    [
        ({"key": "tenant", "value": "acme"}, True),
        ({"key": "tenant", "value": "bank"}, False),
        ({"key": "tenant"}, False),
        ({"key": "spot"}, True),
    ],
)
async def test_machines_of_a_tenant_are_its_own(world: World, toleration: dict[str, str], taken: bool) -> None:
    """Whoever asked for it went to machines that were tainted for somebody else."""
    body = {"spec": {**JOB, "tolerations": [toleration]}}
    for role in ("submitter", "tenant-admin", "admin"):
        async with world.client(role) as client:  # type: ignore[arg-type]
            answer = await client.post("/v1/jobs", json=body)
            told = "" if answer.status_code == 201 else answer.json()["code"]
            assert told == ("" if taken else "toleration-not-yours"), answer.text


_FOR_NOTHING: list[dict[str, Any]] = [
    {"expectedRuntimeS": 0},
    {"expectedRuntimesS": {"A100": 0}},
    {"expectedRuntimeS": 0, "timeLimitS": 3600},
    {"expectedRuntimeS": 1, "timeLimitS": 3600},
    {"timeLimitS": 3600},
    {},
]


@pytest.mark.parametrize("stated", _FOR_NOTHING)
async def test_a_stated_run_time_of_nothing_costs_what_the_job_may_cost(world: World, stated: dict[str, Any]) -> None:
    await world.services.profiles.put(ROOT, Profile(pools={"big": Pool(gpu_hour=2.0)}))
    await limit(world, budget=3)
    async with world.client() as client:
        body = {"spec": {**JOB, "resources": {"gpus": 1}, **stated}}
        first, second = [await client.post("/v1/jobs", json=body) for _ in range(2)]
        assert (first.status_code, second.status_code) == (201, 429), second.text
        assert second.json()["quota"][0]["used"] == 2.0
        dear = await client.post("/v1/jobs", json={"spec": {**body["spec"], "timeLimitS": 7200}})
        assert (dear.status_code, dear.json()["code"]) == (403, "quota-too-small")
