"""What jobs used by HTTP: metered by the real scheduler's bindings, told to those it belongs to, held below caps."""

from typing import Any

import pytest

from ares.core.lifecycle.inputs import Exit
from ares.model.profile import Pool, Profile
from ares.model.state import ExitInfo, JobState, Rate
from tests.integration.api.test_decisions import configure, join, node, placed, scheduling, submit
from tests.integration.api.world import World

PRICED = Pool(gpu_hour=3.6, gpu_watts=500.0, gpu_idle_watts=100.0, cpu_watts=0.0)


async def test_a_binding_has_the_rates_of_its_pool_and_the_job_tells_what_it_used(world: World) -> None:
    await join(world, node("n1", pool="dear"))
    await configure(world, Profile(pools={"dear": PRICED}))
    async with world.client() as client, scheduling(world):
        job = (await submit(client, resources={"gpus": 2}))["id"]
        await placed(client, job)
        state: JobState = world.view.entries[job].state
        assert state.rates == (Rate(pool="dear", gpu_model="A100", watts=1000.0, per_hour=7.2),)
        detail = (await client.get(f"/v1/jobs/{job}")).json()
        assert (detail["used"]["watts"], detail["used"]["perHour"]) == (1000.0, 7.2)
        ended = await world.apply(job, Exit(fence=state.fence, exit=ExitInfo(code=0)))
        assert ended.bound_at is not None
        assert ended.ended_at is not None
        seconds = ended.ended_at - ended.bound_at
        used = (await client.get(f"/v1/jobs/{job}")).json()["used"]
        assert used["energyWh"] * 3600 == pytest.approx(1000.0 * seconds)
        assert used["cost"] == pytest.approx(7.2 * seconds / 3600)
        assert used["watts"] == 0.0
        listed = (await client.get("/v1/jobs")).json()
        assert listed["used"][job] == used


async def _report(client: Any, query: str = "") -> dict[str, Any]:
    answer = await client.get(f"/v1/usage{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_usage_is_told_to_the_tenant_it_belongs_to_and_to_administrators(world: World) -> None:
    await join(world, node("n1", pool="dear"))
    await configure(world, Profile(pools={"dear": PRICED}))
    async with world.client() as mine, world.client(tenant="other") as theirs, world.client("admin", "ops") as admin:
        async with scheduling(world):
            good = (await submit(mine, resources={"gpus": 1}, team="red"))["id"]
            bad = (await submit(theirs, resources={"gpus": 1}, retry={"limit": 0}))["id"]
            for client, job in ((mine, good), (theirs, bad)):
                await placed(client, job)
        for job, tenant, code in ((good, "acme", 0), (bad, "other", 1)):
            state = world.view.entries[job].state
            failure = "exit" if code else None
            await world.apply(job, Exit(fence=state.fence, exit=ExitInfo(code=code, failure=failure)), tenant=tenant)
        rows = (await _report(mine))["rows"]
        assert [row["key"] for row in rows] == ["acme"]
        assert (rows[0]["jobs"], rows[0]["wastedGpuHours"]) == (1, 0.0)
        assert rows[0]["gpuHours"] > 0.0
        (team,) = (await _report(mine, "?by=team&sinceS=3600"))["rows"]
        assert team["key"] == "acme/red"
        everybody = await _report(admin, "?by=tenant")
        assert {row["key"] for row in everybody["rows"]} == {"acme", "other"}
        (lost,) = [row for row in everybody["rows"] if row["key"] == "other"]
        assert lost["wastedGpuHours"] == lost["gpuHours"] > 0.0
        assert lost["wastedCost"] == lost["cost"]
        assert everybody["total"]["energyKwh"] == pytest.approx(sum(row["energyKwh"] for row in everybody["rows"]))
        assert everybody["knownSince"] <= everybody["until"]
        (pool,) = (await _report(admin, "?by=pool"))["rows"]
        assert (pool["key"], pool["jobs"]) == ("dear", 2)
        assert (await mine.get("/v1/usage?by=colour")).status_code == 422


async def test_a_cap_keeps_jobs_waiting_and_says_so(world: World) -> None:
    await join(world, node("n1", pool="dear"))
    # Four idle GPUs draw 400 W, one in use 400 W more.
    capped = Pool(gpu_watts=500.0, gpu_idle_watts=100.0, cpu_watts=0.0, power_cap_watts=1000.0)
    await configure(world, Profile(pools={"dear": capped}))
    async with world.client() as client, scheduling(world):
        first = (await submit(client, resources={"gpus": 1}))["id"]
        await placed(client, first)
        second = (await submit(client, resources={"gpus": 1}))["id"]
        waiting = (await client.get(f"/v1/jobs/{second}")).json()["waiting"]
        assert (waiting["code"], waiting["remedy"]) == ("POWER_CAP", "wait")
        assert waiting["message"] == "needs 400 W; pool dear draws 800 of the 1,000 W it may"
        state = world.view.entries[first].state
        await world.apply(first, Exit(fence=state.fence, exit=ExitInfo(code=0)))
        assert await placed(client, second) == "n1"
