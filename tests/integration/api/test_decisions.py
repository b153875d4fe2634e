"""Explain, plan, prio, preemptions and replay by HTTP, with the real scheduler on nodes that only exist on paper."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import msgspec
import pytest

from ares.core import keys
from ares.core.explain import why as core_explain
from ares.core.lifecycle.inputs import Preempt
from ares.model.node import Gpu, NodeInfo, NodeLease, NodeRecord
from ares.model.profile import Pool, Profile, ProfileRecord, Share, Weight
from ares.ports.store import Compare, Put
from tests.integration.api.world import JOB, MISSING, World

# No leader has the key: it is always as expected.
ALWAYS = Compare("/leader/none", "create_revision", 0)


def node(name: str, gpus: int = 4, **fields: Any) -> NodeInfo:
    cards = tuple(Gpu(index=n, uuid=f"{name}-{n}", model="A100", memory_mib=40_960) for n in range(gpus))
    return NodeInfo(name=name, cpu_milli=16_000, memory_mib=65_536, gpus=cards, **fields)


async def join(world: World, *infos: NodeInfo) -> None:
    for info in infos:
        record = NodeRecord(info=info, incarnation=1, registered_at=0.0)
        lease = NodeLease(node=info.name, incarnation=1, replica="r1")
        puts = [
            Put(keys.node(info.name), msgspec.json.encode(record)),
            Put(keys.lease(info.name), msgspec.json.encode(lease)),
        ]
        await world.store.txn([], puts)
    await world.view.catch_up()


async def configure(world: World, profile: Profile) -> None:
    record = ProfileRecord(version=1, profile=profile)
    await world.store.txn([], [Put(keys.profile(1), msgspec.json.encode(record))])
    await world.view.catch_up()


@contextlib.asynccontextmanager
async def scheduling(world: World) -> AsyncGenerator[None]:
    running = asyncio.create_task(world.schedule.run(ALWAYS))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def submit(client: httpx2.AsyncClient, **spec: Any) -> dict[str, Any]:
    answer = await client.post("/v1/jobs", json={"spec": JOB | spec})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def placed(client: httpx2.AsyncClient, job: str) -> str:
    """The node it was given, once it was."""
    async with asyncio.timeout(20):
        while True:
            state = (await client.get(f"/v1/jobs/{job}")).json()["state"]
            if state["phase"] != "PENDING":
                return state["placements"][0]["node"]
            await asyncio.sleep(0.01)


async def revision(world: World) -> int:
    return (await world.store.range("/")).revision


def put(spec: dict[str, Any], dotted: str, value: Any) -> dict[str, Any]:
    name, _, rest = dotted.partition(".")
    return {**spec, name: put(spec.get(name, {}), rest, value) if rest else value}


async def test_the_smallest_change_that_explain_names_starts_the_job(world: World) -> None:
    # The nearest is neither the first nor the last by name.
    await join(world, node("a", gpus=2), node("large", gpus=4), node("z", gpus=1))
    async with world.client() as client, scheduling(world):
        job = (await submit(client, resources={"gpus": 8}))["id"]
        found = (await client.get(f"/v1/jobs/{job}/explain")).json()
        assert (found["reason"]["code"], found["remedy"], found["starts"]) == ("INFEASIBLE_GPU", "yours", None)
        assert [miss["node"] for miss in found["alternatives"][0]["nearest"]] == ["large", "a", "z"]
        assert found["alternatives"][0]["funnel"][0] == {"filter": "nodes", "nodes": 3}
        assert found["rank"] == pytest.approx(sum(f["product"] for f in found["factors"] if f["sum"] == "primary"))
        assert found["ahead"] == 0
        assert len(found["gpus"]) == 7
        assert found["change"]["fields"] == {"resources.gpus": 4}
        changed: dict[str, Any] = {"resources": {"gpus": 8}}
        for name, value in found["change"]["fields"].items():
            changed = put(changed, name, value)
        assert await placed(client, (await submit(client, **changed))["id"]) == "large"


async def test_who_holds_the_place_is_named_to_its_own_tenant_only(world: World) -> None:
    await join(world, node("n1"))
    async with world.client() as mine, world.client(tenant="other") as other, scheduling(world):
        held = (await submit(other, resources={"gpus": 3}, expectedRuntimeS=600))["id"]
        await placed(other, held)
        waits = (await submit(mine, resources={"gpus": 4}))["id"]
        theirs = (await submit(other, resources={"gpus": 4}))["id"]
        seen_by_me = (await mine.get(f"/v1/jobs/{waits}/explain")).json()
        seen_by_them = (await other.get(f"/v1/jobs/{theirs}/explain")).json()
        assert held not in str(seen_by_me)
        assert seen_by_me["holders"][0]["gpus"] == 3.0
        assert [gpu["freeMilli"] for gpu in seen_by_me["gpus"]] == [0, 0, 0, 1000]
        assert seen_by_me["starts"]["earliest"] > seen_by_me["at"] + 500
        assert seen_by_them["holders"][0]["job"] == held
        assert seen_by_them["gpus"][0]["jobs"] == [held]
        # Nothing about another tenant's job, in the same words as about no job.
        missing = await mine.get(f"/v1/jobs/{MISSING}/explain")
        assert (await mine.get(f"/v1/jobs/{theirs}/explain")).content == missing.content
        assert missing.status_code == 404


async def test_limits_are_shown_level_by_level(world: World) -> None:
    await join(world, node("n1"))
    limits = {"acme": Share(hard={"gpu": 8000}), "acme/ml": Share(hard={"gpu": 1000}, soft={"cpu": 2000})}
    await configure(world, Profile(shares=limits))
    async with world.client() as client:
        job = (await submit(client, resources={"gpus": 1, "cpuMilli": 500}, team="ml"))["id"]
        found = (await client.get(f"/v1/jobs/{job}/explain")).json()
        assert [(one["path"], one["resource"], one["asked"], one["limit"], one["soft"]) for one in found["limits"]] == [
            ("acme", "gpu", 1000, 8000, None),
            ("acme/ml", "cpu", 500, None, 2000),
            ("acme/ml", "gpu", 1000, 1000, None),
        ]


async def test_a_plan_tells_what_happens_and_changes_nothing(world: World) -> None:
    await join(world, node("n1"))
    async with world.client("viewer") as reader, world.client() as client, scheduling(world):
        before = await revision(world)
        fits = (await reader.post("/v1/plan", json={"spec": JOB | {"resources": {"gpus": 2}}})).json()
        asks_much = {"spec": JOB | {"resources": {"gpus": 6}}}
        never = (await reader.post("/v1/plan", json=asks_much)).json()
        assert await revision(world) == before
        assert (await client.get("/v1/jobs")).json()["jobs"] == []
        assert (fits["startsNow"], fits["reason"], fits["change"]) == (True, None, None)
        assert fits["offers"][0]["asked"] == "as asked"
        assert fits["offers"][0]["placements"][0]["node"] == "n1"
        assert (never["startsNow"], never["reason"]["code"]) == (False, "INFEASIBLE_GPU")
        assert never["change"]["fields"] == {"resources.gpus": 4}
        # What it said comes true.
        assert await placed(client, (await submit(client, resources={"gpus": 2}))["id"]) == "n1"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"spec": {"command": []}}, 422, "command-empty"),
        ({"spec": JOB | {"resources": {"gpuModel": "A100"}}}, 422, "gpu-model-without-gpus"),
        ({"spec": JOB | {"deadlineAt": 5.0}}, 422, "deadline-passed"),
        ({"spec": JOB, "nonsense": 1}, 422, "unknown-field"),
        ({"spec": JOB, "tenantId": "other"}, 403, "tenant-mismatch"),
    ],
)
async def test_a_plan_refuses_what_a_submission_refuses(world: World, body: Any, status: int, code: str) -> None:
    async with world.client() as client:
        for path in ("/v1/plan", "/v1/jobs"):
            refused = await client.post(path, json=body)
            assert (refused.status_code, refused.json()["code"]) == (status, code)


async def test_a_submission_warns_of_what_can_never_start(world: World) -> None:
    await join(world, node("n1"))
    async with world.client() as client:
        warned = await submit(client, resources={"gpus": 9})
        assert [(one["code"], one["remedy"]) for one in warned["warnings"]] == [("INFEASIBLE_GPU", "yours")]
        assert "n1, has 4" in warned["warnings"][0]["message"]
        assert (await submit(client, resources={"gpus": 4}))["warnings"] == []


async def test_jobs_of_a_batch_that_ask_alike_are_looked_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    never = core_explain.infeasible

    def counted(*arguments: Any) -> Any:
        looked.append(arguments[1])
        return never(*arguments)

    monkeypatch.setattr("ares.control.queries.explain.infeasible", counted)
    await join(world, node("n1"))
    specs = [{"command": ["run", str(n)], "resources": {"gpus": 9 if n % 2 else 1}} for n in range(50)]
    async with world.client() as client:
        jobs: list[Any] = [{"spec": spec} for spec in specs] + [{"spec": {"command": 5}}]
        results = (await client.post("/v1/jobs/batch", json={"jobs": jobs})).json()["results"]
    assert [len(one["warnings"]) for one in results] == [0, 1] * 25 + [0]
    assert len(looked) == 2


async def test_prio_is_in_order_and_of_the_own_tenant(world: World) -> None:
    async with world.client() as mine, world.client(tenant="other") as other, world.client("admin") as admin:
        low = (await submit(mine, priority="LOW"))["id"]
        high = (await submit(mine, priority="HIGH"))["id"]
        theirs = (await submit(other))["id"]
        rows = (await mine.get("/v1/prio")).json()["jobs"]
        assert [row["job"] for row in rows] == [high, low]
        for row in rows:
            primary = sum(factor["product"] for factor in row["factors"] if factor["sum"] == "primary")
            assert row["rank"] == pytest.approx(primary)
        everybody = (await admin.get("/v1/prio")).json()["jobs"]
        assert [row["job"] for row in everybody] == [high, theirs, low]
        assert [row["job"] for row in (await mine.get("/v1/prio?limit=1")).json()["jobs"]] == [high]
        assert (await mine.get("/v1/prio?limit=0")).status_code == 422


async def test_a_replay_with_other_weights_goes_elsewhere(world: World) -> None:
    """The dear node is in the zone it prefers: at which weight of money is it not worth it any more?"""
    await join(
        world, node("cheap", pool="spot", labels={"zone": "b"}), node("dear", pool="owned", labels={"zone": "a"})
    )
    prices = {"spot": Pool(gpu_hour=1.0), "owned": Pool(gpu_hour=4.0)}
    weights = (Weight(name="affinity", weight=20.0), Weight(name="cost", weight=10.0))
    await configure(world, Profile(pools=prices, scorers=weights))
    wish = [{"key": "zone", "values": ["a"], "required": False}]
    async with world.client() as client, world.client(tenant="other") as other, scheduling(world):
        job = (await submit(client, resources={"gpus": 1}, affinity=wish))["id"]
        assert await placed(client, job) == "dear"
        before = await revision(world)
        same = (await client.post(f"/v1/decisions/{job}/replay", json={"weights": {}})).json()
        assert (same["same"], same["chosen"], same["chosenAgain"]) == (True, ["dear"], ["dear"])
        moved = (await client.post(f"/v1/decisions/{same['decision']}/replay", json={"weights": {"cost": 500}})).json()
        assert (moved["same"], moved["chosen"], moved["chosenAgain"]) == (False, ["dear"], ["cheap"])
        assert [one["node"] for one in moved["nodes"]] == ["cheap", "dear"]
        for one in moved["nodes"]:
            assert one["score"] == pytest.approx(sum(one["parts"].values()))
        assert await revision(world) == before
        unknown = await client.post(f"/v1/decisions/{job}/replay", json={"weights": {"luck": 1}})
        assert (unknown.status_code, unknown.json()["path"]) == (422, "$.weights")
        assert "'luck'" in unknown.json()["detail"]
        for asker, name in ((other, job), (client, MISSING)):
            assert (await asker.post(f"/v1/decisions/{name}/replay", json={"weights": {}})).status_code == 404


async def test_preemptions_are_told_to_the_one_they_happened_to(world: World) -> None:
    record = {"rule": "priority", "why": "to make room for a more important job", "for": {"priority": "CRITICAL"}}
    async with world.client() as client, world.client(tenant="other") as other:
        job = (await submit(client))["id"]
        assert (await client.get(f"/v1/jobs/{job}/preemptions")).json() == {"events": []}
        running = await world.start_job(job)
        await world.apply(job, Preempt(fence=running.fence, by="a job of another tenant", reason="why", record=record))
        (told,) = (await client.get(f"/v1/jobs/{job}/preemptions")).json()["events"]
        assert (told["kind"], told["reason"], told["data"]["rule"]) == ("preempted", "why", "priority")
        assert (await other.get(f"/v1/jobs/{job}/preemptions")).status_code == 404
