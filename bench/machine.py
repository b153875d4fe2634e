"""What the machine itself can do: the yardsticks of every benchmark."""

import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.processes import NotMeasured

WRITE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Spawning:
    """Processes per second, and CPU milliseconds of each with its parent's share."""

    per_s: float
    cpu_ms: float


def spawning(count: int, at_a_time: int = 2) -> Spawning:
    """Spawns and reaps `true`, as fast as the machine can."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.spawn", str(count), str(at_a_time)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise NotMeasured(f"spawning `true` failed: {done.stderr.strip()[-200:]}")
    per_s, cpu_ms = map(float, done.stdout.split())
    return Spawning(per_s, cpu_ms)


def fsync_s(folder: Path, count: int) -> float:
    """Median seconds of appending one block to a file and making it durable."""
    path = folder / "fsync.probe"
    block = os.urandom(WRITE_BYTES)
    took: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(block)
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    path.unlink()
    return statistics.median(took)


def describe() -> str:
    """One line for the report. No host names."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} CPUs, {memory_gib:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
