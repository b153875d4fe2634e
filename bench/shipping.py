"""(o) Shipping a project: files that did not change, and a large one that did, against `cp` and `sha256sum`."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from ares.edge.client.sync import Client
from bench.platform import platform
from bench.report import Row, judged
from bench.scale import Scale

UNCHANGED_TARGET_MS = 150.0
RATIO_TARGET = 0.6
_FILES, _FILE_BYTES = 1000, 4096
_TRIES = 7
# The client does not trust the time of a file that was changed less than two seconds ago.
_SETTLED_S = 3.0
_MIB = 1 << 20


async def rows(scale: Scale, folder: Path) -> list[Row]:
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    size = (1024 if scale.jobs > 1000 else 64) * _MIB
    with platform(folder, with_agent=False) as ares, Client(f"http://127.0.0.1:{ares.port}", ares.token) as client:
        return [
            await asyncio.to_thread(_unchanged, client, folder),
            await asyncio.to_thread(_changed, client, folder, size),
        ]


def _unchanged(client: Client, folder: Path) -> Row:
    root = folder / "many"
    for number in range(_FILES):
        path = root / f"package{number // 50}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(_FILE_BYTES))
    time.sleep(_SETTLED_S)
    client.ship(root)
    took = [_ms(lambda: client.submit(command=["true"], workdir=root)) for _ in range(_TRIES)]
    found = median(took)
    return Row(
        "o", f"{_FILES:,} files unchanged, from the call to a durable job", f"{found:,.0f} ms", found,
        target=f"≤ {UNCHANGED_TARGET_MS:g} ms", verdict=judged(found <= UNCHANGED_TARGET_MS),
        note=f"median of {_TRIES}, slowest {max(took):,.0f} ms",
    )  # fmt: skip


def _changed(client: Client, folder: Path, size: int) -> Row:
    """Both read a file that is in memory; the server's answer comes when all of it is on the disk."""
    root, copy = folder / "large", folder / "copy"
    root.mkdir()
    baseline, ours = list[float](), list[float]()
    for _ in range(3):
        with (root / "data").open("wb") as file:
            for _ in range(size // (8 * _MIB)):
                file.write(os.urandom(8 * _MIB))
            file.flush()
            os.fsync(file.fileno())
        baseline.append(_ms(lambda: _copied(root / "data", copy)))
        copy.unlink()
        ours.append(_ms(lambda: client.ship(root, limit=size * 2)))
    rate, against = size / _MIB / min(ours) * 1000, size / _MIB / min(baseline) * 1000
    return Row(
        "o", f"a change of {size // _MIB:,} MiB shipped", f"{rate:,.0f} MiB/s", rate,
        f"cp and sha256sum: {against:,.0f} MiB/s", rate / against, f"≥ {RATIO_TARGET:g}",
        judged(rate / against >= RATIO_TARGET), "best of 3; synced to the disk, which cp is not",
    )  # fmt: skip


def _copied(source: Path, target: Path) -> None:
    subprocess.run(["cp", source, target], check=True)
    subprocess.run(["sha256sum", target], check=True, stdout=subprocess.DEVNULL)


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000
