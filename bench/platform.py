"""Ares as in production: a server process and an agent process, in a home directory of their own."""

import contextlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType

import psutil

from bench.http import Connection
from bench.processes import NotMeasured, last_lines, running, wait_until
from tests.ports import free_ports

START_S = 30.0


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds: of the server, the planning process it keeps, the agent, its slots, and the jobs these ran."""

    server: float
    planner: float
    agent: float
    slots: float
    jobs: float

    def per_job_ms(self, before: "Cpu", count: int) -> dict[str, float]:
        """CPU milliseconds by process, of each of `count` jobs."""
        names = [part.name for part in fields(self)]
        return {name: (getattr(self, name) - getattr(before, name)) * 1000 / count for name in names}

    def since(self, before: "Cpu", count: int) -> str:
        """In words, per job of `count`."""
        spent = self.per_job_ms(before, count)
        parts = ", ".join(f"{name} {took:.2f}" for name, took in spent.items())
        return f"CPU ms per job {sum(spent.values()):.2f}: {parts}"


@dataclass(frozen=True, slots=True)
class Platform:
    """A running platform. `agent` is None when jobs are only queued."""

    port: int
    token: str
    home: Path
    server: subprocess.Popen[bytes]
    agent: subprocess.Popen[bytes] | None = None
    # The port that agents, and clusters of a federation, connect to.
    agents: int = 0

    async def connect(self) -> Connection:
        return await Connection.open(self.port, self.token)

    def server_rss_bytes(self) -> int:
        return psutil.Process(self.server.pid).memory_info().rss

    def cpu_s(self) -> "Cpu":
        slots = [] if self.agent is None else psutil.Process(self.agent.pid).children(recursive=True)
        times = [_times(slot) for slot in slots]
        server = psutil.Process(self.server.pid)
        return Cpu(
            server=_times(server)[0],
            planner=sum(sum(_times(child)) for child in server.children(recursive=True)),
            agent=0.0 if self.agent is None else _times(psutil.Process(self.agent.pid))[0],
            slots=sum(own for own, _ in times),
            jobs=sum(reaped for _, reaped in times),
        )


@contextlib.contextmanager
def platform(
    folder: Path,
    store_url: str = "",
    *,
    with_agent: bool = True,
    lend: bool = False,
    program: Sequence[str] = ("-m", "ares"),
    env: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Platform]:
    """Runs for the length of the block. Without a URL the store is SQLite in the home directory. With `lend` jobs reach
    the benchmark's own files, as its user."""
    home = folder / "ares"
    home.mkdir(mode=0o700)
    http, agents = free_ports(2)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARES_")}
    env = {**inherited, **env, "ARES_HOME": str(home)}
    ares = [sys.executable, *program]
    addresses = ["--listen", f"127.0.0.1:{http}", "--agents", f"127.0.0.1:{agents}"]
    store = ["--store", store_url] if store_url else []
    with contextlib.ExitStack() as stack:
        log = folder / "server.log"
        server = stack.enter_context(running([*ares, "server", *addresses, *store], log, env))
        left = home / "client.json"
        # It is written twice: the draft of a token is none yet.
        _wait(
            lambda: _ready(http) and left.exists() and "token" in json.loads(left.read_text()),
            server,
            "the server",
            log,
        )
        token = json.loads(left.read_text())["token"]
        if not with_agent:
            yield Platform(http, token, home, server, agents=agents)
            return
        log = folder / "agent.log"
        join = ["--server", f"127.0.0.1:{agents}", "--auto-join", "--name", "bench"]
        join += [f"--set=node.sandbox.writable={folder}", "--set=node.sandbox.uids=none"] if lend else []
        agent = stack.enter_context(running([*ares, "agent", *join], log, env))
        _wait(lambda: _node_is_ready(http, token), agent, "the agent", log)
        yield Platform(http, token, home, server, agent, agents)


def _wait(ready: Callable[[], bool], process: subprocess.Popen[bytes], what: str, log: Path) -> None:
    def settled() -> bool:
        if process.poll() is not None:
            raise NotMeasured(f"{what} ended with {process.returncode}: {last_lines(log)}")
        return ready()

    wait_until(settled, f"starting {what} (its log: {log})", START_S, 0.05)


def _ready(port: int) -> bool:
    return _get(port, "/readyz", "") is not None


def _node_is_ready(port: int, token: str) -> bool:
    said = _get(port, "/v1/nodes", token)
    return said is not None and any(node["ready"] for node in json.loads(said)["nodes"])


def _get(port: int, path: str, token: str) -> bytes | None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=5.0) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError):
        return None


def _times(process: psutil.Process) -> tuple[float, float]:
    """CPU seconds of the process itself, and of the children it has reaped."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0, 0.0
    return times.user + times.system, times.children_user + times.children_system
