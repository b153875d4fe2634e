"""Servers and agents that begin with their modules imported: forks of a process that each worker starts once.

Four fifths of what a server costs until it is ready is the import of its modules and the reading of its routes.
What is forked runs the same command by the same entry point, with an environment, a working directory and files of
its own. What is seen of it from outside (`/proc/PID/cmdline` and `environ`, its memory) is of the process it was forked
from: tests of those do without.
"""

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

_MODULES = (
    "uvloop",
    "ares.adapters.planning.process",
    "ares.adapters.store.etcd.store",
    "ares.adapters.store.sqlite.store",
    "ares.app.agent",
    "ares.app.config",
    "ares.app.server",
    "ares.app.commands.serve",
)
_PROGRAM = (sys.executable, "-m", "ares")
_COMMANDS = ("server", "agent")
_REQUEST_MAX = 1 << 17
_PR_SET_PDEATHSIG = 1


def can_begin(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether it is a program of ours as it is, in an environment that is read when it runs, not when it begins."""
    ours = tuple(command[:3]) == _PROGRAM and command[3] in _COMMANDS
    others = {name for name, value in env.items() if os.environ.get(name) != value} | (os.environ.keys() - env.keys())
    return ours and all(name.startswith("ARES_") for name in others)


class Forked:
    """As far as `subprocess.Popen` is needed. Its process is a child of the one that forks."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: int) -> None:
        request = {"arguments": list(command[3:]), "env": dict(env), "folder": str(Path.cwd())}
        self.pid = _forks().ask(request, [log])
        self._gone = os.pidfd_open(self.pid)
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None and self._ended(0.0):
            self._reap()
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            if not self._ended(timeout):
                raise subprocess.TimeoutExpired(["ares"], timeout or 0.0)
            self._reap()
        assert self._code is not None
        return self._code

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._gone, number)

    def _ended(self, timeout_s: float | None) -> bool:
        poll = select.poll()
        poll.register(self._gone, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))

    def _reap(self) -> None:
        self._code = _forks().ask({"reap": self.pid})
        os.close(self._gone)


class _Forks:
    """This worker's end of the process that forks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # It ends when this end is closed, also by SIGKILL.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
                cwd=Path(__file__).parent.parent, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip

    def ask(self, request: dict[str, Any], fds: Sequence[int] = ()) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
            answer = self._socket.recv(64)
        assert answer, f"the process that forks ended with {self._process.wait()}"
        return int(answer)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _forks() -> _Forks:
    started = _Forks()
    atexit.register(started.close)
    return started


# ---- the process that forks


class _Begun(NamedTuple):
    arguments: list[str]
    env: dict[str, str]
    folder: str
    log: int


def _serve(own: socket.socket) -> _Begun | None:
    """Forks as it is asked. Comes back in what was forked, or with nothing when nobody can ask any more."""
    while True:
        message, fds, _, _ = socket.recv_fds(own, _REQUEST_MAX, 1)
        if not message:
            return None
        request = json.loads(message)
        if pid := request.get("reap"):
            answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        elif (answer := os.fork()) == 0:
            own.close()
            return _Begun(request["arguments"], request["env"], request["folder"], fds[0])
        else:
            os.close(fds[0])
        own.send(str(answer).encode())


def _run(begun: _Begun, parent: int) -> None:
    """As the program would begin by itself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the tests are gone")
    os.dup2(begun.log, 1)
    os.dup2(begun.log, 2)
    os.close(begun.log)
    os.chdir(begun.folder)
    os.environ.clear()
    os.environ.update(begun.env)
    sys.argv[1:] = begun.arguments
    import_module("ares.app.main").main(begun.arguments)


def _main() -> None:
    own, parent = socket.socket(fileno=int(sys.argv[1])), os.getpid()
    for name in _MODULES:
        import_module(name)
    import_module("ares.edge.rest.app").routed_once()
    # What is imported here is no garbage in any fork: to look through it copies all its pages.
    gc.freeze()
    if begun := _serve(own):
        _run(begun, parent)


if __name__ == "__main__":
    _main()
