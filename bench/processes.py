"""Child processes of the benchmarks: started on free loopback ports, ended by their id."""

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

STOP_S = 15.0


class NotMeasured(Exception):
    """Something a benchmark needs is missing or did not start; the message says why."""


def wait_until(ready: Callable[[], bool], what: str, timeout_s: float, pause_s: float = 0.02) -> None:
    deadline = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > deadline:
            raise NotMeasured(f"{what} took longer than {timeout_s:g} s")
        time.sleep(pause_s)


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def running(
    command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The process lives as long as the block; its output goes to `log`."""
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=env)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_lines(log: Path, count: int = 3) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return " | ".join(lines[-count:])[-400:]
