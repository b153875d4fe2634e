"""(p) Submissions while plans are made for 10,000 nodes: by one planner and by several, beside an idle platform.

Nodes are records with long leases and no agents, so that planning, binding and serving are all that runs. Jobs of 500
kinds, each of one of the tenants, are submitted at once; while they are placed, single jobs come at a steady rate.
"""

import asyncio
import json
import time
from pathlib import Path

import msgspec

from ares.adapters.clocks import SystemClock
from ares.adapters.store.open import open_store
from ares.core import keys
from ares.model.node import NodeInfo, NodeLease, NodeRecord
from ares.ports.store import TXN_OPS_MAX, Committed, Put
from bench import watchdog, work
from bench.http import Connection
from bench.latency import quantile
from bench.openloop import Schedule
from bench.platform import Platform, platform
from bench.processes import NotMeasured
from bench.report import Row, judged
from bench.scale import Scale
from bench.tenants import set_up

KINDS, TENANTS = 500, 20
PER_S = 40.0
SEVERAL = 4
# A tenth above what the same platform shows while nothing waits.
TARGET = 1.10
_CPUS, _MEMORY_MIB = 16, 64 * 1024
_FOR_S = 3600.0


async def rows(scale: Scale, folder: Path) -> list[Row]:
    found: list[Row] = []
    for planners in (1, SEVERAL):
        inside = folder / f"planners-{planners}"
        inside.mkdir()
        found += await _measure(scale, inside, planners)
    return found


async def _measure(scale: Scale, folder: Path, planners: int) -> list[Row]:
    url = f"sqlite://{folder / 'store.db'}"
    nodes = scale.nodes[1]
    await _put_nodes(url, nodes)
    ticks, site = folder / "ticks.jsonl", folder / "site"
    watchdog.install_into(site)
    env = {"ARES_SCHEDULER__PLANNERS": str(planners), **watchdog.environment(site, ticks)}
    with platform(folder, url, with_agent=False, env=env) as ares:
        tokens = await set_up(ares, TENANTS, everything=False)
        schedule = Schedule(ares.port)
        single = _Single(tokens)
        count = round(scale.round_s * PER_S)
        # Until planners know all nodes.
        await schedule.run(single.request, 10**9, count // 2, PER_S)
        await _until_placed(ares, scale.timeout_s)
        calm_from = time.monotonic()
        idle = await schedule.run(single.request, 0, count, PER_S)
        await _until_placed(ares, scale.timeout_s)
        cpu, began = ares.cpu_s(), time.monotonic()
        await _queue(ares, tokens, scale.mixed)
        busy = await schedule.run(single.request, count, count, PER_S)
        await _until_placed(ares, scale.timeout_s)
        took_s, spent = time.monotonic() - began, ares.cpu_s()
        schedule.close()
        parts = await _counted(ares, "ares_plan_parts_total{")
        conflicts = await _counted(ares, "ares_plan_conflicts_total{")
    pause, calm_pause = _busiest(ticks, began, began + took_s), _busiest(ticks, calm_from, began)
    p99, calm = quantile(busy.took_s, 0.99), quantile(idle.took_s, 0.99)
    what = f"{planners} planner{'s' if planners > 1 else ''}, {nodes:,} nodes, {KINDS} kinds of jobs"
    note = (
        f"{scale.mixed:,} jobs placed in {took_s:.0f} s; CPU: server {spent.server - cpu.server:.1f} s, "
        f"planners {spent.planner - cpu.planner:.1f} s"
    )
    said = [
        Row(
            "p", f"submission while plans are made, p99: {what}", f"{p99 * 1e3:.1f} ms", p99,
            f"idle: {calm * 1e3:.1f} ms", p99 / calm, f"<= {TARGET:g} times", judged(p99 <= TARGET * calm), note,
        ),
        Row(
            "p", f"submission while plans are made, p50: {what}", f"{quantile(busy.took_s, 0.5) * 1e3:.1f} ms",
            quantile(busy.took_s, 0.5), f"idle: {quantile(idle.took_s, 0.5) * 1e3:.1f} ms",
            quantile(busy.took_s, 0.5) / quantile(idle.took_s, 0.5),
        ),
    ]  # fmt: skip
    tick = f"the server's longest tick by its CPU time, while plans are made: {what}"
    calmly = f"idle: {calm_pause * 1e3:.0f} ms"
    said.append(Row("p", tick, f"{pause * 1e3:.0f} ms", pause, calmly, note="of ticks that last over 50 ms"))
    if planners > 1:
        rate = conflicts / parts if parts else 0.0
        said.append(
            Row("p", f"parts of plans that collided: {what}", f"{rate:.2%}", rate, f"{conflicts:,.0f} of {parts:,.0f}")
        )
    return said


def _busiest(file: Path, since: float, until: float) -> float:
    """Both processes read one monotonic clock."""
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return max((line["cpu_s"] for line in lines if since <= line["at"] < until), default=0.0)


class _Single:
    """Small jobs of each tenant in turn."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens

    def request(self, number: int) -> bytes:
        body = work.single(work.noop(1000), f"single-{number}")
        token = self._tokens[number % len(self._tokens)]
        head = (
            f"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def _kind(number: int) -> dict[str, object]:
    resources = {"cpuMilli": 1000 * (1 + number % 8), "memoryMib": 256 * (1 + number // 8)}
    return {**work.noop(1000), "resources": resources}


async def _queue(ares: Platform, tokens: list[str], count: int) -> None:
    for at, token in enumerate(tokens):
        line = await Connection.open(ares.port, token)
        kinds = [_kind(number) for number in range(at, KINDS, len(tokens))]
        specs = [kinds[number % len(kinds)] for number in range(count // len(tokens))]
        await line.submit_batch(work.batch(specs, f"mixed-{at}"))
        await line.close()


async def _until_placed(ares: Platform, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while (waiting := await _counted(ares, "ares_queue_depth")) > 0:
        if time.monotonic() > until:
            raise NotMeasured(f"{waiting:.0f} jobs still waited after {timeout_s:g} s")
        await asyncio.sleep(0.5)


async def _counted(ares: Platform, name: str) -> float:
    line = await ares.connect()
    text = await line.text("/metrics")
    await line.close()
    return sum(float(said.split()[-1]) for said in text.splitlines() if said.startswith(name))


async def _put_nodes(url: str, count: int) -> None:
    """They are ready for an hour from when the server sees them."""
    encode = msgspec.json.Encoder().encode
    puts: list[Put] = []
    for number in range(count):
        name = f"n{number:05d}"
        info = NodeInfo(name=name, cpu_milli=_CPUS * 1000, memory_mib=_MEMORY_MIB, rack=f"r{number // 32}")
        lease = NodeLease(node=name, incarnation=1, renewed_at=time.time(), replica="none", dead_after_s=_FOR_S)
        puts.append(Put(keys.node(name), encode(NodeRecord(info=info, incarnation=1, registered_at=time.time()))))
        puts.append(Put(keys.lease(name), encode(lease)))
    store = await open_store(url, SystemClock())
    for at in range(0, len(puts), TXN_OPS_MAX):
        written = await store.txn((), tuple(puts[at : at + TXN_OPS_MAX]))
        if not isinstance(written, Committed):
            raise NotMeasured(f"nodes could not be written: {written}")
    await store.close()
