"""(s) A federation of three clusters: offers confirmed per second, and how long an offer and a route take."""

import asyncio
import contextlib
import time
from pathlib import Path
from statistics import median

from bench import machine
from bench.http import Connection
from bench.platform import Platform, platform
from bench.processes import NotMeasured
from bench.report import Row, judged, rate
from bench.scale import Scale
from bench.submissions import batch_rate

CLUSTERS = ("north", "south", "west")
RATE_TARGET = 300.0
P50_TARGET_S = 0.100
ROUTE_P99_TARGET_S = 1.0
_HEARD_S = 60.0
# Most of a node each: a cluster takes all of them, and starts one at a time.
_WIDE = {"command": ["sleep", "1000"], "resources": {"cpuMilli": 1500, "memoryMib": 64}}
_PACED_S = 0.02


async def rows(scale: Scale, folder: Path) -> list[Row]:
    with contextlib.ExitStack() as stack:
        for name in ("alone", "global"):
            (folder / name).mkdir()
        # The same server, store and machine, without a federation.
        with platform(folder / "alone", with_agent=False) as single:
            alone = await batch_rate(single, scale.offers, _batch(scale))
        plane = stack.enter_context(platform(folder / "global", with_agent=False))
        for name in CLUSTERS:
            (folder / name).mkdir()
            cluster = stack.enter_context(platform(folder / name))
            # A connection that says nothing while a cluster starts is closed by the server.
            line = await plane.connect()
            await _join(line, plane, cluster, name)
            await line.close()
        line = await plane.connect()
        burst = await _burst(line, scale)
        paced = await _paced(line, scale.offers_paced)
        await line.close()
    return _judged(scale, alone, burst, paced)


def _batch(scale: Scale) -> int:
    return min(scale.batch, scale.offers // 2)


async def _join(line: Connection, plane: Platform, cluster: Platform, name: str) -> None:
    token = await line.json("POST", "/v1/join-tokens", {"cluster": name})
    own = await cluster.connect()
    body = {
        "api": f"http://127.0.0.1:{plane.port}", "token": token["token"], "name": name,
        "servers": [f"127.0.0.1:{plane.agents}"],
    }  # fmt: skip
    await own.json("POST", "/v1/federation/uplink", body)
    await own.close()
    until = time.monotonic() + _HEARD_S
    while time.monotonic() < until:
        members = (await line.json("GET", "/v1/federation/clusters"))["clusters"]
        if any(member["name"] == name and (member.get("report") or {}).get("readyNodes") for member in members):
            return
        await asyncio.sleep(0.1)
    raise NotMeasured(f"cluster {name} was not heard of within {_HEARD_S:g} s")


async def _burst(line: Connection, scale: Scale) -> list[dict[str, float]]:
    jobs: list[str] = []
    for first in range(0, scale.offers, _batch(scale)):
        count = min(_batch(scale), scale.offers - first)
        answer = await line.json("POST", "/v1/jobs/batch", {"jobs": [{"spec": _WIDE}] * count})
        jobs += [result["id"] for result in answer["results"]]
    return await _times(line, jobs)


async def _paced(line: Connection, count: int) -> list[dict[str, float]]:
    jobs: list[str] = []
    for _ in range(count):
        jobs.append((await line.json("POST", "/v1/jobs", {"spec": _WIDE}))["id"])
        await asyncio.sleep(_PACED_S)
    return await _times(line, jobs)


async def _times(line: Connection, jobs: list[str]) -> list[dict[str, float]]:
    """By the ledger of each job: when it was submitted, offered and confirmed for the first time."""
    found: list[dict[str, float]] = []
    for job in jobs:
        until = time.monotonic() + _HEARD_S
        while "confirmed" not in (at := await _ledger(line, job)):
            if time.monotonic() > until:
                raise NotMeasured(f"job {job} was not confirmed within {_HEARD_S:g} s: {at}")
            await asyncio.sleep(0.2)
        found.append(at)
    return found


async def _ledger(line: Connection, job: str) -> dict[str, float]:
    events = (await line.json("GET", f"/v1/jobs/{job}/events"))["events"]
    return {event["kind"]: event["at"] for event in reversed(events)}


def _judged(scale: Scale, alone: float, burst: list[dict[str, float]], paced: list[dict[str, float]]) -> list[Row]:
    took_s = max(at["confirmed"] for at in burst) - min(at["submitted"] for at in burst)
    per_s = len(burst) / took_s
    offer_s = median(at["confirmed"] - at["offered"] for at in paced)
    routes = sorted(at["offered"] - at["submitted"] for at in paced)
    route_s = routes[int(len(routes) * 0.99)]
    about = f"{len(burst):,} jobs in batches of {_batch(scale)}, {len(CLUSTERS)} clusters, {machine.describe()}"
    return [
        Row("s", "offers confirmed, three clusters", rate(per_s), per_s, f"submissions alone {rate(alone)}",
            per_s / alone, ">= 300/s", judged(per_s >= RATE_TARGET), about),
        Row("s", "offer to confirmation, p50", f"{offer_s * 1000:.0f} ms", offer_s, target="<= 100 ms",
            verdict=judged(offer_s <= P50_TARGET_S), note=f"{len(paced):,} jobs, one every {_PACED_S * 1000:.0f} ms"),
        Row("s", "submission to offer, p99", f"{route_s * 1000:.0f} ms", route_s, target="<= 1 s",
            verdict=judged(route_s <= ROUTE_P99_TARGET_S), note="the same jobs"),
    ]  # fmt: skip
