"""Every question about a start is answered alike: plan, pools, explain, show, the list, predictions and deadlines."""

import asyncio
import time
from typing import Any

import httpx2
import pytest

from tests.integration.api.test_deadlines import HOUR, node
from tests.integration.api.test_decisions import join, placed, scheduling, submit
from tests.integration.api.world import JOB, World

RUNS_S = 2 * HOUR
WANTED: dict[str, Any] = {"resources": {"gpus": 1, "cpuMilli": 1000}, "expectedRuntimeS": RUNS_S}


async def held_up(world: World, client: httpx2.AsyncClient) -> None:
    """Both GPUs are held, one for an hour and one for two; then two jobs wait: for both, and for one."""
    await join(world, node("n", "A100", 2))
    for hours in (1, 2):
        job = await submit(client, resources={"gpus": 1}, expectedRuntimeS=hours * HOUR)
        assert await placed(client, job["id"]) == "n"
    await submit(client, resources={"gpus": 2}, expectedRuntimeS=HOUR)
    await submit(client, resources={"gpus": 1}, expectedRuntimeS=RUNS_S)


async def promised(client: httpx2.AsyncClient, job: str) -> None:
    async with asyncio.timeout(20):
        while (await client.get(f"/v1/jobs/{job}/explain")).json().get("promise") is None:
            await asyncio.sleep(0.01)


async def test_what_is_said_before_a_job_is_submitted_is_said_of_it_after(world: World) -> None:
    async with world.client() as client, scheduling(world):
        await held_up(world, client)
        # The two of before have both GPUs after 2 h and one of them after 3 h, until 5 h: the other is free after 3 h.
        expected = pytest.approx(time.time() + 3 * HOUR, abs=120)
        planned = (await client.post("/v1/plan", json={"spec": JOB | WANTED})).json()
        assert planned["startsNow"] is False
        offer = next(one for one in planned["offers"] if one["asked"] == "as asked")
        assert offer["starts"]["earliest"] == expected
        pool = (await client.get(f"/v1/nodepools/default?gpus=1&runtimeS={RUNS_S:g}")).json()
        assert pool["shapes"][0]["starts"]["earliest"] == expected
        # So late that it does not move the job forward.
        due = {"deadlineAt": time.time() + 240 * HOUR}
        job = await submit(client, **WANTED, **due)
        assert job["deadline"]["startsAt"] == expected
        explained = (await client.get(f"/v1/jobs/{job['id']}/explain")).json()
        assert explained["starts"]["earliest"] == expected
        shown = (await client.get(f"/v1/jobs/{job['id']}")).json()
        listed = (await client.get("/v1/jobs")).json()["waiting"][job["id"]]
        # The interval is the same everywhere, and around the same time.
        intervals = [explained["eta"], shown["waiting"]["eta"], listed["eta"]]
        for one in intervals:
            assert one["basis"] == explained["starts"]["basis"]
            assert one["earliest"] <= explained["starts"]["earliest"] <= one["latest"]
            assert one["earliest"] == pytest.approx(intervals[0]["earliest"], abs=60)


async def test_a_plan_does_not_promise_room_that_is_held_for_a_job_ahead(world: World) -> None:
    """One GPU is free and held for a job that needs both: a long job waits, before and after it is submitted."""
    async with world.client() as client, scheduling(world):
        await join(world, node("n", "A100", 2))
        first = await submit(client, resources={"gpus": 1}, expectedRuntimeS=HOUR)
        assert await placed(client, first["id"]) == "n"
        wide = await submit(client, resources={"gpus": 2}, expectedRuntimeS=HOUR)
        await promised(client, wide["id"])
        planned = (await client.post("/v1/plan", json={"spec": JOB | WANTED})).json()
        assert (planned["startsNow"], planned["reason"]["code"]) == (False, "HELD_BACK")
        job = await submit(client, **WANTED)
        explained = (await client.get(f"/v1/jobs/{job['id']}/explain")).json()
        assert explained["reason"]["code"] == "HELD_BACK"
        offer = next(one for one in planned["offers"] if one["asked"] == "as asked")
        assert explained["starts"]["earliest"] == pytest.approx(offer["starts"]["earliest"], abs=60)
        short = (await client.post("/v1/plan", json={"spec": JOB | WANTED | {"expectedRuntimeS": 60.0}})).json()
        assert short["startsNow"] is True
