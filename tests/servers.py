"""Real servers for tests: each on free ports, in a directory of its own, ended by who started it."""

import ctypes
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.ports import free_ports

_READY_S = 30.0
_POLL_S = 0.02
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class ServerFailed(Exception):
    """A server did not come up; carries the end of its output."""


def die_with_parent() -> None:
    """For `preexec_fn`: a killed test leaves no servers behind. The signal comes when the *thread* that forked
    ends, so it is left out where that is not the main one."""
    if threading.current_thread() is threading.main_thread():
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class EtcdServer:
    """One etcd, alone or a member of an `EtcdCluster`. Calls block: in a loop use `asyncio.to_thread`."""

    def __init__(
        self, directory: Path, *, name: str = "etcd", peers: Sequence[tuple[str, int]] = (), listen_peer: int = 0
    ) -> None:
        """`listen_peer` is where it really listens when others reach it through something at its port in `peers`."""
        self.directory = directory
        self.name = name
        self._client_port, own_peer_port = free_ports(2)
        self._peers = list(peers) or [(name, own_peer_port)]
        self._listen_peer = listen_peer or dict(self._peers)[name]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._client_port}"

    @property
    def url(self) -> str:
        return f"etcd://{self.endpoint}"

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self, *, wait: bool = True) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        peer_port = dict(self._peers)[self.name]
        client, peer = f"http://{self.endpoint}", f"http://127.0.0.1:{peer_port}"
        listen = f"http://127.0.0.1:{self._listen_peer}"
        # fmt: off
        command = [
            "etcd", "--name", self.name, "--data-dir", str(self.directory / f"{self.name}.data"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", listen, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in self._peers),
            "--initial-cluster-state", "new", "--logger", "zap", "--log-level", "warn",
        ]
        # fmt: on
        with self._log().open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, nothing is allocated
            )  # fmt: skip
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline:
            if self._running().poll() is not None:
                break
            if self._healthy():
                return
            time.sleep(_POLL_S)
        output = self._log().read_text(errors="replace")[-2000:]
        self.kill()
        raise ServerFailed(f"etcd {self.name} is not healthy after {_READY_S:g} s:\n{output}")

    def kill(self) -> None:
        """SIGKILL: nothing more is written."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """On the same ports and data."""
        self.stop()
        self.start()

    def snapshot(self, file: Path) -> None:
        """A copy of one moment, while it runs."""
        _etcdctl("--endpoints", self.endpoint, "snapshot", "save", str(file))

    def restore(self, file: Path) -> None:
        """Stops it, puts the copy in the place of its data and starts it: revisions go on from the copy's."""
        self.stop()
        data = self.directory / f"{self.name}.data"
        shutil.rmtree(data)
        members = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in self._peers)
        peer = f"http://127.0.0.1:{dict(self._peers)[self.name]}"
        _etcdctl(
            "snapshot", "restore", str(file), "--data-dir", str(data), "--name", self.name,
            "--initial-cluster", members, "--initial-advertise-peer-urls", peer,
        )  # fmt: skip
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay up, nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)
        # On a busy machine a thread that runs elsewhere goes on for a moment.
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline and not self._stopped():
            time.sleep(_POLL_S)

    def _stopped(self) -> bool:
        tasks = Path(f"/proc/{self.pid}/task").glob("*/stat")
        return all(stat.read_text().rpartition(")")[2].split()[0] in ("T", "t") for stat in tasks)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def _end(self, signum: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signum)
            # A paused process takes no SIGTERM.
            process.send_signal(signal.SIGCONT)
        try:
            process.wait(_READY_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerFailed(f"etcd {self.name} is not running: call start() first")
        return self._process

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.endpoint}/health", timeout=1) as answer:
                return b'"true"' in answer.read()
        except (urllib.error.URLError, OSError):
            return False

    def _log(self) -> Path:
        return self.directory / f"{self.name}.log"


def _etcdctl(*arguments: str) -> None:
    done = subprocess.run(
        ["etcdctl", *arguments], env={**os.environ, "ETCDCTL_API": "3"},
        capture_output=True, text=True, timeout=_READY_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise ServerFailed(f"etcdctl {' '.join(arguments)}: {done.stderr}")


class EtcdCluster:
    """Three members that elect a leader."""

    def __init__(self, directory: Path, size: int = 3, between: Callable[[str], int] | None = None) -> None:
        """`between` puts something in front of a member's address for the others, and says at which port it is."""
        ports = free_ports(size)
        peers = [(f"etcd{n}", between(f"127.0.0.1:{port}") if between else port) for n, port in enumerate(ports)]
        self.members = [
            EtcdServer(directory, name=name, peers=peers, listen_peer=port)
            for (name, _), port in zip(peers, ports, strict=True)
        ]

    @property
    def endpoints(self) -> list[str]:
        return [member.endpoint for member in self.members]

    @property
    def url(self) -> str:
        return f"etcd://{','.join(self.endpoints)}"

    def start(self) -> Self:
        try:
            for member in self.members:
                member.start(wait=False)
            for member in self.members:
                member.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        for member in self.members:
            member.kill()

    def stop(self) -> None:
        for member in self.members:
            member.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
