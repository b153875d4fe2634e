"""(logs) How late a line of output is at its reader, while other jobs write as much as they can."""

import asyncio
import time
from pathlib import Path
from statistics import quantiles

from ares.edge.client.aio import AsyncClient
from ares.model.job import JobSpec, Resources
from bench.platform import platform
from bench.report import Row, judged
from bench.scale import Scale

LATE_TARGET_S = 1.0
_LINES_PER_S = 20
# Each line says when it was written; both ends are on one machine.
_SAYS = "import time\nfor n in range({count}):\n    print(repr(time.time()), flush=True)\n    time.sleep({every})\n"
_FLOODS = "import sys, time\nwhile True:\n    sys.stdout.write('x' * 65535 + '\\n')\n    time.sleep(0.02)\n"


# Starts hundreds of short processes a second, whose output is kept or thrown away.
_SHELL = "while :; do head -c 65535 /dev/zero | tr '\\0' x; echo; done"
_SILENT = f"({_SHELL}) > /dev/null"


async def rows(scale: Scale, folder: Path) -> list[Row]:
    followed, loud, seconds = (8, 4, 20) if scale.jobs > 1000 else (2, 2, 5)
    with platform(folder) as ares:
        async with AsyncClient(f"http://127.0.0.1:{ares.port}", ares.token) as client:
            calm = await _late(client, followed, seconds)
            busy = await _beside(client, [("python3", "-c", _FLOODS)] * loud, followed, seconds)
            silent = await _beside(client, [("sh", "-c", _SILENT)] * loud, followed, seconds)
            shell = await _beside(client, [("sh", "-c", _SHELL)] * loud, followed, seconds)
    return [
        _row(f"beside {loud} jobs that write 3 MB/s each", busy, "without them", calm),
        _row(f"beside {loud} jobs in shell, as loud as they can", shell, "their output thrown away", silent),
    ]


def _row(beside: str, found: list[float], other: str, against: list[float]) -> Row:
    late, before = _p99(found), _p99(against)
    return Row(
        "logs", f"lines at their readers, p99, {beside}", f"{late:,.3f} s", late, f"{other} {before:,.3f} s",
        late / before, f"≤ {LATE_TARGET_S:g} s", judged(late <= LATE_TARGET_S),
        note=f"{len(found):,} lines, slowest {max(found):,.3f} s",
    )  # fmt: skip


async def _beside(client: AsyncClient, others: list[tuple[str, ...]], jobs: int, seconds: int) -> list[float]:
    """How late lines are while those commands run."""
    started = [await client.submit(_job(command)) for command in others]
    try:
        return await _late(client, jobs, seconds)
    finally:
        for job in started:
            await client.cancel(job)


def _job(command: tuple[str, ...]) -> JobSpec:
    return JobSpec(command=command, resources=Resources(cpu_milli=50, memory_mib=64))


async def _late(client: AsyncClient, jobs: int, seconds: int) -> list[float]:
    says = _SAYS.format(count=seconds * _LINES_PER_S, every=1 / _LINES_PER_S)
    started = [await client.submit(_job(("python3", "-c", says))) for _ in range(jobs)]
    found = await asyncio.gather(*(_followed(client, job.id) for job in started))
    late = [lateness for lines in found for lateness in lines]
    assert len(late) == jobs * seconds * _LINES_PER_S, "a line is missing, or came twice"
    return late


async def _followed(client: AsyncClient, job: str) -> list[float]:
    late, rest = list[float](), b""
    async for piece in client.logs(job, follow=True):
        now = time.time()
        *lines, rest = (rest + piece).split(b"\n")
        late += [now - float(line) for line in lines if line]
    return late


def _p99(late: list[float]) -> float:
    return quantiles(late, n=100)[98]
