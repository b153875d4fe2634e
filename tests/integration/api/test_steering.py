"""Changing jobs that wait or run over HTTP: what is taken, what is refused and why, and what the ledger says."""

import asyncio
import itertools
import time
from typing import Any

import httpx2
import msgspec
import pytest

from ares.control.scheduler.retries import Requeue
from ares.control.submit.oom_growth import OomGrowth
from ares.core import keys
from ares.core.lifecycle.inputs import Bind, Exit, Release
from ares.model.node import NodeInfo, NodeRecord
from ares.model.state import ExitInfo, JobState, Placement
from ares.ports.store import Put
from tests.integration.api.world import JOB, MISSING, World

PLACE = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=256)


async def submitted(client: httpx2.AsyncClient, **spec: Any) -> str:
    made = await client.post("/v1/jobs", json={"spec": {**JOB, **spec}})
    assert made.status_code == 201, made.text
    return made.json()["id"]


async def ledger(client: httpx2.AsyncClient, job: str) -> list[dict[str, Any]]:
    return (await client.get(f"/v1/jobs/{job}/events")).json()["events"]


async def test_a_waiting_job_asks_for_something_else(world: World) -> None:
    async with world.client() as client:
        made = await client.post("/v1/jobs", json={"spec": JOB, "requestId": "once"})
        job = made.json()["id"]
        at = time.time() + 3600
        change = {
            "priority": "LOW", "timeLimitS": 60.0, "deadlineAt": at, "resources": {"memoryMib": 512, "gpus": 2},
            "reason": "more data",
        }  # fmt: skip
        done = await client.patch(f"/v1/jobs/{job}", json=change)
        assert (done.status_code, done.json()["updates"], done.json()["phase"]) == (200, 1, "PENDING")
        detail = (await client.get(f"/v1/jobs/{job}")).json()
        spec = detail["spec"]
        assert (spec["priority"], spec["timeLimitS"], spec["deadlineAt"]) == ("LOW", 60.0, at)
        assert (spec["resources"]["memoryMib"], spec["resources"]["gpus"]) == (512, 2)
        assert spec["resources"]["cpuMilli"] == 1000
        assert detail["state"]["deadlineAt"] == at
        entry = (await ledger(client, job))[-1]
        assert (entry["kind"], entry["reason"]) == ("updated", "more data")
        assert entry["data"]["before"]["priority"] == "NORMAL"
        assert entry["data"]["after"]["resources"] == {"memoryMib": 512, "gpus": 2}
        # The same again is nothing new, and the request that made the job is still known for what it was.
        again = await client.patch(f"/v1/jobs/{job}", json=change)
        assert (again.status_code, again.json()["updates"]) == (200, 1)
        assert (await client.post("/v1/jobs", json={"spec": JOB, "requestId": "once"})).json()["id"] == job
        # What is taken away again leaves the job as it was submitted.
        back = {
            "priority": "NORMAL",
            "timeLimitS": None,
            "deadlineAt": None,
            "resources": {"memoryMib": 256, "gpus": 0},
        }
        plain = (await client.patch(f"/v1/jobs/{job}", json=back)).json()
        assert (plain["updates"], plain["update"], plain["deadlineAt"]) == (2, None, None)


async def test_the_queue_and_the_plan_go_by_the_change(world: World) -> None:
    async with world.client() as client:
        first, second = await submitted(client), await submitted(client)
        assert (await client.get(f"/v1/jobs/{second}")).json()["queuePosition"] == 1
        assert (await client.patch(f"/v1/jobs/{second}", json={"priority": "CRITICAL"})).status_code == 200
        assert (await client.get(f"/v1/jobs/{second}")).json()["queuePosition"] == 0
        assert (await client.get(f"/v1/jobs/{first}")).json()["queuePosition"] == 1


async def test_a_grant_decided_before_the_change_does_not_land(world: World) -> None:
    async with world.client() as client:
        job = await submitted(client)
        assert (await client.patch(f"/v1/jobs/{job}", json={"resources": {"memoryMib": 512}})).status_code == 200
        with pytest.raises(AssertionError, match="updated 0 times, by now it was 1 times"):
            await world.apply(job, Bind(placements=(PLACE,)))
        big = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=512)
        bound = await world.apply(job, Bind(placements=(big,), updates=1))
        assert bound.phase == "STAGING"


async def test_many_changes_at_once_are_all_in_the_ledger(world: World) -> None:
    async with world.client() as client:
        job = await submitted(client)
        changes = [{"timeLimitS": 100.0 + n} for n in range(8)] + [
            {"resources": {"memoryMib": 300 + n}} for n in range(8)
        ]
        done = await asyncio.gather(*(client.patch(f"/v1/jobs/{job}", json=change) for change in changes))
        taken = [answer for answer in done if answer.status_code == 200]
        assert {answer.status_code for answer in done} <= {200, 503}
        state = (await client.get(f"/v1/jobs/{job}")).json()
        entries = [entry for entry in await ledger(client, job) if entry["kind"] == "updated"]
        assert len(entries) == state["state"]["updates"] >= len(taken) > 0
        # Each change was made on top of the one before.
        for before, after in itertools.pairwise(entries):
            for name, value in after["data"]["before"].items():
                if name in before["data"]["after"]:
                    assert value == before["data"]["after"][name]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"priority": "URGENT"}, 422, "invalid"),
        ({"resources": {"cpus": 3}}, 422, "unknown-field"),
        ({"command": ["rm"]}, 422, "unknown-field"),
        ({"timeLimitS": 0.0}, 422, "invalid"),
        ({"deadlineAt": 1.0}, 422, "deadline-passed"),
        ({"sla": "gold"}, 422, "sla-unknown"),
        ({"reservation": "none-such"}, 422, "reservation-unknown"),
        ({"resources": {"gpuModel": "A100"}}, 422, "gpu-model-without-gpus"),
    ],
)
async def test_what_is_no_job_is_refused(world: World, change: dict[str, Any], status: int, code: str) -> None:
    async with world.client() as client:
        job = await submitted(client)
        no = await client.patch(f"/v1/jobs/{job}", json=change)
        assert (no.status_code, no.json()["code"]) == (status, code)
        assert (await client.get(f"/v1/jobs/{job}")).json()["state"]["updates"] == 0


async def test_quotas_and_ceilings_are_asked_again(world: World) -> None:
    async with world.client() as client, world.client("operator", "ops") as operator:
        limits = {"amounts": {"memory": {"hard": 1.0}}, "priority": "NORMAL", "threshold": 1.0}
        assert (await operator.patch("/v1/tenants/acme/quota", json=limits)).status_code == 200
        job, other = await submitted(client), await submitted(client)
        fits = await client.patch(f"/v1/jobs/{job}", json={"resources": {"memoryMib": 768}})
        assert fits.status_code == 200, fits.text
        no = await client.patch(f"/v1/jobs/{other}", json={"resources": {"memoryMib": 257}})
        assert (no.status_code, no.json()["code"]) == (429, "quota-exceeded")
        assert (no.json()["quota"][0]["limit"], no.json()["quota"][0]["free"]) == (1.0, 0.25)
        never = await client.patch(f"/v1/jobs/{other}", json={"resources": {"memoryMib": 2048}})
        assert (never.status_code, never.json()["code"]) == (403, "quota-too-small")
        high = await client.patch(f"/v1/jobs/{other}", json={"priority": "HIGH"})
        assert (high.status_code, high.json()["code"]) == (403, "priority-ceiling")
        # Less is always taken, and makes room.
        assert (await client.patch(f"/v1/jobs/{job}", json={"resources": {"memoryMib": 256}})).status_code == 200
        assert (await client.patch(f"/v1/jobs/{other}", json={"resources": {"memoryMib": 768}})).status_code == 200


async def test_two_changes_at_once_never_pass_the_quota_together(world: World) -> None:
    async with world.client() as client, world.client("operator", "ops") as operator:
        limits = {"amounts": {"memory": {"hard": 2.0}}, "threshold": 1.0}
        assert (await operator.patch("/v1/tenants/acme/quota", json=limits)).status_code == 200
        jobs = [await submitted(client) for _ in range(4)]
        done = await asyncio.gather(
            *(client.patch(f"/v1/jobs/{job}", json={"resources": {"memoryMib": 768}}) for job in jobs)
        )
        assert sorted(answer.status_code for answer in done) == [200, 200, 429, 429]
        found = await asyncio.gather(*(client.get(f"/v1/jobs/{job}") for job in jobs))
        assert sum(one.json()["spec"]["resources"]["memoryMib"] for one in found) == 2048


async def test_policies_are_asked_again(world: World) -> None:
    async with world.client() as client, world.client("tenant-admin") as admin:
        policy = {"when": "job.memory_gib > 1.0", "action": "reject", "message": "at most 1 GiB"}
        saved = await admin.put("/v1/policies/small", json=policy)
        assert saved.status_code in (200, 201), saved.text
        job = await submitted(client)
        no = await client.patch(f"/v1/jobs/{job}", json={"resources": {"memoryMib": 1025}})
        assert (no.status_code, no.json()["code"]) == (422, "policy-rejected")
        assert "at most 1 GiB" in no.json()["detail"]


async def test_a_running_job(world: World) -> None:
    async with world.client() as client, world.client("operator", "ops") as operator:
        job = await submitted(client, timeLimitS=100.0)
        await world.start_job(job)
        no = await client.patch(f"/v1/jobs/{job}", json={"resources": {"memoryMib": 512}})
        assert (no.status_code, no.json()["code"]) == (409, "not-allowed")
        assert f"ares requeue {job}" in no.json()["fix"]
        longer = await client.patch(f"/v1/jobs/{job}", json={"timeLimitS": 200.0})
        assert (longer.status_code, longer.json()["code"]) == (409, "not-allowed")
        assert "cannot be raised to 200 s" in longer.json()["detail"]
        less = await client.patch(f"/v1/jobs/{job}", json={"timeLimitS": 50.0, "priority": "HIGH"})
        assert (less.status_code, less.json()["phase"]) == (200, "RUNNING")
        header = {"x-ares-tenant": "acme"}
        raised = await operator.patch(f"/v1/jobs/{job}", json={"timeLimitS": 500.0}, headers=header)
        assert raised.status_code == 200, raised.text
        assert (await client.get(f"/v1/jobs/{job}")).json()["spec"]["timeLimitS"] == 500.0


async def test_a_job_that_ended_and_jobs_of_others(world: World) -> None:
    async with world.client() as mine, world.client() as theirs, world.client(tenant="other") as other:
        job = await submitted(mine)
        change = {"priority": "LOW"}
        assert (await theirs.patch(f"/v1/jobs/{job}", json=change)).json()["code"] == "forbidden"
        for path in (f"/v1/jobs/{job}", f"/v1/jobs/{MISSING}"):
            assert (await other.patch(path, json=change)).status_code == 404
        assert (await other.post(f"/v1/jobs/{job}/requeue", json={})).status_code == 404
        await world.finish_job(await world.start_job(job))
        over = await mine.patch(f"/v1/jobs/{job}", json=change)
        assert (over.status_code, over.json()["code"]) == (409, "job-finished")
        async with world.client("viewer") as viewer:
            assert (await viewer.patch(f"/v1/jobs/{job}", json=change)).status_code == 403


async def test_a_running_job_goes_back_to_the_queue(world: World) -> None:
    async with world.client() as client:
        job = await submitted(client, preemption={"allowed": False})
        waits = await client.post(f"/v1/jobs/{job}/requeue")
        assert (waits.status_code, waits.json()["code"]) == (409, "not-allowed")
        running = await world.start_job(job)
        back = await client.post(f"/v1/jobs/{job}/requeue", json={"reason": "slow node"})
        assert (back.status_code, back.json()["phase"], back.json()["requeues"]) == (200, "PREEMPTED", 1)
        assert (back.json()["retries"], back.json()["preemptions"]) == ({}, 0)
        # What it reports from then on is about an attempt that is over.
        late = Exit(fence=running.fence, exit=ExitInfo(code=0))
        with pytest.raises(AssertionError, match="stale-fence"):
            await world.apply(job, late)
        again = await world.apply(job, Release(fence=running.fence))
        assert again.phase == "PENDING"
        entries = await ledger(client, job)
        assert [entry["kind"] for entry in entries[-2:]] == ["requeue-requested", "requeued"]
        assert entries[-2]["reason"] == "slow node"
        assert entries[-2]["by"]
        # While it waits it may ask for more, and its next attempt has it.
        assert (await client.patch(f"/v1/jobs/{job}", json={"resources": {"cpuMilli": 2000}})).status_code == 200


async def test_unsafe_jobs_do_not_go_back(world: World) -> None:
    async with world.client() as client:
        job = await submitted(client, effects="unsafe")
        await world.start_job(job)
        no = await client.post(f"/v1/jobs/{job}/requeue")
        assert (no.status_code, no.json()["code"]) == (409, "not-allowed")
        assert "never started twice" in no.json()["detail"]


# ---- all that fit


async def test_cancelling_all_that_fit(world: World) -> None:
    async with world.client() as client, world.client(tenant="other") as other, world.client() as colleague:
        sweep = [await submitted(client, name="sweep", labels={"exp": "7"}) for _ in range(5)]
        kept = await submitted(client, name="train", labels={"exp": "7"})
        not_mine = await submitted(colleague, name="sweep", labels={"exp": "7"})
        theirs = await submitted(other, name="sweep")
        body = {"filter": {"name": "sweep", "labels": {"exp": "7"}, "phases": ["PENDING"]}, "limit": 2, "dryRun": True}
        counted = (await client.post("/v1/jobs/cancel", json=body)).json()
        assert (counted["changed"], counted["phases"]) == (0, {"PENDING": counted["matched"]})
        cancelled, cursor = 0, ""
        while True:
            page = await client.post(
                "/v1/jobs/cancel", json={**body, "dryRun": False, "cursor": cursor, "reason": "off"}
            )
            assert page.status_code == 200, page.text
            assert page.json()["matched"] <= 2
            cancelled += page.json()["changed"]
            if not (cursor := page.json()["cursor"]):
                break
        assert cancelled == 5
        for job in sweep:
            state = (await client.get(f"/v1/jobs/{job}")).json()["state"]
            assert (state["phase"], state["reason"]) == ("CANCELLED", "off")
        for job in (kept, not_mine):
            assert (await client.get(f"/v1/jobs/{job}")).json()["state"]["phase"] == "PENDING"
        assert (await other.get(f"/v1/jobs/{theirs}")).json()["state"]["phase"] == "PENDING"


async def test_older_jobs_and_those_of_one_user(world: World) -> None:
    async with world.client("tenant-admin") as client:
        await submitted(client)
        now = time.time()
        for which, found in (({"until": now - 60}, 0), ({"since": now - 60}, 1), ({"user": "no one"}, 0)):
            answer = await client.post("/v1/jobs/cancel", json={"filter": which, "dryRun": True})
            assert answer.json()["matched"] == found, which
        bad = await client.post("/v1/jobs/cancel", json={"filter": {"colour": "red"}})
        assert (bad.status_code, bad.json()["code"]) == (422, "unknown-field")
        assert (await client.post("/v1/jobs/cancel", json={})).status_code == 422


async def test_changing_all_that_fit(world: World) -> None:
    async with world.client() as client:
        jobs = [await submitted(client, name="sweep") for _ in range(3)]
        running = await submitted(client, name="sweep")
        await world.start_job(running)
        body = {"filter": {"name": "sweep"}, "update": {"resources": {"memoryMib": 300}}}
        answer = (await client.post("/v1/jobs/update", json=body)).json()
        assert (answer["matched"], answer["changed"], answer["refused"]) == (4, 3, 1)
        (no,) = answer["refusals"]
        assert (no["job"], no["code"]) == (running, "not-allowed")
        for job in jobs:
            assert (await client.get(f"/v1/jobs/{job}")).json()["spec"]["resources"]["memoryMib"] == 300
        back = (await client.post("/v1/jobs/requeue", json={"filter": {"name": "sweep"}})).json()
        assert (back["matched"], back["changed"]) == (1, 1)


async def test_holding_and_releasing_all_that_fit(world: World) -> None:
    async with world.client() as client:
        jobs = [await submitted(client, name="sweep") for _ in range(3)]
        held = (await client.post("/v1/jobs/hold", json={"filter": {"name": "sweep"}, "reason": "later"})).json()
        assert (held["matched"], held["changed"]) == (3, 3)
        # What is held may be changed too.
        assert (await client.patch(f"/v1/jobs/{jobs[0]}", json={"priority": "LOW"})).json()["phase"] == "WAITING"
        back = (await client.post("/v1/jobs/release", json={"filter": {"name": "sweep"}})).json()
        assert (back["matched"], back["changed"]) == (3, 3)
        assert (await client.get(f"/v1/jobs/{jobs[0]}")).json()["spec"]["priority"] == "LOW"


async def test_an_array_is_changed_task_by_task(world: World) -> None:
    async with world.client() as client:
        array = (await client.post("/v1/jobs", json={"spec": {**JOB, "array": "0-4"}})).json()["id"]
        await world.start_job(f"{array}_2")
        done = await client.patch(f"/v1/jobs/{array}", json={"priority": "LOW"})
        assert done.status_code == 200, done.text
        for index in range(5):
            spec = (await client.get(f"/v1/jobs/{array}_{index}")).json()["spec"]
            assert spec["priority"] == ("NORMAL" if index == 2 else "LOW")
        one = await client.patch(f"/v1/jobs/{array}_3", json={"priority": "HIGH"})
        assert one.status_code == 200
        assert (await client.get(f"/v1/jobs/{array}_4")).json()["spec"]["priority"] == "LOW"


# ---- running out of memory


async def out_of_memory(world: World, job: str, memory_mib: int, updates: int) -> JobState:
    """An attempt of the job with that much memory ends for want of it."""
    place = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=memory_mib)
    bound = await world.apply(job, Bind(placements=(place,), updates=updates))
    return await world.apply(job, Exit(fence=bound.fence, exit=ExitInfo(signal="SIGKILL", failure="oom")))


async def requeued(world: World, job: str) -> JobState:
    services = world.services
    grow = OomGrowth(world.view, services.steering.updates).grow
    loop = asyncio.create_task(Requeue(world.view, world.transitions, services.clock, services.alerts, grow=grow).run())
    try:
        while world.view.entries[job].state.phase == "RETRYING":
            await asyncio.sleep(0.01)
        return world.view.entries[job].state
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


@pytest.fixture
async def machine(world: World) -> None:
    info = NodeInfo(name="n1", cpu_milli=8000, memory_mib=700)
    record = NodeRecord(info=info, incarnation=1, registered_at=1.0)
    await world.store.txn([], [Put(keys.node("n1"), msgspec.json.encode(record))])
    await world.view.catch_up()


@pytest.mark.usefixtures("machine")
async def test_a_job_that_ran_out_of_memory_gets_more_up_to_the_largest_machine(world: World) -> None:
    async with world.client() as client:
        job = await submitted(client, retry={"oomMemoryFactor": 2.0, "baseS": 0.0, "maxS": 0.0})
        for has, gets in ((256, 512), (512, 700), (700, 700)):
            updates = (await out_of_memory(world, job, has, world.view.entries[job].state.updates)).updates
            state = await requeued(world, job)
            assert state.phase == "PENDING"
            assert (await client.get(f"/v1/jobs/{job}")).json()["spec"]["resources"]["memoryMib"] == gets
            assert state.updates == updates + (has != gets)
        entries = await ledger(client, job)
        grown = [entry for entry in entries if entry["kind"] == "updated"]
        assert [entry["by"] for entry in grown] == ["controller", "controller"]
        assert grown[0]["reason"] == "out of memory with 256 MiB; the next attempt asks for 512 MiB"
        assert "it keeps 700 MiB of memory, the most it may grow to" in entries[-1]["reason"]


@pytest.mark.usefixtures("machine")
async def test_a_person_who_does_not_wait_for_the_backoff_gets_the_memory_too(world: World) -> None:
    async with world.client() as client:
        job = await submitted(client, retry={"oomMemoryFactor": 2.0})
        for has, gets in ((256, 512), (512, 700), (700, 700)):
            await out_of_memory(world, job, has, world.view.entries[job].state.updates)
            assert (await client.post(f"/v1/jobs/{job}/retry")).status_code == 200
            assert (await client.get(f"/v1/jobs/{job}")).json()["spec"]["resources"]["memoryMib"] == gets
        last = (await ledger(client, job))[-1]
        assert (last["kind"], "it keeps 700 MiB of memory" in last["reason"]) == ("retry-requested", True)


@pytest.mark.usefixtures("machine")
async def test_growth_that_a_quota_refuses_and_jobs_that_did_not_ask_for_it(world: World) -> None:
    async with world.client() as client, world.client("operator", "ops") as operator:
        limits = {"amounts": {"memory": {"hard": 0.6}}, "threshold": 1.0}
        assert (await operator.patch("/v1/tenants/acme/quota", json=limits)).status_code == 200
        patient = {"baseS": 0.0, "maxS": 0.0}
        job = await submitted(client, retry={"oomMemoryFactor": 3.0, **patient})
        plain = await submitted(client, retry=patient)
        for name in (job, plain):
            await out_of_memory(world, name, 256, 0)
            assert (await requeued(world, name)).updates == 0
        refused, silent = (await ledger(client, job))[-1], (await ledger(client, plain))[-1]
        assert "it keeps 256 MiB of memory, 700 MiB were refused: the tenant may have 0.6" in refused["reason"]
        assert (silent["kind"], silent["reason"]) == ("requeued", "the backoff is over")
