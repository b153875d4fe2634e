"""Room booked ahead on a real node: others wait for it or are done before it, its own job has it, unused it is free."""

import json
import time

import pytest

from ares.edge.client.sync import Client
from ares.model.job import JobSpec, Resources
from tests.platform import Platform, eventually

pytestmark = pytest.mark.slow

AHEAD_S = 12.0


def job(gpus: int, **more: object) -> JobSpec:
    wants = Resources(cpu_milli=100, memory_mib=32, gpus=gpus)
    return JobSpec(command=("true",), resources=wants, **more)  # type: ignore[arg-type]


def why(client: Client, job_id: str) -> str:
    waiting = client.get(job_id).waiting
    return "" if waiting is None else f"{waiting.code}: {waiting.message}"


def waits_for(client: Client, job_id: str, reason: str, until: float) -> None:
    def told() -> bool | None:
        return why(client, job_id).startswith(reason) or time.time() >= until or None

    eventually(told, f"{job_id} waits for {reason}")


def test_a_reservation_from_booking_to_release(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a", gpus=2)
    admin = platform.client()
    admin.create_tenant("beta")
    beta = platform.client(token=admin.create_token(tenant="beta", name="ci").token)

    booked = platform.cli(
        "reserve", "--gpus", "2", "--from", f"+{AHEAD_S:g}s", "--for", "10m", "--tenant", "beta", "--name", "demo",
        "-o", "json",
    )  # fmt: skip
    assert booked.code == 0, booked
    demo = json.loads(booked.out)
    assert (demo["state"], demo["gpus"], demo["placements"][0]["gpus"]) == ("planned", 2, [0, 1])

    foreign = admin.submit(job(1))
    inside = beta.submit(job(2, reservation="demo", time_limit_s=300.0))
    short = admin.submit(job(2, expected_runtime_s=2.0))
    done = admin.wait(short, 60)
    assert done.state.phase == "SUCCEEDED"
    assert done.state.bound_at is not None
    assert done.state.bound_at < demo["start"]
    # The cycle after the short one's end says so; on a machine that is slower than the window is far, none may come.
    waits_for(admin, foreign.id, "RESERVED: 2 GPUs are free, held for a reservation of another tenant", demo["start"])
    waits_for(beta, inside.id, "RESERVATION_PLANNED: its reservation demo begins at", demo["start"])

    mine = beta.wait(inside, 60)
    assert (mine.state.phase, mine.state.placements[0].gpus) == ("SUCCEEDED", (0, 1))
    assert mine.state.bound_at is not None
    assert mine.state.bound_at >= demo["start"]
    assert admin.get(foreign).state.phase == "PENDING"
    assert [one.name for one in beta.reservations()] == ["demo"]
    pool = eventually(lambda: next(one for one in beta.pools() if one.gpus_reserved), "the begin of its window")
    assert (pool.gpus_reserved, pool.reservations[0].state) == (2, "active")
    page = platform.cli("reservation", "show", "demo")
    assert "2 GPUs" in page.out, page

    assert platform.cli("reservation", "cancel", "demo", "--reason", "over early").code == 0
    assert admin.wait(foreign, 60).state.phase == "SUCCEEDED"
    refused = platform.cli("submit", "--reservation", "demo", "--", "true")
    assert refused.code == 1
    assert "there is no reservation 'demo' of tenant" in refused.err, refused

    idle = admin.reserve(gpus=2, length="1h", name="idle", tenant="beta", unused_release="3s")
    behind = admin.submit(job(2))
    assert admin.wait(behind, 60).state.phase == "SUCCEEDED"
    last = eventually(
        lambda: next(one for one in beta.reservations(over=True) if one.name == "idle" and one.state == "released"),
        "the release",
    )
    assert last.history[-1].why.startswith("nobody has used it for")
    bound = admin.get(behind).state.bound_at
    assert bound is not None
    assert bound >= idle.start + 3
