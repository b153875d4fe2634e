"""The processes that a helper starts in its slot, and what they tell of their ends."""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

from ares.agent.helper.launch import START, begin

_LOOK_S = 1.0
# A process that stays stopped for so long will not go on by itself.
FROZEN_S = 7.0
_STOP_S = 5.0
_HEARD_MAX = 4096


class HelperEnd(NamedTuple):
    """How a rank ends, and what its agent is told beside."""

    code: int = 0
    signum: int = 0
    message: str = ""
    failure: str = ""
    # The rank that failed before it.
    blames: int | None = None

    @property
    def failed(self) -> bool:
        return bool(self.code or self.signum)


def end_of(returncode: int) -> HelperEnd:
    return HelperEnd(code=returncode) if returncode >= 0 else HelperEnd(signum=-returncode)


class HelperProcess:
    """A child of the helper. `output` has what it wrote, if it was to be heard."""

    def __init__(self, pid: int, output: int | None = None) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._output = output
        self._handle = os.pidfd_open(pid)
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._handle, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        return self.returncode or 0

    async def heard(self) -> str:
        """The beginning of its output, once it has ended."""
        await self.wait()
        return "" if self._output is None else os.pread(self._output, _HEARD_MAX, 0).decode(errors="replace")

    def terminate(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGTERM)


class SlotProcesses:
    """`failed` is told the first end of a process that no launcher brought about; `called` the place of a rank that a
    launcher wants a command to be run on."""

    def __init__(
        self,
        ends: str,
        failed: Callable[[HelperEnd], None],
        called: Callable[[int], None] | None = None,
        pipe: int | None = None,
    ) -> None:
        """`pipe`: where `ends` is open already."""
        self._failed = failed
        self._called = called
        self._started = list[HelperProcess]()
        # Which start of the program it is: what is told of an earlier one comes too late.
        self._start = 0
        self._ends = ends
        # Since when a process is stopped: by its pid, or by the number that its watcher gave.
        self._stopped: dict[str, float] = {}
        # A launcher ends its processes by SIGTERM when another failed: not the first end, unless none else is told.
        self.terminated: HelperEnd | None = None
        if pipe is None:
            with contextlib.suppress(FileExistsError):
                os.mkfifo(ends, 0o600)
            pipe = os.open(ends, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._pipe = pipe
        self._left = b""
        asyncio.get_running_loop().add_reader(self._pipe, self._told)

    def start(
        self, argv: "list[str]", env: "dict[str, str]", *, apart: bool = False, heard: bool = False
    ) -> HelperProcess | HelperEnd:
        """`apart`: signals to the rank's group do not reach it. `heard`: its output is for the helper, not the log."""
        output = os.memfd_create("heard", os.MFD_CLOEXEC) if heard else None
        try:
            pid = begin(argv, {**env, START: str(self._start)}, apart=apart, output=output)
        except OSError as error:
            known = f"command not found: {argv[0]} (looked in PATH={env.get('PATH', '')})"
            message = known if isinstance(error, FileNotFoundError) else f"cannot run {argv[0]}: {error.strerror}"
            return HelperEnd(code=127, message=message, failure="staging")
        return self.adopt(pid, output)

    def adopt(self, pid: int, output: int | None = None) -> HelperProcess:
        """A child that was begun for the current start of the program."""
        process = HelperProcess(pid, output)
        self._started.append(process)
        return process

    def _told(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._left += os.read(self._pipe, 1 << 16)
        *lines, self._left = self._left.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self._take(json.loads(line))

    def _take(self, said: "dict[str, Any]") -> None:
        if "call" in said:
            if self._called is not None:
                self._called(int(said["call"]))
            return
        if int(said["start"]) != self._start:
            return
        who = f"process {int(said['rank'])} (local rank {int(said['local'])})"
        if "stopped" in said:
            if said["stopped"]:
                self._stopped[who] = asyncio.get_running_loop().time()
            else:
                self._stopped.pop(who, None)
            return
        end = HelperEnd(int(said.get("code", 0)), int(said.get("signal", 0)))
        how = said.get("message") or (f"exit code {end.code}" if end.code else f"killed by {_name(end.signum)}")
        end = end._replace(message=f"{who}: {how}"[:1000])
        if end.signum == signal.SIGTERM:
            self.terminated = self.terminated or end
        else:
            self._failed(end)

    async def watch_frozen(self) -> None:
        """Ends the rank when one of its processes stays stopped: its framework would wait for it for minutes."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now = asyncio.get_running_loop().time()
            for process in self._started:
                who = f"{process.pid}"
                if process.returncode is None and _is_stopped(process.pid):
                    self._stopped.setdefault(who, now)
                else:
                    self._stopped.pop(who, None)
            for who, since in self._stopped.items():
                if now - since >= FROZEN_S:
                    message = f"{who if ' ' in who else f'process id {who}'} has been stopped for {now - since:.0f} s"
                    self._failed(HelperEnd(signum=signal.SIGSTOP, message=message))

    async def stop_all(self) -> None:
        """SIGTERM, then SIGKILL, also to what is below them in sessions of its own: the program is to begin anew."""
        below = self._below()
        alive = [process for process in self._started if process.returncode is None]
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        if alive:
            await asyncio.wait([asyncio.ensure_future(process.wait()) for process in alive], timeout=_STOP_S)
        # Those that began meanwhile, too. A process id that was given anew is another process.
        for pid, began in {**below, **self._below()}.items():
            stat = _stat(pid)
            if stat is not None and stat.began == began:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self._start += 1
        self._started.clear()
        self._stopped.clear()
        self.terminated = None

    def _below(self) -> dict[int, int]:
        """What was started and all that came of it, by process id, with the time of its start. A process whose launcher
        has ended is known by its environment."""
        stats = {int(name): stat for name in os.listdir("/proc") if name.isdigit() and (stat := _stat(int(name)))}
        mark = f"ARES_HELPER_ENDS={self._ends}".encode()
        found = {process.pid for process in self._started if process.returncode is None}
        found |= {pid for pid in stats if mark in _environment_of(pid)}
        ahead = set(found)
        while ahead := {pid for pid, stat in stats.items() if stat.parent in ahead} - found:
            found |= ahead
        return {pid: stats[pid].began for pid in found if pid in stats}


class _Stat(NamedTuple):
    state: bytes
    parent: int
    # In ticks since the machine's start: with the process id it names a process for good.
    began: int


def _stat(pid: int) -> _Stat | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return _Stat(words[0], int(words[1]), int(words[19]))


def _environment_of(pid: int) -> "list[bytes]":
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _is_stopped(pid: int) -> bool:
    stat = _stat(pid)
    return stat is not None and stat.state == b"T"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def is_free(port: int) -> bool:
    """Of a connection that is over, the kernel keeps the port for a while: that is no obstacle."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind(("", port))
            holder.listen()
        except OSError:
            return False
    return True


async def listens(address: str, port: int) -> bool:
    """Whether the port accepts connections."""
    try:
        _, writer = await asyncio.open_connection(address, port)
    except OSError:
        return False
    writer.close()
    return True
