"""(n) Workflows: how soon one is accepted, how fast its jobs are released, and how soon a child follows its parent."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import machine
from bench.http import Connection
from bench.peers import CHAINS, Peer
from bench.platform import platform
from bench.processes import NotMeasured
from bench.report import Row, judged, missing
from bench.scale import Scale

ACCEPT_TARGET_S = 2.0
RELEASES_TARGET = 5000.0
P50_TARGET_S = 0.015
P99_TARGET_S = 0.060
_END_S = 600.0
# More than the machine has: what is released is queued, and nothing runs.
_NEVER = {"cpuMilli": 4_000_000, "memoryMib": 64}
_SMALL = {"cpuMilli": 10, "memoryMib": 16}


def _job(resources: dict[str, int], *parents: str, on: str = "success") -> dict[str, Any]:
    return {"command": ["true"], "resources": resources, "needs": [{"job": parent, "on": on} for parent in parents]}


async def rows(scale: Scale, folder: Path, *, peers: bool = True) -> list[Row]:
    found: list[Row] = []
    with platform(folder) as ares:
        line = await ares.connect()
        found += await _fan_out(line, scale.flow_jobs)
        found += await _chain(line, scale.flow_chain)
        await line.close()
    for peer in CHAINS if peers else ():
        found.append(await asyncio.to_thread(_beside, peer, scale.flow_chain))
    return found


def _beside(peer: Peer, count: int) -> Row:
    """The same chain run by another system: from submission to the last end, for each of its jobs."""
    what = f"chain of {count:,}, {peer.name}: each job, end to end"
    try:
        took = peer.measure(count)
    except NotMeasured as error:
        return missing("n", what, error)
    each_s = took.seconds / took.jobs
    note = f"p50 {took.p50_s * 1000:.1f} ms, p99 {took.p99_s * 1000:.1f} ms from one to the next: {peer.between}"
    return Row(
        "n", what, f"{each_s * 1000:.1f} ms", each_s, note=f"{note}; CPU ms per job {took.cpu_ms:.2f}; {peer.note}"
    )


async def _fan_out(line: Connection, count: int) -> list[Row]:
    """One held job, and so many that wait for its end; it is cancelled, and they are released."""
    jobs = {"root": {**_job(_NEVER), "held": True}}
    jobs |= {f"j{number}": _job(_NEVER, "root", on="end") for number in range(count - 1)}
    body = json.dumps({"name": "fan-out", "jobs": jobs}).encode()
    began = time.perf_counter()
    made = await _submit(line, body)
    accepted_s = time.perf_counter() - began
    began = time.perf_counter()
    await line.ask("POST", f"/v1/jobs/{made['ids']['root']}/cancel", b"{}")
    await _until(line, "/v1/jobs?phase=WAITING&limit=1", lambda answer: not answer["jobs"])
    released_s = time.perf_counter() - began
    flow = await line.json("GET", f"/v1/flows/{made['id']}")
    if flow["counts"].get("PENDING") != count - 1:
        raise NotMeasured(f"not all were released: {flow['counts']}")
    await line.ask("POST", f"/v1/flows/{made['id']}/cancel", b"{}")
    per_s = (count - 1) / released_s
    about = f"{count:,} jobs, {len(body) / 1e6:.1f} MB, {machine.describe()}"
    return [
        Row("n", f"a workflow of {count:,} jobs is accepted", f"{accepted_s:.2f} s", accepted_s, target="<= 2 s",
            verdict=judged(accepted_s <= ACCEPT_TARGET_S), note=about),
        Row("n", f"releases after one parent's end, {count - 1:,} children", f"{per_s:,.0f}/s", per_s,
            target=">= 5,000/s", verdict=judged(per_s >= RELEASES_TARGET), note=f"seen by polling; {flow['counts']}"),
    ]  # fmt: skip


async def _chain(line: Connection, count: int) -> list[Row]:
    """From the commit of a parent's end to the child's start, by the ledgers of both."""
    jobs = {"j0": _job(_SMALL)} | {f"j{number}": _job(_SMALL, f"j{number - 1}") for number in range(1, count)}
    made = await _submit(line, json.dumps({"name": "chain", "jobs": jobs}).encode())
    last = made["ids"][f"j{count - 1}"]
    await _until(line, f"/v1/jobs/{last}", lambda answer: answer["state"]["phase"] == "SUCCEEDED")
    at: dict[str, dict[str, float]] = {}
    for name, job in made["ids"].items():
        events = (await line.json("GET", f"/v1/jobs/{job}/events"))["events"]
        at[name] = {event["kind"]: event["at"] for event in events}
    whole_s = (at[f"j{count - 1}"]["succeeded"] - at["j0"]["submitted"]) / count
    waits = sorted(at[f"j{n}"]["started"] - at[f"j{n - 1}"]["succeeded"] for n in range(1, count))
    p50, p99 = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    whole = f"chain of {count:,}: parent's end committed to child's start"
    return [
        Row("n", f"{whole}, p50", f"{p50 * 1000:.1f} ms", p50, target="<= 15 ms", verdict=judged(p50 <= P50_TARGET_S)),
        Row("n", f"chain of {count:,}, Ares: each job, end to end", f"{whole_s * 1000:.1f} ms", whole_s),
        Row("n", f"{whole}, p99", f"{p99 * 1000:.1f} ms", p99, target="<= 60 ms", verdict=judged(p99 <= P99_TARGET_S)),
    ]


async def _submit(line: Connection, body: bytes) -> dict[str, Any]:
    status, answer = await line.ask("POST", "/v1/flows", body)
    if status != 201:
        raise NotMeasured(f"the workflow was answered {status}: {answer[:200].decode(errors='replace')}")
    return json.loads(answer)


async def _until(line: Connection, path: str, is_so: Callable[[dict[str, Any]], bool]) -> None:
    """What is asked again and again is cheap to answer: the server's time is for what is measured."""
    until = time.perf_counter() + _END_S
    while time.perf_counter() < until:
        if is_so(await line.json("GET", path)):
            return
        await asyncio.sleep(0.05)
    raise NotMeasured(f"{path} did not come so far within {_END_S:.0f} s")
