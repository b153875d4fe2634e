"""(q) How three replicas on one etcd share the work: CPU time of a job on the leader and on the others.

Clients ask the replicas that do not lead, and agents hang on those: what the leader still spends on a job is what only
the leader does.
"""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from ares.edge.client.calls.answers import Submitted
from ares.edge.client.sync import Client
from ares.model.job import JobSpec, Resources
from bench.processes import NotMeasured
from bench.report import Row
from bench.scale import Scale
from tests.platform import Platform, Server, eventually

REPLICAS = 3
WARM_UP = 64
_NOOP = JobSpec(command=("true",), resources=Resources(cpu_milli=50, memory_mib=16))
_WAIT_S = 300.0


class _Spent(NamedTuple):
    """CPU seconds of a server itself, and of its planners."""

    server: float
    planners: float


async def rows(scale: Scale, folder: Path) -> list[Row]:
    return await asyncio.to_thread(_measure, folder / "platform", scale.shared_jobs, scale.batch)


def _measure(folder: Path, jobs: int, batch: int) -> list[Row]:
    with Platform(folder, "etcd") as platform:
        for number in range(REPLICAS):
            platform.server(number)
        leader = platform.leader()
        others = [number for number in range(REPLICAS) if number != leader]
        for number in others:
            platform.agent(f"node-{number}", servers=[platform.servers[number].agents])
        clients = [platform.client(number) for number in others]
        _run(clients, WARM_UP, batch)
        before = [_spent(platform.servers[number]) for number in range(REPLICAS)]
        _run(clients, jobs, batch)
        after = [_spent(platform.servers[number]) for number in range(REPLICAS)]
        if platform.leader() != leader:
            raise NotMeasured("another replica leads than when it began")
    each = [
        _Spent((a.server - b.server) * 1000 / jobs, (a.planners - b.planners) * 1000 / jobs)
        for a, b in zip(after, before, strict=True)
    ]
    mean = sum(each[number].server for number in others) / len(others)
    what = f"{REPLICAS} replicas on etcd, clients and agents at those that do not lead"
    return [
        Row(
            "q", f"CPU of the leader, {what}", f"{each[leader].server:.2f} ms per job", each[leader].server,
            f"each other replica: {mean:.2f} ms", each[leader].server / mean,
            note=f"its planner {each[leader].planners:.2f} ms; {jobs:,} no-op jobs",
        )
    ]  # fmt: skip


def _run(clients: list[Client], count: int, batch: int) -> None:
    """Submits jobs by turns, and waits until all have succeeded."""
    jobs: list[str] = []
    for at in range(0, count, batch):
        answers = clients[at // batch % len(clients)].submit_many([_NOOP] * min(batch, count - at))
        jobs += [answer.id for answer in answers if isinstance(answer, Submitted)]
    if len(jobs) != count:
        raise NotMeasured(f"{count - len(jobs)} of {count} jobs were refused")
    # A page at a time, seldom: asking costs the replica time.
    until = time.monotonic() + _WAIT_S
    while clients[0].get(jobs[-1]).state.phase != "SUCCEEDED" and time.monotonic() < until:
        time.sleep(1.0)
    eventually(
        lambda: not list(clients[0].list(phase=("PENDING", "STAGING", "RUNNING", "RETRYING"))),
        "the end of all",
        _WAIT_S,
    )


def _spent(server: Server) -> _Spent:
    process = psutil.Process(server.pid)
    children = [child.cpu_times() for child in process.children()]
    own = process.cpu_times()
    return _Spent(own.user + own.system, sum(times.user + times.system for times in children))
