"""(d) Submissions, no-op jobs and latency with the store of record on a real etcd."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ares.ports.store import TXN_OPS_MAX
from bench import latency, machine, noops, work
from bench.peers.install import apt, find
from bench.platform import platform
from bench.processes import listening, running, wait_until
from bench.report import Row, judged, rate
from bench.scale import Scale
from bench.submissions import batch_rate, store_rate
from tests.ports import free_ports

BATCH_TARGET_PER_S = 1000.0
START_S = 20.0
NAME = "bench"


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


def _new(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made
