"""(c) From before the POST to the job's own first act, one job at a time on an idle cluster."""

import asyncio
import os
import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from bench import machine, work
from bench.http import Connection
from bench.platform import Platform, platform
from bench.processes import NotMeasured
from bench.report import Row, judged
from bench.scale import Scale

P50_TARGET_S = 0.015
P99_TARGET_S = 0.060
# The submission and the binding each wait for the disk before the process starts.
FSYNCS_ON_THE_WAY = 2
START_S = 30.0
WARM_UP = 5
SCRIPT = 'echo > "$BENCH_FIFO"'


class Bell:
    """A fifo that a job writes to as its first act."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bell"
        os.mkfifo(self.path)
        # Open for writing too, so that it never ends.
        self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

    async def wait(self) -> float:
        """The time of the next ring."""
        loop = asyncio.get_running_loop()
        rung: asyncio.Future[float] = loop.create_future()

        def ring() -> None:
            os.read(self._fd, 4096)
            if not rung.done():
                rung.set_result(time.perf_counter())

        loop.add_reader(self._fd, ring)
        try:
            async with asyncio.timeout(START_S):
                return await rung
        except TimeoutError:
            raise NotMeasured(f"a job did not start within {START_S:g} s") from None
        finally:
            loop.remove_reader(self._fd)

    def close(self) -> None:
        os.close(self._fd)


async def start_s(ares: Platform, bell: Bell, count: int) -> list[float]:
    """Seconds to the start of each job."""
    line = await ares.connect()
    spec = work.noop(1000, ("sh", "-c", SCRIPT), {"BENCH_FIFO": str(bell.path)})
    took = [await _once(line, bell, work.single(spec, f"start-{number}")) for number in range(count + WARM_UP)]
    await line.close()
    return took[WARM_UP:]


async def _once(line: Connection, bell: Bell, body: bytes) -> float:
    rung = asyncio.ensure_future(bell.wait())
    await asyncio.sleep(0)
    began = time.perf_counter()
    status, answer = await line.ask("POST", "/v1/jobs", body)
    if status != 201:
        raise NotMeasured(f"submission answered {status}: {answer[:200].decode(errors='replace')}")
    took = await rung - began
    job = answer.partition(b'"id":"')[2].partition(b'"')[0].decode()
    while (await line.json("GET", f"/v1/jobs/{job}"))["state"]["phase"] != "SUCCEEDED":
        await asyncio.sleep(0.01)
    return took


async def bare_start_s(bell: Bell, count: int) -> float:
    """Median seconds from spawning the same script to its first act, without a platform."""
    shell = shutil.which("sh") or "/bin/sh"
    took: list[float] = []
    for _ in range(count):
        rung = asyncio.ensure_future(bell.wait())
        await asyncio.sleep(0)
        began = time.perf_counter()
        pid = _spawn(shell, bell)
        took.append(await rung - began)
        _reap(pid)
    return statistics.median(took)


def _spawn(shell: str, bell: Bell) -> int:
    return os.posix_spawn(shell, ["sh", "-c", SCRIPT], {"BENCH_FIFO": str(bell.path)})


def _reap(pid: int) -> None:
    os.waitpid(pid, 0)


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def measure(scale: Scale, folder: Path, store_url: str = "") -> tuple[float, float, float, str]:
    """p50, p99, floor, and the floor in words."""
    bell = Bell(folder)
    try:
        with platform(folder, store_url, lend=True) as ares:
            took = await start_s(ares, bell, scale.starts)
        bare = await bare_start_s(bell, scale.starts)
    finally:
        bell.close()
    fsync = machine.fsync_s(folder, scale.fsyncs)
    floor = bare + FSYNCS_ON_THE_WAY * fsync
    words = f"spawn {bare * 1e3:.2f} ms + {FSYNCS_ON_THE_WAY} fsyncs {FSYNCS_ON_THE_WAY * fsync * 1e3:.2f} ms"
    return quantile(took, 0.5), quantile(took, 0.99), floor, words


async def rows(scale: Scale, folder: Path, bench: str = "c", store_url: str = "", store: str = "SQLite") -> list[Row]:
    p50, p99, floor, words = await measure(scale, folder, store_url)
    return [
        Row(
            bench, f"submit to start, {name}, {store}", f"{took * 1e3:.1f} ms", took, words, took / floor,
            f"<= {target * 1e3:g} ms", judged(took <= target), f"{scale.starts} jobs, one at a time",
        )
        for name, took, target in (("p50", p50, P50_TARGET_S), ("p99", p99, P99_TARGET_S))
    ]  # fmt: skip
