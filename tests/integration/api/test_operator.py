"""Profiles, plugins, drain, taints and consolidation over HTTP."""

from typing import Any

import httpx2
import pytest
from msgspec.json import encode

from ares.control.scheduler.profiles import VERSIONS_KEPT
from ares.core import keys
from ares.model.node import NodeInfo, NodeLease, NodeRecord
from ares.ports.store import Delete, Put
from tests.integration.api.world import World


async def add_node(world: World, name: str = "n1") -> None:
    record = NodeRecord(info=NodeInfo(name=name, cpu_milli=4000, memory_mib=4096), incarnation=1, registered_at=0.0)
    await world.store.txn([], [Put(keys.node(name), encode(record))])


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "")


async def test_a_profile_is_changed_looked_at_and_reverted(world: World) -> None:
    async with world.client("admin") as admin, world.client("viewer", tenant="other") as viewer:
        assert (await viewer.get("/v1/profile")).json()["version"] == 0
        settings = {"weight.cost": "0.3", "shares.acme.weight": "2", "shares.other.hard.gpu": "8000"}
        first = await admin.patch("/v1/profile", json={"settings": settings, "note": "cheap first"})
        assert first.json()["version"] == 1
        seen = (await viewer.get("/v1/profile")).json()
        assert seen["profile"]["shares"] == {"other": {"weight": 1.0, "soft": {}, "hard": {"gpu": 8000}}}
        assert {"name": "cost", "weight": 0.3} in seen["profile"]["scorers"]
        whole = {"profile": {"maxPlacementsPerCycle": 7}, "expectedVersion": 1}
        assert (await admin.put("/v1/profile", json=whole)).json()["version"] == 2
        assert code(await admin.put("/v1/profile", json=whole)) == (409, "profile-conflict")
        back = (await admin.post("/v1/profiles/1/revert")).json()
        assert (back["version"], back["note"]) == (3, "version 1 again")
        versions = (await admin.get("/v1/profiles")).json()["profiles"]
        assert [one["version"] for one in versions] == [3, 2, 1]
        assert versions[-1]["note"] == "cheap first"
        assert code(await admin.post("/v1/profiles/77/revert")) == (404, "not-found")
        assert b"ares_profile_version 3.0" in (await world.services.metrics(False))
        assert len(versions) <= VERSIONS_KEPT


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"profile": {"shares": {"acme": {"wieght": 2}}}}, (422, "unknown-field"), "unknown field 'wieght'"),
        ({"profile": {"pools": {"spot": {"gpuHour": -1}}}}, (422, "invalid"), ">= 0.0"),
        ({"profile": {"filters": ["moon"]}}, (422, "profile-invalid"), "no filter is called 'moon'"),
        ({"profile": {"actions": ["claim"]}}, (422, "profile-invalid"), "no 'allocate'"),
    ],
)
async def test_a_profile_that_makes_no_sense_is_refused(
    world: World, body: dict[str, Any], status: tuple[int, str], said: str
) -> None:
    async with world.client("admin") as admin:
        answer = await admin.put("/v1/profile", json=body)
        assert code(answer) == status
        assert said in answer.json()["detail"]
        assert (await admin.get("/v1/profile")).json()["version"] == 0


async def test_only_administrators_change_the_profile_and_machines(world: World) -> None:
    await add_node(world)
    async with world.client("submitter") as submitter:
        for answer in (
            await submitter.patch("/v1/profile", json={"settings": {"weight.cost": "1"}}),
            await submitter.post("/v1/profiles/0/revert"),
            await submitter.post("/v1/nodes/n1/drain"),
            await submitter.post("/v1/nodes/n1/taints", json={"key": "a"}),
            await submitter.delete("/v1/nodes/n1"),
            await submitter.post("/v1/consolidations", json={"gpus": 1}),
        ):
            assert code(answer) == (403, "forbidden")
        assert (await submitter.get("/v1/plugins")).status_code == 200


async def test_plugins_are_listed_with_their_origin_and_use(world: World) -> None:
    async with world.client("viewer") as viewer:
        listed = (await viewer.get("/v1/plugins")).json()["plugins"]
        by_name = {(one["kind"], one["name"]): one for one in listed}
        fit = {"kind": "scorer", "name": "fit", "origin": "ares", "used": True, "cutOff": ""}
        assert by_name["scorer", "fit"] == fit
        assert by_name["order", "fifo"]["used"] is False


async def test_a_node_is_drained_tainted_and_let_back(world: World) -> None:
    await add_node(world)
    async with world.client("admin") as admin:
        assert code(await admin.get("/v1/nodes/n1/drain")) == (404, "not-found")
        drained = (await admin.post("/v1/nodes/n1/drain", json={"reason": "new disk"})).json()
        assert (drained["by"].split()[0], drained["reason"], drained["done"]) == ("admin", "new disk", True)
        assert (await admin.get("/v1/nodes/n1")).json()["drainedBy"].split()[0] == "admin"
        assert (await admin.get("/v1/nodes/n1/drain")).json() == drained
        taint = {"key": "disk", "value": "old", "effect": "no-schedule"}
        assert (await admin.post("/v1/nodes/n1/taints", json=taint)).json()["taints"] == [taint]
        again = (await admin.post("/v1/nodes/n1/taints", json={"key": "disk", "value": "older"})).json()
        assert again["taints"] == [{**taint, "value": "older"}]
        assert (await admin.delete("/v1/nodes/n1/taints?key=disk")).json()["taints"] == []
        back = (await admin.post("/v1/nodes/n1/undrain")).json()
        assert (back["drainedBy"], back["cordoned"]) == ("", False)
        assert code(await admin.post("/v1/nodes/nobody/drain")) == (404, "not-found")


async def test_a_node_that_is_gone_is_removed(world: World) -> None:
    await add_node(world)
    alive = NodeLease(node="n1", incarnation=1)
    await world.store.txn([], [Put(keys.lease("n1"), encode(alive))])
    async with world.client("admin") as admin:
        refused = await admin.delete("/v1/nodes/n1")
        assert code(refused) == (409, "node-in-use")
        assert "was heard of" in refused.json()["detail"]
        await world.store.txn([], [Delete(keys.lease("n1"))])
        assert (await admin.delete("/v1/nodes/n1")).json()["name"] == "n1"
        assert code(await admin.get("/v1/nodes/n1")) == (404, "not-found")
        assert code(await admin.delete("/v1/nodes/n1")) == (404, "not-found")


async def test_a_plan_is_carried_out_only_by_its_name(world: World) -> None:
    await add_node(world)
    async with world.client("admin") as admin:
        plan = (await admin.post("/v1/consolidations", json={"gpus": 1})).json()
        assert (plan["moves"], plan["applied"]) == ([], False)
        answer = await admin.post("/v1/consolidations", json={"gpus": 1, "apply": True})
        assert code(answer) == (422, "invalid")
        assert answer.json()["path"] == "$.revision"
