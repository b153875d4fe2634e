"""Runs a peer where it can reach nothing but its own loopback, and where its end is the end of all it started."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.install import find
from bench.processes import NotMeasured

INSIDE = Path(__file__).with_name("inside.py")
DRIVERS = Path(__file__).with_name("drivers")


@dataclass(frozen=True, slots=True)
class Measured:
    """`jobs` no-op jobs, each a process, took `seconds` from the first submission to the last result."""

    jobs: int
    seconds: float
    # Of the peer with all it started.
    cpu_s: float
    # Of a chain, from one task to the next.
    p50_s: float = 0.0
    p99_s: float = 0.0

    @property
    def cpu_ms(self) -> float:
        return self.cpu_s * 1000 / self.jobs

    @property
    def per_s(self) -> float:
        return self.jobs / self.seconds


def run(driver: str, python: str, jobs: int, timeout_s: float, env: Mapping[str, str] | None = None) -> Measured:
    """Runs `drivers/<driver>.py JOBS FOLDER` caged; its last line of output is the measurement."""
    # Unix sockets of peers live in the folder, whose path must stay short.
    with tempfile.TemporaryDirectory(prefix="ab-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        command = [*_walls(), sys.executable, str(INSIDE), python, str(DRIVERS / f"{driver}.py"), str(jobs), folder]
        said = _output(command, timeout_s, {**os.environ, **(env or {})})
    try:
        answer = json.loads(said.strip().splitlines()[-1])
        whole = int(answer["jobs"]), float(answer["seconds"]), float(answer["cpu_s"])
        return Measured(*whole, float(answer.get("p50_s", 0.0)), float(answer.get("p99_s", 0.0)))
    except (IndexError, ValueError, KeyError, TypeError):
        raise NotMeasured(f"its driver printed no measurement: {said.strip()[-200:]!r}") from None


def _walls() -> list[str]:
    unshare = find("unshare")
    if unshare is None:
        raise NotMeasured("`unshare` is missing; install with: sudo apt-get install util-linux")
    walls = [unshare, "--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]
    return walls if os.geteuid() == 0 else [*walls, "--map-root-user"]


def _output(command: Sequence[str], timeout_s: float, env: Mapping[str, str]) -> str:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        out, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"not done after {timeout_s:g} s") from None
    finally:
        # The first process of a PID namespace takes all others with it.
        process.send_signal(signal.SIGKILL)
        process.wait()
    if process.returncode != 0:
        why = errors.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        raise NotMeasured(why[0][:300])
    return out
