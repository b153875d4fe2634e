"""Programs that begin with their modules imported: forks of a process that each worker has, itself the fork of one.

Four fifths of what a server costs until it is ready is the import of its modules and the reading of its routes; of what
a command costs it is two thirds. What is forked runs the same command by the same entry point, with an environment, a
working directory and files of its own. What is seen of it from outside (`/proc/PID/cmdline` and `environ`, its memory)
is of the process it was forked from: tests of those do without, and so do tests of what a command imports.
"""

import atexit
import ctypes
import gc
import json
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ares.app.main import COMMANDS, PROGRAMS, main

_MODULES = (
    "uvloop",
    "ares.adapters.planning.process",
    "ares.adapters.store.etcd.store",
    "ares.adapters.store.sqlite.store",
    "ares.app.agent",
    "ares.app.config",
    "ares.app.server",
    "ares.app.commands.serve",
    "ares.edge.client.brief",
    "ares.edge.client.sync",
)
_PROGRAM = (sys.executable, "-m", "ares")
_SERVERS = ("server", "agent")
# What people type and what talks to a server; programs of their own start processes and look at how they were begun.
_COMMANDS = frozenset(name for name, module in COMMANDS.items() if module not in PROGRAMS)
# Variables that are read when they are needed, or not at all.
_READ_LATE = ("ARES_", "XDG_CACHE_HOME", "PYTEST_CURRENT_TEST")
# What a pipe holds; more would need a thread that writes.
_INPUT_MAX = 1 << 16
_REQUEST_MAX = 1 << 17
_PR_SET_PDEATHSIG = 1


def can_begin(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether it is a program of ours as it is, in an environment that is read when it runs, not when it begins."""
    ours = tuple(command[:3]) == _PROGRAM and command[3] in _SERVERS
    return ours and _reads_late(env)


def _reads_late(env: Mapping[str, str]) -> bool:
    """An empty variable is as good as none: `make` leaves its own empty, and programs are begun without."""
    names = env.keys() | os.environ.keys()
    others = {name for name in names if env.get(name, "") != os.environ.get(name, "")}
    return all(name.startswith(_READ_LATE) for name in others)


def run_command(
    arguments: Sequence[str], env: Mapping[str, str], text: str, timeout_s: float, at: Path | None
) -> "subprocess.CompletedProcess[str]":
    """A command of `ares` to its end, as `subprocess.run` would."""
    command, given = [*_PROGRAM, *arguments], text.encode()
    if not (arguments and arguments[0] in _COMMANDS and _reads_late(env) and len(given) <= _INPUT_MAX):
        return subprocess.run(
            command, cwd=at, env=env, input=text, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    with ExitStack() as files:
        reads, writes = os.pipe()
        with os.fdopen(reads, "rb") as typed:
            with os.fdopen(writes, "wb") as keys:
                keys.write(given)
            out, err = (files.enter_context(open(os.memfd_create(name), "rb")) for name in ("out", "err"))
            running = Forked(command, env, (typed.fileno(), out.fileno(), err.fileno()), at)
        try:
            code = running.wait(timeout_s)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            raise
        # The command wrote through the same offset.
        said = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (out, err)]
    return subprocess.CompletedProcess(command, code, *said)


class Forked:
    """As far as `subprocess.Popen` is needed. Its process is a child of the one that forks."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], files: tuple[int, int, int], at: Path | None = None
    ) -> None:
        """`files`: what it reads, and writes as output and as errors."""
        request = {"arguments": list(command[3:]), "env": dict(env), "folder": str(at or Path.cwd())}
        self.pid = _forks().ask(request, files)
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


class _First:
    """The process that imports, once for all workers that are forked after it began."""

    def __init__(self) -> None:
        self._socket, theirs = _pair()
        with theirs:
            # It ends when no process has the other end any more, also by SIGKILL.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
                cwd=Path(__file__).parent.parent, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip

    def fork_for(self, end: socket.socket) -> None:
        """A process that forks for the other end of this one, as long as that is open."""
        socket.send_fds(self._socket, [json.dumps({"forks": True}).encode()], [end.fileno()])

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def first() -> _First:
    """Called ahead of forks, it is theirs too. The process that began it ends it."""
    started, here = _First(), os.getpid()
    atexit.register(lambda: started.close() if os.getpid() == here else None)
    return started


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class _Forks:
    """This worker's end of the process that forks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = _pair()
        with theirs:
            first().fork_for(theirs)

    def ask(self, request: dict[str, Any], fds: Sequence[int] = ()) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
            answer = self._socket.recv(64)
        assert answer, "the process that forks has ended"
        return int(answer)


@cache
def _forks() -> _Forks:
    return _Forks()


# ---- for scripts

# It stands as `ares` in the path of a shell, and imports next to nothing.
_STAND_IN = """#!{python} -IS
import _socket, marshal, os, sys
if sys.argv[1:2] and sys.argv[1] in {commands}:
    asked = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ)))
    forks = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    forks.connect({path!r})
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    forks.sendmsg([asked], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    os._exit(int(forks.recv(64) or 1) % 256)
os.execv({program!r}, [{program!r}, *sys.argv[1:]])
"""


class Launcher:
    """Commands of a script, forked from a process with the rights of the script. The others begin by themselves."""

    def __init__(self, folder: Path, program: Path, drop: Sequence[str]) -> None:
        """`program`: the real one; `drop`: ahead of a command that is to have no right of root."""
        self.folder = folder / "launcher"
        self.folder.mkdir()
        self.folder.chmod(0o755)
        path, python = self.folder / "forks", str(program.parent / "python")
        stand_in = self.folder / "ares"
        stand_in.write_text(
            _STAND_IN.format(python=python, commands=set(_COMMANDS), path=str(path), program=str(program))
        )
        stand_in.chmod(0o755)
        self._end, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(str(path))
            path.chmod(0o666)
            listening.listen()
            fds = [theirs.fileno(), listening.fileno()]
            self._process = subprocess.Popen(
                [*drop, python, "-m", "tests.warm", *map(str, fds)],
                cwd=Path(__file__).parent.parent, stdin=subprocess.DEVNULL, pass_fds=fds,
            )  # fmt: skip

    def close(self) -> None:
        self._end.close()
        self._process.wait()


# ---- the process that forks


class _Begun(NamedTuple):
    parent: int
    arguments: list[str]
    env: dict[str, str]
    folder: str
    files: list[int]


def _serve(own: socket.socket) -> _Begun | None:
    """Forks as it is asked. Comes back in what was forked, or with nothing when no process can ask any more."""
    here = os.getpid()
    while True:
        message, fds, _, _ = socket.recv_fds(own, _REQUEST_MAX, 3)
        if not message:
            return None
        request = json.loads(message)
        if request.get("forks"):
            if os.fork() == 0:
                own.close()
                own, here = socket.socket(fileno=fds[0]), os.getpid()
            else:
                os.close(fds[0])
            continue
        if pid := request.get("reap"):
            answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        elif (answer := os.fork()) == 0:
            own.close()
            return _Begun(here, request["arguments"], request["env"], request["folder"], fds)
        else:
            for fd in fds:
                os.close(fd)
        own.send(str(answer).encode())


def _launch(own: socket.socket, listening: socket.socket) -> _Begun | None:
    """Forks for stand-ins, each of which waits for how its command ended, and takes it along when it is gone itself."""
    poll = select.poll()
    running = dict[int, tuple[int, socket.socket]]()
    here = os.getpid()
    for end in (own, listening):
        poll.register(end, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == own.fileno():
                return None
            if fd == listening.fileno():
                asking, _ = listening.accept()
                message, fds, _, _ = socket.recv_fds(asking, _REQUEST_MAX, 3)
                arguments, folder, env = marshal.loads(message)
                if (pid := os.fork()) == 0:
                    return _Begun(here, arguments, env, folder, fds)
                for given in fds:
                    os.close(given)
                gone = os.pidfd_open(pid)
                running[gone] = running[asking.fileno()] = (pid, asking)
                poll.register(gone, select.POLLIN)
                poll.register(asking, 0)
                continue
            pid, asking = running.pop(fd)
            poll.unregister(fd)
            if fd == asking.fileno():
                os.kill(pid, signal.SIGTERM)
                continue
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(fd)
            if running.pop(asking.fileno(), None):
                poll.unregister(asking)
                asking.send(str(code if code >= 0 else 128 - code).encode())
            asking.close()


def _run(begun: _Begun) -> None:
    """As the program would begin by itself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != begun.parent:
        raise SystemExit("the tests are gone")
    for number, fd in enumerate(begun.files):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(begun.folder)
    os.environ.clear()
    os.environ.update(begun.env)
    sys.argv[1:] = begun.arguments
    if begun.arguments[0] in _SERVERS:
        main(begun.arguments)
    _ended_at_once(begun.arguments)


def _ended_at_once(arguments: list[str]) -> NoReturn:
    """A command, without taking apart what was imported for it: that would copy all pages of the process it is of."""
    code: object = 1
    try:
        main(arguments)
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # As the interpreter does at its end.
        traceback.print_exc()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else 1)


def _main() -> None:
    own, *listening = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    for name in _MODULES:
        import_module(name)
    for module in {COMMANDS[name] for name in _COMMANDS}:
        import_module(f"ares.edge.cli.commands.{module}")
    import_module("ares.edge.rest.app").routed_once()
    # What is imported here is no garbage in any fork: to look through it copies all its pages.
    gc.freeze()
    if begun := _launch(own, listening[0]) if listening else _serve(own):
        _run(begun)


if __name__ == "__main__":
    _main()
