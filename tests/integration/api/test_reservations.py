"""Reservations and pools over HTTP: who may, what is answered, what is refused."""

from typing import Any

import httpx2
import pytest
from msgspec.json import encode

from ares.core import keys
from ares.model.node import Gpu, NodeInfo, NodeLease, NodeRecord
from ares.ports.store import Put
from tests.integration.api.world import World


async def add_node(world: World, name: str = "n1", gpus: int = 4, pool: str = "default") -> None:
    cards = tuple(Gpu(index=n, uuid=f"{name}.{n}", model="NVIDIA H100", memory_mib=80_000) for n in range(gpus))
    info = NodeInfo(name=name, cpu_milli=16_000, memory_mib=64_000, gpus=cards, pool=pool)
    record = NodeRecord(info=info, incarnation=1, registered_at=0.0)
    lease = NodeLease(node=name, incarnation=1, replica="r1")
    await world.store.txn([], [Put(keys.node(name), encode(record)), Put(keys.lease(name), encode(lease))])
    await world.view.catch_up()


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "")


BODY: dict[str, Any] = {"asked": {"gpus": 2, "gpuModel": "H100"}, "lengthS": 3600, "name": "demo"}


async def test_a_reservation_is_booked_looked_at_extended_and_cancelled(world: World) -> None:
    await add_node(world)
    async with world.client("admin") as admin, world.client("viewer", tenant="other") as other:
        made = await admin.post("/v1/reservations", json=BODY)
        assert made.status_code == 201
        assert (made.json()["state"], made.json()["tenant"], made.json()["gpus"]) == ("planned", "acme", 2)
        assert code(await admin.post("/v1/reservations", json=BODY)) == (409, "reservation-conflict")
        more = await admin.post("/v1/reservations", json={**BODY, "name": "more", "asked": {"gpus": 3}})
        assert code(more) == (409, "reservation-no-room")
        assert "of 3 GPUs 2 can be had" in more.json()["detail"]
        assert "book 2 GPUs" in more.json()["fix"]
        (seen,) = (await other.get("/v1/reservations")).json()["reservations"]
        assert (seen["name"], seen["gpus"], seen["until"]) == ("", 2, made.json()["until"])
        assert code(await other.get("/v1/reservations/demo")) == (404, "not-found")
        longer = await admin.post("/v1/reservations/demo/extend", json={"moreS": 60})
        assert longer.json()["until"] == pytest.approx(made.json()["until"] + 60)
        assert (await admin.delete("/v1/reservations/demo?reason=over")).json()["history"][-1]["why"] == "over"
        assert (await admin.get("/v1/reservations")).json()["reservations"] == []
        (gone,) = (await admin.get("/v1/reservations?over=true")).json()["reservations"]
        assert gone["state"] == "cancelled"
        assert code(await admin.delete("/v1/reservations/demo")) == (409, "reservation-conflict")
        assert code(await admin.delete("/v1/reservations/none")) == (404, "not-found")


async def test_only_administrators_book(world: World) -> None:
    await add_node(world)
    async with world.client("submitter") as worker:
        assert code(await worker.post("/v1/reservations", json=BODY)) == (403, "forbidden")
        assert code(await worker.post("/v1/reservations/x/extend", json={"moreS": 1})) == (403, "forbidden")
        assert code(await worker.delete("/v1/reservations/x")) == (403, "forbidden")
        assert (await worker.get("/v1/reservations")).status_code == 200


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"asked": {"gpus": 5}}, (422, "reservation-invalid"), "4 could be had even if everything were free"),
        ({"asked": {}}, (422, "reservation-invalid"), "asks for no GPUs, CPUs or nodes"),
        ({"asked": {"gpus": 1, "pool": "gold"}}, (422, "reservation-invalid"), "there is no pool 'gold'"),
        ({"tenant": "nobody"}, (422, "reservation-invalid"), "nobody has heard of tenant 'nobody'"),
        ({"start": 5.0}, (422, "reservation-invalid"), "it would begin"),
        ({"lengthS": 0}, (422, "invalid"), "lengthS"),
        ({"asked": {"gpu": 5}}, (422, "unknown-field"), "unknown field 'gpu'"),
        ({"name": "Not A Slug"}, (422, "invalid"), "name"),
    ],
)
async def test_what_cannot_be_booked(world: World, change: dict[str, Any], status: tuple[int, str], said: str) -> None:
    await add_node(world)
    async with world.client("admin") as admin:
        answer = await admin.post("/v1/reservations", json={**BODY, **change})
        assert code(answer) == status
        assert said in answer.text


async def test_a_job_names_a_reservation_of_its_tenant(world: World) -> None:
    await add_node(world)
    spec = {"command": ["true"], "reservation": "demo", "resources": {"gpus": 1}}
    async with world.client("admin") as admin, world.client("submitter", tenant="other") as other:
        assert code(await admin.post("/v1/jobs", json={"spec": spec})) == (422, "reservation-unknown")
        await admin.post("/v1/reservations", json=BODY)
        assert (await admin.post("/v1/jobs", json={"spec": spec})).status_code == 201
        assert code(await other.post("/v1/jobs", json={"spec": spec})) == (422, "reservation-unknown")
        large = {**spec, "resources": {"gpus": 3}}
        refused = await admin.post("/v1/jobs", json={"spec": large})
        assert code(refused) == (422, "reservation-too-small")
        assert refused.json()["detail"] == "it asks for 3 GPUs, and reservation demo has 2"


async def test_pools_say_what_is_booked_and_when_jobs_would_start(world: World) -> None:
    await add_node(world)
    await add_node(world, "n2", gpus=0, pool="cpu")
    async with world.client("admin") as admin, world.client("viewer", tenant="other") as other:
        await admin.patch("/v1/profile", json={"settings": {"pools.default.gpu_hour": "2.5"}})
        booked = (await admin.post("/v1/reservations", json={**BODY, "start": 4_000_000_000.0})).json()
        assert booked["code"] == "reservation-invalid"
        booked = (await admin.post("/v1/reservations", json=BODY)).json()
        cpu, gpu = (await other.get("/v1/nodepools")).json()["nodepools"]
        assert (cpu["name"], gpu["name"], gpu["terms"]["gpuHour"]) == ("cpu", "default", 2.5)
        assert gpu["reservations"][0] | {"name": "", "gpus": 2} == gpu["reservations"][0]
        shapes = {one["shape"]["words"]: one for one in gpu["shapes"]}
        assert list(shapes) == ["1 GPU", "2 GPUs", "4 GPUs", "1 whole node"]
        assert shapes["2 GPUs"]["starts"]["basis"] == "there is room now, for a job of 1 h"
        assert shapes["4 GPUs"]["starts"]["earliest"] == pytest.approx(booked["until"])
        assert [one["shape"]["words"] for one in cpu["shapes"]] == ["1 CPU", "1 whole node"]
        asked = await other.get("/v1/nodepools/default?gpus=2&ranks=3&gpuModel=H100")
        (shape,) = asked.json()["shapes"]
        assert (shape["shape"]["words"], shape["starts"]) == ("3 x 2 H100", None)
        assert "needs room for 3 ranks" in shape["never"]
        assert code(await other.get("/v1/nodepools/none")) == (404, "not-found")
        assert code(await other.get("/v1/nodepools?gpus=-1")) == (422, "invalid")
