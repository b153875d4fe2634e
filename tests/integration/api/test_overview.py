"""The overview and the map of GPUs: counts that are true, and no names of other tenants."""

import msgspec
import pytest

from ares.control.queries import overview
from ares.control.state.pacing import WORKED_ON
from ares.core import keys
from ares.core.lifecycle.inputs import Bind, RankStarted
from ares.model.node import Gpu, NodeInfo, NodeRecord
from ares.model.state import Placement
from ares.ports.store import Put
from tests.integration.api.world import JOB, World

GPUS = tuple(Gpu(index=index, uuid=f"GPU-{index}", model="A100", memory_mib=40_960) for index in range(4))


async def machine(world: World) -> None:
    info = NodeInfo(name="n1", cpu_milli=8000, memory_mib=65_536, gpus=GPUS, pool="main")
    record = NodeRecord(info=info, incarnation=1, registered_at=0.0)
    await world.store.txn([], [Put(keys.node("n1"), msgspec.json.encode(record))])
    await world.view.catch_up()


async def running(world: World, tenant: str, gpus: tuple[int, ...], *, gpu_milli: int = 1000) -> str:
    async with world.client("submitter", tenant) as client:
        job = (await client.post("/v1/jobs", json={"spec": {**JOB, "name": f"of-{tenant}"}})).json()["id"]
    place = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=256, gpus=gpus, gpu_milli=gpu_milli)
    bound = await world.apply(job, Bind(placements=(place,)), tenant=tenant)
    await world.apply(job, RankStarted(fence=bound.fence), tenant=tenant)
    return job


async def test_jobs_are_counted_for_their_tenant_as_they_change(world: World) -> None:
    await machine(world)
    async with world.client("viewer", "acme") as acme, world.client("viewer", "other") as other:
        assert (await acme.get("/v1/overview")).json()["jobs"] == {}
        await running(world, "acme", (0, 1))
        world.services.overviews._looks._kept.clear()  # pyright: ignore[reportPrivateUsage]  # one look is good for a second
        seen = (await acme.get("/v1/overview")).json()
        assert seen["jobs"] == {"RUNNING": 1}
        assert (seen["gpus"], seen["gpusHeld"], seen["nodes"], seen["nodesReady"]) == (4, 2, 1, 0)
        assert seen["tenants"] == []
        mine = (await other.get("/v1/overview")).json()
        assert mine["jobs"] == {}
        assert mine["gpusHeld"] == 2, "machines are the platform's"


async def test_a_long_queue_of_one_tenant_is_looked_at_in_strides(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reason takes a while, and other requests come in between."""
    for number in range(4 * WORKED_ON):
        # Every other kind of job is another tenant's.
        async with world.client("submitter", "acme" if number % 2 == 0 else "other") as client:
            spec = {**JOB, "resources": {"cpuMilli": 1000 + number}}
            assert (await client.post("/v1/jobs", json={"spec": spec})).status_code == 201
    await world.view.catch_up()
    breaths = 0

    async def breathe() -> None:
        nonlocal breaths
        breaths += 1

    monkeypatch.setattr(overview, "breathe", breathe)
    async with world.client("viewer", "acme") as client:
        seen = (await client.get("/v1/overview")).json()
    assert sum(group["jobs"] for group in seen["waiting"]) == 2 * WORKED_ON
    assert breaths == 2


async def test_the_counts_are_those_of_the_list(world: World) -> None:
    async with world.client("submitter", "acme") as client:
        await client.get("/v1/overview")
        made = [(await client.post("/v1/jobs", json={"spec": JOB})).json()["id"] for _ in range(4)]
        await client.post(f"/v1/jobs/{made[0]}/cancel")
        await world.finish_job(await world.start_job(made[1]))
        await world.finish_job(await world.start_job(made[2]), code=1)
        world.services.overviews._looks._kept.clear()  # pyright: ignore[reportPrivateUsage]
        counts = (await client.get("/v1/overview")).json()["jobs"]
        listed = (await client.get("/v1/jobs")).json()["jobs"]
        for phase in {job["phase"] for job in listed} | set(counts):
            assert counts.get(phase, 0) == sum(job["phase"] == phase for job in listed), phase


async def test_why_jobs_wait_is_told_to_their_tenant_alone(world: World) -> None:
    async with world.client("submitter", "acme") as acme, world.client("viewer", "other") as other:
        job = (await acme.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        (group,) = (await acme.get("/v1/overview")).json()["waiting"]
        assert (group["code"], group["remedy"], group["jobs"], group["example"]) == ("NO_NODES", "operator", 1, job)
        assert (await other.get("/v1/overview")).json()["waiting"] == []
        assert (await other.get("/v1/overview")).json()["oldestJob"] == ""


async def test_roles_that_see_every_tenant_are_told_which_are_busy(world: World) -> None:
    await running(world, "acme", ())
    await running(world, "other", ())
    async with world.client("operator", "acme") as operator:
        busy = (await operator.get("/v1/overview")).json()["tenants"]
        assert {each["tenant"]: each["jobs"] for each in busy} == {"acme": {"RUNNING": 1}, "other": {"RUNNING": 1}}


async def test_the_map_shows_what_is_held_and_names_only_own_jobs(world: World) -> None:
    await machine(world)
    own, foreign = await running(world, "acme", (0,)), await running(world, "other", (1,), gpu_milli=500)
    async with world.client("viewer", "acme") as client:
        answer = await client.get("/v1/gpus")
        found = answer.json()
        assert found["heldMilli"] == [1000, 500, 0, 0]
        assert found["job"] == [0, -1, -1, -1]
        assert [job["id"] for job in found["jobs"]] == [own]
        assert foreign not in answer.text
        assert "other" not in answer.text
        (node,) = found["nodes"]
        assert (node["name"], node["first"], node["gpus"], node["ready"]) == ("n1", 0, 4, False)
    async with world.client("operator", "acme") as operator:
        found = (await operator.get("/v1/gpus")).json()
        assert {job["tenant"] for job in found["jobs"]} == {"acme", "other"}
