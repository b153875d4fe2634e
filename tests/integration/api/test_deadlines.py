"""Deadlines and classes of service by HTTP, with the real scheduler on nodes that only exist on paper."""

import time
from typing import Any

import httpx2
import pytest

from ares.core.lifecycle.inputs import RankStarted
from ares.model.node import Gpu, NodeInfo
from ares.model.profile import Profile, Sla
from tests.integration.api.test_decisions import configure, join, placed, scheduling, submit
from tests.integration.api.world import JOB, World

HOUR = 3600.0
SLAS = {"gold": Sla(end_within_s=HOUR), "prompt": Sla(start_within_s=60.0)}


def node(name: str, model: str, gpus: int = 1) -> NodeInfo:
    cards = tuple(Gpu(index=n, uuid=f"{name}-{n}", model=model, memory_mib=40_960) for n in range(gpus))
    return NodeInfo(name=name, cpu_milli=16_000, memory_mib=65_536, gpus=cards)


async def fast_held(world: World, client: httpx2.AsyncClient, for_s: float) -> str:
    """An A100 that somebody holds so long, and a V100 that is free."""
    await join(world, node("fast", "A100"), node("slow", "V100"))
    holder = (await submit(client, resources={"gpus": 1, "gpuModel": "A100"}, expectedRuntimeS=for_s))["id"]
    assert await placed(client, holder) == "fast"
    return holder


async def test_a_submission_is_answered_with_whether_the_deadline_can_be_met(world: World) -> None:
    async with world.client() as client, scheduling(world):
        await fast_held(world, client, HOUR)
        due = time.time() + 2.5 * HOUR
        asked: dict[str, Any] = {
            "resources": {"gpus": 1, "gpuModel": "A100"},
            "expectedRuntimeS": HOUR,
            "deadlineAt": due,
        }
        seen = (await submit(client, **asked))["deadline"]
        assert (seen["verdict"], seen["ways"]) == ("yes", [])
        assert seen["endsAt"] == pytest.approx(time.time() + 2 * HOUR, abs=60)
        # Now one is ahead of it.
        seen = (await submit(client, **asked))["deadline"]
        assert seen["verdict"] == "no"
        assert "too late" in seen["message"]
        assert seen["ways"][0]["fields"] == {"resources.gpuModel": "V100"}
        # What is offered comes true.
        again = asked | {"resources": {"gpus": 1, "gpuModel": "V100"}}
        assert (await submit(client, **again))["deadline"]["verdict"] == "yes"


async def test_strict_jobs_are_refused_and_replays_are_not(world: World) -> None:
    async with world.client() as client:
        await join(world, node("n", "A100"))
        due = time.time() + HOUR
        body: dict[str, Any] = {
            "spec": JOB | {"expectedRuntimeS": 1800.0, "deadlineAt": due, "deadlineStrict": True},
            "requestId": "r",
        }
        first = await client.post("/v1/jobs", json=body)
        assert first.status_code == 201
        hopeless = {"spec": body["spec"] | {"expectedRuntimeS": 2 * HOUR}}
        refused = await client.post("/v1/jobs", json=hopeless)
        assert (refused.status_code, refused.json()["code"]) == (422, "deadline-not-met")
        assert "1 h" in refused.json()["detail"]
        silent = await client.post("/v1/jobs", json={"spec": JOB | {"deadlineAt": due, "deadlineStrict": True}})
        assert "nothing tells how long the job runs" in silent.json()["detail"]
        replayed = await client.post("/v1/jobs", json=body)
        assert (replayed.status_code, replayed.json()["id"]) == (200, first.json()["id"])
        assert replayed.json()["deadline"] is None


async def test_a_class_of_service_gives_a_job_its_deadline(world: World) -> None:
    async with world.client() as client:
        await join(world, node("n", "A100"))
        await configure(world, Profile(slas=SLAS))
        job = await submit(client, sla="gold", expectedRuntimeS=60.0)
        assert job["deadline"]["verdict"] == "yes"
        found = (await client.get(f"/v1/jobs/{job['id']}")).json()
        assert found["spec"]["deadlineAt"] == found["state"]["deadlineAt"]
        assert found["state"]["deadlineAt"] == pytest.approx(found["state"]["submittedAt"] + HOUR, abs=1)
        assert (found["state"]["sla"], found["deadline"]["verdict"]) == ("gold", "yes")
        unknown = await client.post("/v1/jobs", json={"spec": JOB | {"sla": "silver"}})
        assert (unknown.status_code, unknown.json()["code"]) == (422, "sla-unknown")
        assert "gold, prompt" in unknown.json()["detail"]
        both = await client.post("/v1/jobs", json={"spec": JOB | {"sla": "gold", "deadlineAt": time.time() + 9}})
        assert both.json()["code"] == "sla-and-deadline"


async def classes(client: httpx2.AsyncClient) -> dict[str, dict[str, Any]]:
    return {one.pop("name"): one for one in (await client.get("/v1/sla")).json()["classes"]}


async def test_how_classes_fare(world: World) -> None:
    async with world.client() as client, world.client("submitter", "other") as other:
        await join(world, node("n1", "A100"))
        await configure(world, Profile(slas=SLAS))
        met = await submit(client, sla="gold")
        await world.finish_job(await world.start_job(met["id"]))
        failed = await submit(client, sla="gold", restart="never")
        await world.finish_job(await world.start_job(failed["id"]), code=1)
        long = await submit(client, deadlineAt=time.time() + HOUR, expectedRuntimeS=2 * HOUR)
        async with scheduling(world):
            assert await placed(client, long["id"]) == "n1"
        running = await world.apply(long["id"], RankStarted(fence=world.view.entries[long["id"]].state.fence))
        waits = await submit(client, sla="prompt", resources={"gpus": 8})
        assert waits["deadline"]["verdict"] == "no"
        found = await classes(client)
        assert set(found) == {"", "gold", "prompt"}
        counts = ("jobs", "met", "missed", "open", "atRisk", "metPercent")
        assert [found["gold"][key] for key in counts] == [2, 1, 1, 0, 0, 50.0]
        assert [found["prompt"][key] for key in counts] == [1, 0, 0, 1, 0, None]
        assert found[""]["atRiskJobs"] == [long["id"]]
        assert (await client.get("/v1/jobs")).json()["atRisk"] == [long["id"]]
        # It was quicker than it said.
        await world.finish_job(running)
        found = await classes(client)
        assert (found[""]["met"], found[""]["atRisk"]) == (1, 0)
        assert {name: one["jobs"] for name, one in (await classes(other)).items()} == {"gold": 0, "prompt": 0}
        async with world.client("admin") as admin:
            by_tenant = (await admin.get("/v1/sla?by=tenant")).json()["classes"]
            assert [(one["name"], one["tenant"]) for one in by_tenant] == [
                ("", "acme"),
                ("gold", "acme"),
                ("prompt", "acme"),
            ]
        # One of two, where one of twenty may miss it.
        assert (found["gold"]["targetPercent"], found["gold"]["budgetLeftPercent"]) == (95.0, -900.0)
        lately = {one["name"]: one for one in (await client.get("/v1/sla?sinceS=3600")).json()["classes"]}
        assert lately["gold"]["jobs"] == 2
        assert (await client.get("/v1/sla?sinceS=0")).status_code == 422
        counted = (await world.services.metrics(False)).decode()
        for line in ('met_total{sla="gold"}', 'missed_total{sla="gold"}', 'met_total{sla="own"}'):
            assert f"ares_deadlines_{line} 1.0" in counted


async def test_a_plan_tells_of_deadline_and_faster_gpus(world: World) -> None:
    async with world.client() as client, scheduling(world):
        await fast_held(world, client, 600.0)
        spec = JOB | {
            "resources": {"gpus": 1}, "expectedRuntimesS": {"A100": HOUR, "V100": 2 * HOUR},
            "deadlineAt": time.time() + 1.5 * HOUR,
        }  # fmt: skip
        found = (await client.post("/v1/plan", json={"spec": spec})).json()
        assert (found["startsNow"], found["reason"]["code"]) == (False, "WAITING_FOR_FASTER")
        assert (found["deadline"]["verdict"], found["deadline"]["basis"]) == (
            "yes",
            "on an A100, the run time it states for A100",
        )
        job = await submit(client, **{key: value for key, value in spec.items() if key not in JOB})
        why = (await client.get(f"/v1/jobs/{job['id']}")).json()["waiting"]
        assert why["code"] == "WAITING_FOR_FASTER"
        explained = (await client.get(f"/v1/jobs/{job['id']}/explain")).json()
        assert explained["starts"]["earliest"] == pytest.approx(time.time() + 600.0, abs=60)
        assert explained["eta"]["basis"] == "on an A100"
