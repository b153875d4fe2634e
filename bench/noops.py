"""(b) No-op jobs, each a real process, from submission to committed result, against the machine and against peers."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import machine, work
from bench.http import Connection
from bench.peers import PEERS
from bench.platform import Platform, platform
from bench.processes import NotMeasured
from bench.report import Row, judged, missing, rate
from bench.scale import Scale

TARGET = 0.30
GOAL = 0.50
# Asking costs the server time; the jobs' own records say when the last one ended.
POLL_S = 0.5
PAGE_JOBS = 1000
WARM_UP = 64


@dataclass(frozen=True, slots=True)
class Run:
    """`cpu` says where the time of one job went."""

    per_s: float
    cpu: str


async def ares_rate(ares: Platform, count: int, slots: int, batch: int, timeout_s: float) -> Run:
    """Every job must end with a committed success, or there is no number."""
    line = await ares.connect()
    cpus = await line.json("GET", "/v1/nodes")
    spec = work.noop(max(1, cpus["nodes"][0]["info"]["cpuMilli"] // slots))
    await finished(line, spec, "warm-up", WARM_UP, batch, WARM_UP, timeout_s)
    cpu = ares.cpu_s()
    began = time.time()
    await finished(line, spec, "noop", count, batch, WARM_UP + count, timeout_s)
    spent = ares.cpu_s().since(cpu, count)
    ended = await _last_end(line, WARM_UP + count)
    await line.close()
    return Run(count / (ended - began), spent)


async def finished(
    line: Connection, spec: dict[str, Any], name: str, count: int, batch: int, total: int, timeout_s: float
) -> None:
    """Submits `count` jobs and waits until `total` of the platform's have succeeded."""
    for at in range(0, count, batch):
        body = work.batch([spec] * min(batch, count - at), f"{name}-{at}")
        await line.submit_batch(body)
    deadline = time.monotonic() + timeout_s
    while (done := await _succeeded(line)) < total:
        if time.monotonic() > deadline:
            raise NotMeasured(f"{done} of {total} jobs were done after {timeout_s:g} s")
        await asyncio.sleep(POLL_S)


async def _succeeded(line: Connection) -> int:
    for text in (await line.text("/metrics")).splitlines():
        if text.startswith('ares_jobs_total{state="succeeded"}'):
            return int(float(text.split()[-1]))
    return 0


async def _last_end(line: Connection, count: int) -> float:
    """When the last job ended. The jobs are there, each once, each with its success."""
    ends: dict[str, float] = {}
    cursor = ""
    while True:
        page = await line.json("GET", f"/v1/jobs?phase=SUCCEEDED&limit={PAGE_JOBS}&cursor={cursor}")
        ends.update((job["id"], job["endedAt"]) for job in page["jobs"])
        cursor = page["cursor"]
        if not cursor:
            break
    if len(ends) != count:
        raise NotMeasured(f"{len(ends)} jobs succeeded, {count} were submitted")
    return max(ends.values())


def peer_rows(scale: Scale, before: machine.Spawning, ares: tuple[float, float] | None) -> Iterator[Row]:
    """Each peer against the spawn rate on either side of it. Ares is ahead only if it is by rate and by ratio."""
    for peer in PEERS:
        what = f"no-op jobs, {peer.name}"
        try:
            found = peer.measure(scale.slurm_jobs if peer.name == "Slurm" else scale.peer_jobs)
        except NotMeasured as error:
            yield missing("b", what, error)
            continue
        after = machine.spawning(scale.spawns)
        spawn = (before.per_s + after.per_s) / 2
        before = after
        share = found.per_s / spawn
        ahead = None if ares is None else min(ares[0] / found.per_s, ares[1] / share)
        lead = f"Ares has {ahead:.2f} times this; " if ahead else ""
        yield Row(
            "b", what, rate(found.per_s), found.per_s, f"spawning `true`: {rate(spawn)}", share,
            "Ares ahead" if ahead else "", judged(ahead > 1.0) if ahead else "",
            f"{lead}CPU ms per job {found.cpu_ms:.2f}; {peer.note}",
        )  # fmt: skip


async def rows(scale: Scale, folder: Path, *, peers: bool) -> list[Row]:
    before = machine.spawning(scale.spawns)
    what = f"no-op jobs, Ares, {scale.granted} granted at once"
    measured: tuple[float, float] | None = None
    try:
        with platform(folder) as running:
            ares = await ares_rate(running, scale.jobs, scale.granted, scale.batch, scale.timeout_s)
        after = machine.spawning(scale.spawns)
        spawn = (before.per_s + after.per_s) / 2
        share = ares.per_s / spawn
        measured = ares.per_s, share
        first = Row(
            "b", what, rate(ares.per_s), ares.per_s,
            f"spawning `true`, two at a time: {rate(spawn)} ({before.per_s:,.0f} before, {after.per_s:,.0f} after)",
            share, f">= {TARGET:.2f}, goal {GOAL:.2f}", judged(share >= TARGET),
            f"{ares.cpu}; a bare spawn {before.cpu_ms:.2f}",
        )  # fmt: skip
    except NotMeasured as error:
        first, after = missing("b", what, error), machine.spawning(scale.spawns)
    return [first, *(peer_rows(scale, after, measured) if peers else ())]
