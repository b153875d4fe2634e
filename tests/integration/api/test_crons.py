"""Schedules over HTTP, and what the leader makes of them: one job for each moment, whatever happens."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from ares.control.access.account_check import AccountCheck
from ares.control.submit.cron_loop import CronLoop
from ares.control.submit.draft import AcceptedJob, SubmitRequest
from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.cron import CronRecord
from ares.ports.store import Delete, Put, StoreError, StoreUnavailable
from tests.integration.api.world import JOB, ROOT, World

DAILY: dict[str, Any] = {"schedule": "0 3 * * *", "spec": JOB, "zone": "Europe/Berlin"}
EVERY_MINUTE: dict[str, Any] = {"schedule": "* * * * *", "spec": JOB}


@contextlib.asynccontextmanager
async def leading(world: World, count: int = 1) -> AsyncGenerator[None]:
    """So many leaders' loops at once: of two, both may take themselves for the one."""
    services, standing = world.services, AccountCheck(world.store, world.view)
    loops = [
        CronLoop(
            world.store, world.view, services.submit, world.transitions, standing, services.alerts,
            services.clock,
        )
        for _ in range(count)
    ]  # fmt: skip
    tasks = [asyncio.create_task(loop.run()) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def turn_back(world: World, name: str, seconds: float, **changes: Any) -> None:
    """As if the schedule had last been looked at so long ago."""
    key = keys.cron("acme", name)
    kv = await world.store.get(key)
    assert kv is not None
    record = msgspec.json.decode(kv.value, type=CronRecord)
    changed = msgspec.structs.replace(record, considered_at=time.time() - seconds, **changes)
    await world.store.txn([], [Put(key, msgspec.json.encode(changed))])
    await world.view.catch_up()


async def settled(world: World, name: str, count: int = 1) -> CronRecord:
    while True:
        record = world.view.kept.crons[f"acme/{name}"]
        if len(record.history) >= count or record.paused:
            return record
        await asyncio.sleep(0.01)


async def test_a_schedule_is_made_shown_paused_and_removed(world: World) -> None:
    async with world.client() as client, world.client(tenant="other") as other, world.client() as colleague:
        made = await client.put("/v1/crons/nightly", json=DAILY)
        assert made.status_code == 200, made.text
        assert (made.json()["paused"], made.json()["overlap"], made.json()["missed"]) == ("", "forbid", "skip")
        assert len(made.json()["nextAt"]) == 3
        (listed,) = (await colleague.get("/v1/crons")).json()["crons"]
        assert listed["name"] == "nightly"
        paused = await client.post("/v1/crons/nightly/pause", json={"reason": "holidays"})
        assert (paused.json()["paused"], paused.json()["nextAt"]) == ("holidays", [])
        assert (await client.post("/v1/crons/nightly/resume")).json()["paused"] == ""
        for answer in (
            await colleague.put("/v1/crons/nightly", json=DAILY), await colleague.delete("/v1/crons/nightly"),
            await colleague.post("/v1/crons/nightly/pause"),
        ):  # fmt: skip
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert (await other.get("/v1/crons/nightly")).status_code == 404
        assert (await other.delete("/v1/crons/nightly")).status_code == 404
        assert (await other.get("/v1/crons")).json()["crons"] == []
        assert (await client.delete("/v1/crons/nightly")).status_code == 204
        assert (await client.get("/v1/crons/nightly")).status_code == 404


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"schedule": "61 * * * *"}, "cron-invalid"),
        ({"schedule": "0 0 30 2 *"}, "cron-invalid"),
        ({"zone": "Europe/Atlantis"}, "cron-invalid"),
        ({"zone": "../../etc/passwd"}, "invalid"),
        ({"spec": {**JOB, "deadlineAt": 1e9}}, "cron-invalid"),
        ({"spec": {"command": [" "]}}, "command-empty"),
        ({"overlap": "queue"}, "invalid"),
        ({"colour": "red"}, "unknown-field"),
    ],
)
async def test_what_is_no_schedule_is_refused(world: World, change: dict[str, Any], code: str) -> None:
    async with world.client() as client:
        no = await client.put("/v1/crons/x", json={**DAILY, **change})
        assert (no.status_code, no.json()["code"]) == (422, code)
        assert (await client.put("/v1/crons/Not_A_Name", json=DAILY)).status_code == 404


async def test_each_moment_makes_one_job_however_many_leaders_there_are(world: World) -> None:
    async with world.client() as client:
        assert (await client.put("/v1/crons/often", json={**EVERY_MINUTE, "missed": "once"})).status_code == 200
        async with leading(world, 3):
            await turn_back(world, "often", 300.0)
            record = await settled(world, "often")
        jobs = (await client.get("/v1/jobs")).json()["jobs"]
        assert [firing.job for firing in record.history] == [jobs[0]["id"]]
        assert (len(jobs), jobs[0]["requestId"]) == (1, f"cron often {record.history[0].at:.0f}")
        shown = (await client.get("/v1/crons/often")).json()
        assert (shown["history"][0]["outcome"], shown["history"][0]["job"]) == ("fired", jobs[0]["id"])


async def test_a_leader_that_died_after_submitting_leaves_one_job(world: World) -> None:
    async with world.client() as client:
        assert (await client.put("/v1/crons/often", json={**EVERY_MINUTE, "missed": "once"})).status_code == 200
        await turn_back(world, "often", 300.0)
        async with leading(world):
            first = await settled(world, "often")
        # The job is there, and the record says nothing of it.
        await turn_back(world, "often", first.history[0].done_at - first.history[0].at + 90.0, history=())
        async with leading(world):
            again = await settled(world, "often")
        moments = {firing.at for firing in (*first.history, *again.history)}
        assert len((await client.get("/v1/jobs")).json()["jobs"]) == len(moments)


async def test_a_job_that_was_made_and_not_noted_is_not_overlapped(world: World) -> None:
    async with world.client() as client:
        assert (await client.put("/v1/crons/often", json={**EVERY_MINUTE, "missed": "once"})).status_code == 200
        async with leading(world):
            await turn_back(world, "often", 300.0)
            first = (await settled(world, "often")).history[0]
        # As if it had been made two minutes earlier by a leader that died before it noted the job.
        at, earlier = (keys.request("acme", f"cron often {first.at - ago:.0f}") for ago in (0.0, 120.0))
        kv = await world.store.get(at)
        assert kv is not None
        await world.store.txn([], [Put(earlier, kv.value), Delete(at)])
        await turn_back(world, "often", time.time() - first.at + 180.0, history=(), overlap="forbid")
        async with leading(world):
            again = await settled(world, "often", 2)
        assert [(firing.outcome, firing.job) for firing in again.history[:2]] == [
            ("fired", first.job), ("overlap", first.job),
        ]  # fmt: skip
        assert len((await client.get("/v1/jobs")).json()["jobs"]) == 1


async def test_missed_moments_are_skipped_unless_asked_for(world: World) -> None:
    async with world.client() as client:
        skips = {**EVERY_MINUTE, "schedule": "0 0 1 1 *"}
        assert (await client.put("/v1/crons/yearly", json=skips)).status_code == 200
        async with leading(world):
            await turn_back(world, "yearly", 400 * 86_400.0)
            record = await settled(world, "yearly")
        assert [firing.outcome for firing in record.history] == ["missed"]
        assert (await client.get("/v1/jobs")).json()["jobs"] == []


async def test_overlaps(world: World) -> None:
    async with world.client() as client:
        for overlap, outcome, phase in (("forbid", "overlap", "PENDING"), ("replace", "fired", "CANCELLED")):
            body = {**EVERY_MINUTE, "missed": "once", "overlap": overlap}
            assert (await client.put(f"/v1/crons/{overlap}", json=body)).status_code == 200
            async with leading(world):
                await turn_back(world, overlap, 300.0)
                first = (await settled(world, overlap)).history[0]
                await turn_back(world, overlap, 130.0)
                second = (await settled(world, overlap, 2)).history[-1]
            if second.at == first.at:
                # The same moment again is the same job.
                assert second.job == first.job
                continue
            assert second.outcome == outcome
            assert (await client.get(f"/v1/jobs/{first.job}")).json()["state"]["phase"] == phase


async def test_a_schedule_whose_owner_lost_its_rights_is_paused_with_an_alert(world: World) -> None:
    token = await world.token()
    async with world.client_with(token) as client, world.client("tenant-admin") as admin:
        assert (await client.put("/v1/crons/often", json={**EVERY_MINUTE, "missed": "once"})).status_code == 200
        owner = world.view.kept.crons["acme/often"].owner
        assert not isinstance(await world.services.tokens.revoke(ROOT, owner.token_id), Refusal)
        await world.view.catch_up()
        async with leading(world):
            await turn_back(world, "often", 300.0)
            record = await settled(world, "often")
        assert "may not submit jobs any more" in record.paused
        assert (await admin.get("/v1/jobs")).json()["jobs"] == []
        alerts = (await admin.get("/v1/alerts")).json()["alerts"]
        assert [alert["kind"] for alert in alerts] == ["cron-paused"]


async def test_a_schedule_made_with_a_users_token_ends_with_the_token(world: World) -> None:
    async with world.client("tenant-admin") as admin:
        assert (await admin.post("/v1/users", json={"name": "ann", "role": "submitter"})).status_code == 201
        made = await world.services.tokens.create(
            ROOT, tenant="acme", role="submitter", name="leaked", ttl_s=None, user="ann"
        )
        assert not isinstance(made, Refusal)
        async with world.client_with(made[0]) as client:
            assert (await client.put("/v1/crons/often", json={**EVERY_MINUTE, "missed": "once"})).status_code == 200
        assert world.view.kept.crons["acme/often"].owner.user == "ann"
        assert not isinstance(await world.services.tokens.revoke(ROOT, made[1].id), Refusal)
        await world.view.catch_up()
        async with leading(world):
            await turn_back(world, "often", 300.0)
            record = await settled(world, "often")
        assert "may not submit jobs any more" in record.paused
        assert (await admin.get("/v1/jobs")).json()["jobs"] == []


async def test_a_firing_that_a_quota_refuses_is_told(world: World) -> None:
    async with (
        world.client() as client,
        world.client("operator", "ops") as operator,
        world.client("tenant-admin") as admin,
    ):
        limits = {"amounts": {"cpu": {"hard": 0.5}}, "threshold": 1.0}
        assert (await operator.patch("/v1/tenants/acme/quota", json=limits)).status_code == 200
        assert (await client.put("/v1/crons/often", json={**EVERY_MINUTE, "missed": "once"})).status_code == 200
        async with leading(world):
            await turn_back(world, "often", 300.0)
            record = await settled(world, "often")
            while not (alerts := (await admin.get("/v1/alerts")).json()["alerts"]):
                await asyncio.sleep(0.01)
        assert (record.history[0].outcome, record.history[0].job) == ("refused", "")
        assert "quota-too-small" in record.history[0].message
        assert alerts[0]["kind"] == "cron-refused"


async def test_a_schedule_leaves_room_for_what_is_noted_in_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.control.submit.crons.VALUE_BYTES_MAX", (64 << 10) + 10_000)
    async with world.client() as client:
        assert (await client.put("/v1/crons/large", json=DAILY)).status_code == 200
        large = {**DAILY, "spec": {**JOB, "env": {"LONG": "x" * 10_000}}}
        no = await client.put("/v1/crons/large", json=large)
        assert no.json()["code"] == "too-large", no.text
        # It stays as it was.
        assert "LONG" not in (await client.get("/v1/crons/large")).text


@pytest.mark.parametrize("trouble", [StoreUnavailable("queue-full"), StoreError("too large"), KeyError("a defect")])
async def test_a_schedule_that_fails_holds_up_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    async with world.client() as client:
        for name in ("a-broken", "b-sound"):
            assert (await client.put(f"/v1/crons/{name}", json={**EVERY_MINUTE, "missed": "once"})).status_code == 200
            await turn_back(world, name, 300.0)
        submit = world.services.submit.submit

        async def failing(who: Principal, requests: list[SubmitRequest]) -> list[AcceptedJob | Refusal]:
            if requests[0].note == "cron a-broken":
                raise trouble
            return await submit(who, requests)

        monkeypatch.setattr(world.services.submit, "submit", failing)
        async with leading(world):
            record = await settled(world, "b-sound")
            assert [firing.outcome for firing in record.history] == ["fired"]
            # It leads on.
            await turn_back(world, "b-sound", 300.0, history=())
            await settled(world, "b-sound")
        assert world.view.kept.crons["acme/a-broken"].history == ()


async def test_a_tenant_has_a_bounded_number_of_schedules(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.control.submit.crons.CRONS_PER_TENANT_MAX", 2)
    async with world.client() as client, world.client(tenant="other") as other:
        for name in ("a", "b", "a"):
            assert (await client.put(f"/v1/crons/{name}", json=DAILY)).status_code == 200
        full = await client.put("/v1/crons/c", json=DAILY)
        assert (full.status_code, full.json()["code"]) == (409, "crons-full")
        assert (await other.put("/v1/crons/c", json=DAILY)).status_code == 200
