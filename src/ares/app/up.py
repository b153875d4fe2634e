"""`ares up`: the whole platform on one machine, kept running by a small supervisor.

The supervisor holds a lock in the home directory and restarts the server or the agent should one of
them die; jobs survive a restart of the server, and are retried when the agent is restarted.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import structlog

from ares.app import connection_file
from ares.app.config import MAPS, STDIN, Config, ConfigError, NodeConfig
from ares.app.connection_file import connection
from ares.app.ports import require_ports, require_safe
from ares.app.processes import SUPERVISOR, run
from ares.core.net import is_loopback
from ares.model.node import Taint

log = structlog.get_logger()

__all__ = [
    "LOG_FILE",
    "UpError",
    "connection",
    "is_up",
    "last_error",
    "require_as_given",
    "start_detached",
    "stop",
    "supervise",
]

LOCK_FILE = "up.lock"
LOG_FILE = "up.log"
_RESTART_FIRST_S = 0.2
_RESTART_LAST_S = 5.0
_HEALTHY_AFTER_S = 10.0
_STOP_S = 20.0
# What runs may take a minute to save its work.
_DOWN_S = 120.0
# Differences that are named one by one.
_TOLD = 5
# How the command line writes errors.
_ERROR, _FIX = "error: ", "fix: "
# Of a log that is looked through for its last error.
_LOG_READ_MAX = 1 << 20


class UpError(Exception):
    """The platform did not come up; the message says why, or where to look."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.fix = fix


# ---- the supervisor


def supervise(config: Config) -> int:
    """Runs in the foreground until told to stop. One per home directory."""
    config.home_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = _lock(config.home_path)
    if lock is None:
        raise UpError(f"already running for {config.home}; `ares down` stops it")
    with lock:
        # Checked here, so that the error is at the start of the log.
        require_safe(config)
        require_ports(config)
        whole = settled(config)
        leave_config(whole)
        return run(lambda stop: _supervise(whole, stop))


def _lock(home: Path) -> "contextlib.AbstractContextManager[object] | None":
    file = open(home / LOCK_FILE, "a+")  # noqa: SIM115 - held for the supervisor's whole life
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


async def _supervise(config: Config, stop: asyncio.Event) -> int:
    """The agent ends first, while the server still runs: it drains its attempts and reports them."""
    drained = asyncio.Event()
    server = asyncio.create_task(_keep("server", lambda: _spawn(config, "server"), drained))
    stop_s = config.node.drain_s + _STOP_S
    agent = asyncio.create_task(_keep("agent", lambda: _spawn(config, "agent", "--auto-join"), stop, stop_s))
    # One that is configured wrongly takes the other with it.
    server.add_done_callback(lambda _: stop.set())
    agent.add_done_callback(lambda _: drained.set())
    return max(await asyncio.gather(agent, server))


async def _keep(
    name: str, start: Callable[[], subprocess.Popen[bytes]], stop: asyncio.Event, stop_s: float = _STOP_S
) -> int:
    """Starts a process again whenever it ends, slower if it keeps failing.

    One that is configured wrongly from the start ends the whole: trying again would only hide why.
    """
    pause, healthy = _RESTART_FIRST_S, False
    while not stop.is_set():
        began = time.monotonic()
        try:
            process = start()
        except OSError as error:
            # Too many processes or open files: that passes. A supervisor that gave up could not restart anything later.
            log.warning("process.not_started", process=name, error=str(error))
            pause = min(pause * 2, _RESTART_LAST_S)
            await _pause(stop, pause)
            continue
        ended = asyncio.create_task(asyncio.to_thread(process.wait))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if stop.is_set():
            await _end(process, ended, stop_s)
            return 0
        log.warning("process.ended", process=name, code=process.returncode)
        lasted = time.monotonic() - began > _HEALTHY_AFTER_S
        healthy = healthy or lasted
        if process.returncode == ConfigError.exit_code and not healthy:
            stop.set()
            return ConfigError.exit_code
        pause = _RESTART_FIRST_S if lasted else min(pause * 2, _RESTART_LAST_S)
        await _pause(stop, pause)
    return 0


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


async def _end(process: subprocess.Popen[bytes], ended: "asyncio.Task[int]", stop_s: float) -> None:
    process.terminate()
    try:
        async with asyncio.timeout(stop_s):
            await asyncio.shield(ended)
    except TimeoutError:
        process.kill()
        await ended


def _spawn(config: Config, *command: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "ares", *command, "--config", STDIN],
        env=environment(config, {SUPERVISOR: str(os.getpid())}),
        stdin=subprocess.PIPE,
    )
    _hand(process, config)
    return process


def _hand(process: subprocess.Popen[bytes], config: Config) -> None:
    """The whole configuration, by a way that nothing else can come by."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(config_text(config))


# ---- starting and stopping it from a terminal


def is_up(home: Path) -> bool:
    """Whether a supervisor holds the lock of this home directory."""
    path = home / LOCK_FILE
    if not path.exists():
        return False
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def last_error(path: Path, offset: int = 0, *, within: int | None = None) -> UpError | None:
    """The last error in a log, or among its last lines, in the words of the process that had it."""
    with open(path, errors="replace") as file:
        file.seek(max(offset, path.stat().st_size - _LOG_READ_MAX))
        lines = file.read().splitlines()[-(within or 0) :]
    at = next((n for n in range(len(lines) - 1, -1, -1) if lines[n].startswith(_ERROR)), None)
    if at is None:
        return None
    fix = lines[at + 1] if at + 1 < len(lines) else ""
    return UpError(lines[at].removeprefix(_ERROR), fix.removeprefix(_FIX) if fix.startswith(_FIX) else "")


@dataclass(frozen=True, slots=True)
class SupervisorStart:
    """A supervisor on its way."""

    process: subprocess.Popen[bytes]
    log: Path
    # Where its part of the log begins.
    offset: int

    def failure(self) -> UpError | None:
        """The last error in the log, in the words of the process that had it."""
        return last_error(self.log, self.offset)

    def require_alive(self) -> None:
        if self.process.poll() is not None:
            raise self.failure() or UpError(f"the supervisor ended with {self.process.returncode}; see {self.log}")


def start_detached(config: Config) -> SupervisorStart:
    """Starts a supervisor that outlives this terminal."""
    require_safe(config)
    require_ports(config)
    config.home_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole = settled(config)
    path = config.home_path / LOG_FILE
    with open(path, "ab") as output:
        offset = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "ares", "up", "--foreground", "--config", STDIN],
            env=environment(config),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    _hand(process, whole)
    return SupervisorStart(process, path, offset)


def require_as_given(config: Config, keys: frozenset[str] | None) -> None:
    """What runs already has these values, or it is said that it does not. None stands for all of them."""
    other = config_differences(config.home_path, config, keys)
    if other:
        more = f", and {len(other) - _TOLD} more" if len(other) > _TOLD else ""
        raise UpError(
            f"already running with other settings: {'; '.join(other[:_TOLD])}{more}",
            "stop it first: `ares down`, which keeps its state",
        )


def stop(home: Path, timeout_s: float = _DOWN_S) -> bool:
    """Ends the supervisor and with it the platform. False when none was running."""
    if not is_up(home):
        return False
    os.kill(int((home / LOCK_FILE).read_text()), signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while is_up(home):
        if time.monotonic() > deadline:
            raise UpError(
                f"the platform did not stop within {timeout_s:g} s, and goes on stopping; see {home / LOG_FILE}"
            )
        time.sleep(0.1)
    return True


# What a supervisor was started with, for `ares up` to compare with.
# ---- a whole configuration on its way to another process of ours: what was given to one is used by all of them

_FILE = "up.json"
_ANY = ("0.0.0.0", "::", "")


def settled(config: Config) -> Config:
    """With what follows from the agent being beside its server. What was given stays as it was given."""
    node, agents = config.node, config.agents
    if node.servers == NodeConfig().servers:
        if not agents.port:
            raise ConfigError(
                "agents.port is 0, a port nobody knows, and the agent beside the server has to find it",
                "choose one, as in --set agents.port=8643",
            )
        host = "127.0.0.1" if agents.host in _ANY else agents.host
        shown = f"[{host}]" if ":" in host else host
        node = msgspec.structs.replace(node, servers=(f"{shown}:{agents.port}",))
    if agents.tls == "auto" and not is_loopback(agents.host):
        # The server has TLS there; the agent, which comes by loopback, could not tell.
        agents = msgspec.structs.replace(agents, tls="on")
    node = msgspec.structs.replace(node, name=node.name or "local", mock_gpu=node.mock_gpu or "auto")
    return msgspec.structs.replace(config, node=node, agents=agents)


def config_text(config: Config) -> bytes:
    """As a configuration file has it."""
    tree = cast("dict[str, Any]", msgspec.to_builtins(config))
    tree["node"]["taints"] = [_taint(taint) for taint in config.node.taints]
    return msgspec.json.encode(tree)


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}"


def environment(config: Config, more: Mapping[str, str] = {}) -> dict[str, str]:
    """For a process that is given the whole configuration: nothing in its surroundings adds to it."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not (name.startswith("ARES_") and "__" in name) and name != "ARES_MOCK_GPU"
    }
    return {**own, "ARES_HOME": config.home, **more}


def leave_config(config: Config) -> None:
    """Writes the configuration for commands that start while the platform runs."""
    connection_file.replace(config.home_path / _FILE, config_text(config))


def config_differences(home: Path, wanted: Config, keys: frozenset[str] | None) -> list[str]:
    """Of what runs there, the values that are not as wanted: all of them, or of these keys."""
    try:
        running = dict(_leaves(msgspec.json.decode((home / _FILE).read_bytes())))
    except (OSError, msgspec.DecodeError):
        return []
    asked = dict(_leaves(msgspec.json.decode(config_text(settled(wanted)))))
    return [
        f"{key} is {running.get(key)!r}, not {value!r}"
        for key, value in asked.items()
        if running.get(key) != value
        and (keys is None or any(key == named or named.startswith(f"{key}.") for named in keys))
    ]


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in MAPS:
            yield from _leaves(cast("dict[str, Any]", value), f"{key}.")
        else:
            yield key, value
