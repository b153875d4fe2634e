"""(ui) What being watched costs a job, and what is lost of a cluster's figures while it is away for an hour.

The first is told by CPU time, on a machine with other work too: every call on the telemetry port that a run of jobs in
one process makes is written down, all of them are made again by themselves, and that is compared with what a real
server takes for as many jobs. The second is two worlds on one clock, a global plane and a cluster whose link is cut.
"""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ares.adapters.telemetry.prometheus import PrometheusTelemetry
from bench import work
from bench.noops import finished
from bench.platform import platform
from bench.report import Row, judged
from bench.scale import Scale
from tests.clocks import SeededRng
from tests.federated_worlds import FederatedWorlds
from tests.world import ADMIN, World

_JOBS = 2000
_AT_ONCE = 100
_AGAIN = 5
_HOUR_S = 3600.0
_Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class _Recorded(PrometheusTelemetry):
    """Keeps what it was called with."""

    def __init__(self) -> None:
        super().__init__(SeededRng())
        self.calls: list[_Call] = []

    def count(self, name: str, by: float = 1, *labels: str) -> None:
        self.calls.append(("count", (name, by, *labels), {}))
        super().count(name, by, *labels)

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        self.calls.append(("observe", (name, seconds, *labels), {}))
        super().observe(name, seconds, *labels)

    def observe_all(self, name: str, seconds: Iterable[float], *labels: str, trace: str = "") -> None:
        kept = list(seconds)
        self.calls.append(("observe_all", (name, kept, *labels), {"trace": trace}))
        super().observe_all(name, kept, *labels, trace=trace)

    def gauge(self, name: str, value: float) -> None:
        self.calls.append(("gauge", (name, value), {}))
        super().gauge(name, value)

    def gauges(self, name: str, values: Mapping[tuple[str, ...], float]) -> None:
        self.calls.append(("gauges", (name, dict(values)), {}))
        super().gauges(name, values)


async def rows(scale: Scale, folder: Path) -> list[Row]:
    return [await _instrumentation(scale, folder), await _away()]


async def _instrumentation(scale: Scale, folder: Path) -> Row:
    recorded = _Recorded()
    async with World(telemetry=recorded) as world:
        await world.agent("n1", auto=True, gpus=0, cpu_milli=1_000_000)
        await _run(world, _AT_ONCE)
        recorded.calls.clear()
        for _ in range(_JOBS // _AT_ONCE):
            await _run(world, _AT_ONCE)
    # The gate's own, of the request that submits and the one that asks.
    asked = ("ares_http_request_duration_seconds", 0.002, "/v1/jobs", "POST", "2xx")
    gate: _Call = ("observe", asked, {})
    calls = [*recorded.calls, *[gate] * (2 * _JOBS)]
    took_ms = 1000 * min(_repeated(calls) for _ in range(_AGAIN)) / _JOBS
    whole_ms = await _server_ms(scale, folder)
    share = took_ms / whole_ms
    return Row(
        "ui", "instrumentation, of the server's CPU time for a job", f"{share:.1%}", share, target="<= 2 %",
        verdict=judged(share <= 0.02),
        note=f"{len(calls) / _JOBS:.1f} calls, {1000 * took_ms:.1f} µs of {1000 * whole_ms:,.0f} µs a job",
    )  # fmt: skip


async def _server_ms(scale: Scale, folder: Path) -> float:
    """Of no-op jobs, from their submission to their end."""
    with platform(folder) as running:
        line = await running.connect()
        nodes = await line.json("GET", "/v1/nodes")
        spec = work.noop(max(1, nodes["nodes"][0]["info"]["cpuMilli"] // scale.granted))
        await finished(line, spec, "warm-up", _AT_ONCE, scale.batch, _AT_ONCE, scale.timeout_s)
        before = running.cpu_s()
        total = _AT_ONCE + scale.budget_jobs
        await finished(line, spec, "watched", scale.budget_jobs, scale.batch, total, scale.timeout_s)
        found = running.cpu_s().per_job_ms(before, scale.budget_jobs)["server"]
        await line.close()
    return found


async def _run(world: World, count: int) -> None:
    jobs = await world.submit_many(count)
    await world.until(lambda: all(world.state(job).phase == "SUCCEEDED" for job in jobs))


def _repeated(calls: list[_Call]) -> float:
    fresh = PrometheusTelemetry(SeededRng())
    made = [(getattr(fresh, name), args, more) for name, args, more in calls]
    began = time.process_time()
    for call, args, more in made:
        call(*args, **more)
    return time.process_time() - began


async def _away() -> Row:
    async with FederatedWorlds("east", books=True) as fed:
        job, there = await fed.running(gpus=8)
        await _told(fed)
        fed.links["east"].cut()
        await fed.clock.advance(30.0)
        fed.later(_HOUR_S)
        agent = there.agents[0]
        agent.exited(agent.starts[job])
        await fed.until(lambda: there.state(job).phase == "SUCCEEDED")
        fed.links["east"].mend()
        await fed.until(lambda: fed.plane.state(job).phase == "SUCCEEDED", 180.0)
        await _told(fed)
        mine, theirs = [await _useful_ms(world) for world in (there, fed.plane)]
    return Row(
        "ui", "GPU-seconds of a cluster's books that are lost while it is away for an hour",
        f"{(mine - theirs) / 1000:,.0f} of {mine / 1000:,.0f}", float(mine - theirs), target="0",
        verdict=judged(mine == theirs), note="in one process, on a clock of its own",
    )  # fmt: skip


async def _told(fed: FederatedWorlds) -> None:
    tellings = fed.plane.one.view.kept.tellings
    so_far = tellings.get("east")
    await fed.until(lambda: tellings.get("east") not in (None, so_far), 180.0)


async def _useful_ms(world: World) -> int:
    first, last = "2000-01-01", "2999-12-31"
    books = [book async for book in world.one.books.costs.books(ADMIN, first, last)]
    return sum(line.gpu_ms for book in books for line in book.settled)
