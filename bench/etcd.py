"""(d) Submissions, no-op jobs and latency with the store of record on a real etcd; how three replicas share jobs."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from ares.ports.store import TXN_OPS_MAX
from bench import latency, machine, noops, work
from bench.http import Connection
from bench.peers.install import apt, find
from bench.platform import platform
from bench.processes import NotMeasured, listening, running, wait_until
from bench.report import Row, judged, rate
from bench.scale import Scale
from bench.submissions import batch_rate, store_rate
from tests import platform as replicated
from tests.ports import free_ports

BATCH_TARGET_PER_S = 1000.0
START_S = 20.0
NAME = "bench"
REPLICAS = 3
# Jobs of one request: requests go to the replicas in turn.
SPREAD_BATCH = 50
WARM_UP = 60


@contextlib.contextmanager
def etcd(folder: Path) -> Iterator[str]:
    """The URL of a fresh single-node etcd."""
    apt(["etcd"], ["etcd-server"])
    client, peer = free_ports(2)
    urls = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    command = [
        find("etcd") or "etcd", "--name", NAME, "--data-dir", str(folder / "etcd"), "--logger=zap", "--log-level=warn",
        "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
        "--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1],
        "--initial-cluster", f"{NAME}={urls[1]}",
    ]  # fmt: skip
    with running(command, folder / "etcd.log"):
        wait_until(lambda: listening(client), "starting etcd", START_S)
        yield f"etcd://127.0.0.1:{client}"


async def rows(scale: Scale, folder: Path) -> list[Row]:
    return [
        *await _submissions(scale, _new(folder, "submissions")),
        *await _noops(scale, _new(folder, "noops")),
        *await _latency(scale, _new(folder, "latency")),
        *await _replicas(scale, folder / "replicas"),
    ]


async def _submissions(scale: Scale, folder: Path) -> list[Row]:
    with etcd(folder) as url, platform(folder, url, with_agent=False) as ares:
        many = await batch_rate(ares, scale.batched, scale.batch)
    jobs_per_txn = TXN_OPS_MAX // work.PUTS_PER_JOB
    with etcd(_new(folder, "bare")) as url:
        bare = await store_rate(url, scale.batched, scale.connections, jobs_per_txn)
    return [
        Row(
            "d", f"submit in batches of {scale.batch}, etcd", rate(many), many,
            f"etcd alone, {jobs_per_txn} jobs per transaction: {rate(bare)}", many / bare,
            f">= {BATCH_TARGET_PER_S:,.0f}/s", judged(many >= BATCH_TARGET_PER_S),
        )
    ]  # fmt: skip


async def _noops(scale: Scale, folder: Path) -> list[Row]:
    before = machine.spawning(scale.spawns)
    with etcd(folder) as url, platform(folder, url) as ares:
        run = await noops.ares_rate(ares, scale.jobs, scale.granted, scale.batch, scale.timeout_s)
    spawn = (before.per_s + machine.spawning(scale.spawns).per_s) / 2
    against = f"spawning `true`: {rate(spawn)}"
    return [Row("d", "no-op jobs, etcd", rate(run.per_s), run.per_s, against, run.per_s / spawn, note=run.cpu)]


async def _latency(scale: Scale, folder: Path) -> list[Row]:
    with etcd(folder) as url:
        return await latency.rows(scale, folder, "d", url, "etcd")


async def _replicas(scale: Scale, folder: Path) -> list[Row]:
    """Submissions by turns to three replicas, to which three agents spread by themselves."""
    spawn = machine.spawning(scale.spawns)
    with replicated.Platform(folder, "etcd", lend=False) as ares:
        for number in range(REPLICAS):
            ares.server(number)
        for number in range(REPLICAS):
            ares.agent(f"node-{number}", gpus=0)
        lines = [await Connection.open(int(s.http.rpartition(":")[2]), ares.admin_token) for s in ares.servers.values()]
        nodes = (await lines[0].json("GET", "/v1/nodes"))["nodes"]
        spec = work.noop(max(1, nodes[0]["info"]["cpuMilli"] * REPLICAS // scale.granted))
        await _spread(lines, spec, WARM_UP, WARM_UP, scale.timeout_s)
        before = {number: _cpu_s(server.pid) for number, server in ares.servers.items()}
        await _spread(lines, spec, scale.jobs, WARM_UP + scale.jobs, scale.timeout_s)
        spent = {
            number: (_cpu_s(server.pid) - before[number]) * 1000 / scale.jobs for number, server in ares.servers.items()
        }
        streams = [await _metric(line, "ares_agents_connected") for line in lines]
        leader = ares.leader()
        for line in lines:
            await line.close()
    return _shares(spent, leader, streams, spawn)


def _shares(spent: Mapping[int, float], leader: int, streams: list[float], spawn: machine.Spawning) -> list[Row]:
    others = [took for number, took in spent.items() if number != leader]
    against = f"a bare spawn: {spawn.cpu_ms:.3f} ms"
    agents = ", ".join(f"{count:.0f}" for count in streams)
    note = f"of every job, wherever it was submitted; streams of agents by replica: {agents}; replica {leader} leads"
    return [
        Row("d", what, f"{took:.3f} ms", took, against, took / spawn.cpu_ms, note=note)
        for what, took in (
            ("CPU a job, three replicas, the leader with its planner", spent[leader]),
            ("CPU a job, three replicas, the mean of the others", sum(others) / len(others)),
        )
    ]


async def _spread(lines: list[Connection], spec: dict[str, object], count: int, total: int, timeout_s: float) -> None:
    """Submits `count` jobs and waits until `total` have succeeded. Each replica counts the ends that it wrote."""
    for turn, at in enumerate(range(0, count, SPREAD_BATCH)):
        body = work.batch([spec] * min(SPREAD_BATCH, count - at), f"{total}-{at}")
        await lines[turn % len(lines)].submit_batch(body)
    deadline = time.monotonic() + timeout_s
    while (done := sum([await _metric(line, 'ares_jobs_total{state="succeeded"}') for line in lines])) < total:
        if time.monotonic() > deadline:
            raise NotMeasured(f"{done:.0f} of {total} jobs were done after {timeout_s:g} s")
        await asyncio.sleep(noops.POLL_S)


async def _metric(line: Connection, name: str) -> float:
    found = [text for text in (await line.text("/metrics")).splitlines() if text.startswith(f"{name} ")]
    return float(found[0].split()[-1]) if found else 0.0


def _cpu_s(pid: int) -> float:
    """Of a replica and the planner it keeps."""
    server = psutil.Process(pid)
    times = [process.cpu_times() for process in (server, *server.children(recursive=True))]
    return sum(spent.user + spent.system for spent in times)


def _new(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made
