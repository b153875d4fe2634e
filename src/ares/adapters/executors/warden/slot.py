"""A slot: PID 1 of its own namespace, running attempts one after the other."""

import contextlib
import marshal
import mmap
import os
import resource
import select
import signal
import socket
import struct
from collections.abc import Generator
from math import inf
from typing import Any, Final, NoReturn

from ares.adapters.executors.warden import kernel, mounts, privileges, sandbox
from ares.adapters.executors.warden.keeper import EntryOrder, keep
from ares.adapters.executors.warden.launch import spawn
from ares.adapters.executors.warden.limits import SLOT_OVERHEAD_MIB, Bounds, CgroupLimits
from ares.adapters.executors.warden.placement import Inherited, Pin
from ares.adapters.executors.warden.stderr import StderrRelay, appending
from ares.adapters.executors.warden.wire import (
    CREDENTIALS,
    DEADLINE,
    FINISHED,
    MESSAGE_BYTES_MAX,
    receive,
    receive_files,
)

# A sleep does not count the time of a suspended machine, and a deadline does: no sleep is longer than this.
DEADLINE_CHECK_S: Final = 1.0
# An attempt that ends within this is reported in one message; within the longer time if it comes after a short one:
# where a burst of short attempts fills the machine, each of them takes longer.
QUICK_S: Final = 0.005
QUICK_AGAIN_S: Final = 0.02
SHORT_S: Final = 0.1
# The slot leaves its cgroup, and the CPU limit is set, only after this. Short attempts do not pay for it.
ASIDE_AFTER_S: Final = 1.0

_NO_TERMS: Final = mounts.MountTerms()
# Memory, CPU weight, CPU limit or 0, largest file, processes, open files.
Numbers = tuple[int, int, int, int, int, int]


class WardenSlot:
    """Runs one attempt at a time, all of one tenant, and leaves nothing of them behind for the next."""

    def __init__(
        self,
        agent: socket.socket,
        warden: int,
        namespaced: bool,
        limits: CgroupLimits,
        terms: mounts.MountTerms = _NO_TERMS,
    ) -> None:
        """`warden` is a pipe that ends with the warden."""
        self._terms = terms
        self._agent = agent
        self._warden = warden
        self._namespaced = namespaced and os.getpid() == 1
        self._limits = limits
        self._null = os.open(os.devnull, os.O_RDWR)
        self._signals = kernel.signal_fd([signal.SIGCHLD, signal.SIGTERM])
        # Not `poll`, which fails with more files than may be open: an attempt of the slot's own user may change that.
        self._poll = select.epoll()
        self._poll.register(agent, select.EPOLLIN)
        self._poll.register(warden, 0)
        # What comes of the attempt itself. It is a part of the other, so that its stderr is registered once.
        self._poll_quick = select.epoll()
        self._poll_quick.register(self._signals, select.EPOLLIN)
        self._poll.register(self._poll_quick, select.EPOLLIN)
        self._poll_signals = select.epoll()
        self._poll_signals.register(self._signals, select.EPOLLIN)
        # Pages that no message has reached take no memory.
        self._received = mmap.mmap(-1, MESSAGE_BYTES_MAX, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._owner = (os.getuid(), os.getgid())
        self._bounds = Bounds()
        # What was last set for an attempt. After each it is still so, see `_is_as_before`.
        self._limited: tuple[Numbers, bool] | None = None
        self._cage: sandbox.Cage | None = None
        self._room = mounts.MountRoom()
        self._quick_s = QUICK_S
        self._main = 0
        # No child is left, so no process of the attempt: orphans become children of the slot.
        self._alone = True
        self._status = 0
        self._cpu_s = 0.0
        self._rss_kib = 0
        self._inherited = Inherited(spared=limits.holds_memory())
        self._stderr = StderrRelay(self._poll_quick)
        # OOM score and pin of the attempt, for sessions in it.
        self._settings: tuple[int, Pin | None] = (0, None)
        # Of sessions in the attempt: what a session runs is told nothing.
        self._keepers = set[int]()

    def serve(self) -> None:
        """Runs attempts until the agent closes the socket."""
        self._send(b"R", os.getpid())
        while message := self._receive():
            if message[:1] == b"L":
                self._attempt(*marshal.loads(message[1:]))

    def _receive(self) -> bytes:
        """The next message while idle; the warden's death counts as the end."""
        while True:
            ready = {fd for fd, _ in self._poll.poll()}
            # Checked first: a slot that must end leaves the command unread, so the agent knows that it did not start.
            if self._warden in ready:
                self.end()
            if self._poll_quick.fileno() in ready:
                self._read_signals()
            if self._agent.fileno() in ready:
                return receive(self._agent, self._received)

    def _read_signals(self) -> None:
        try:
            data = os.read(self._signals, 128 * 8)
        except BlockingIOError:
            return
        numbers = {struct.unpack_from("I", data, at)[0] for at in range(0, len(data), 128)}
        if signal.SIGTERM in numbers:
            self.end()

    def _send(self, data: bytes, pid: int) -> None:
        credentials = CREDENTIALS.pack(pid, *self._owner)
        self._agent.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)])

    def _attempt(
        self,
        argv: list[str],
        env: dict[str, str],
        cwd: str,
        log_path: str,
        stderr_path: str,
        limits: Numbers,
        deadline: float,
        oom_score_adj: int,
        pin: Pin | None,
        folders: list[str],
        caged: tuple[Any, ...],
    ) -> None:
        if kernel.boottime() >= deadline:
            self._agent.send(b"X")
            return
        try:
            less = self._settle(sandbox.Cage(*caged))
        except ValueError as error:
            # The slot is of no use any more: parts of its sandbox may be there.
            self._agent.send(b"E" + str(error).encode(errors="replace")[:4000])
            self.end()
            return
        try:
            self._limit_to(limits, final=less.sandbox)
            self._room.lend(folders)
            if less.uid >= 0:
                for folder in folders:
                    privileges.give(folder, less.uid)
            with (
                _opened(cwd, log_path, less.uid) as log,
                self._stderr.lent(log_path, stderr_path, less.uid) as stderr,
                self._inherited.taken_on(oom_score_adj, less.sandbox, pin, log),
                privileges.starting_as(less.uid),
            ):
                self._main = _spawned(argv, env, cwd, (self._null, log, stderr), less.uid)
        except (OSError, ValueError) as error:
            self._room.take_back()
            self._agent.send(b"E" + str(error).encode(errors="replace")[:4000])
            return
        self._settings = (oom_score_adj, pin)
        self._cpu_s, self._rss_kib, self._alone = 0.0, 0, False
        began = kernel.boottime()
        expired, quick = False, self._ends_soon(began, min(began + self._quick_s, deadline))
        if not quick:
            self._send(b"S", self._main)
            expired = self._watch(deadline, limits[2])
        if not self._alone:
            self._sweep()
        kept = self._stderr.finish()
        self._limits.back()
        oom, crowded = self._limits.killed_for_memory(), self._limits.crowded()
        tag, retire = b"Q" if quick else b"F", not (kept and self._is_as_before(less))
        self._agent.send(FINISHED.pack(tag, self._status, oom, crowded, expired, retire, self._rss_kib, self._cpu_s))
        # After the message, so that the report does not wait for it. No process of the attempt is left.
        self._room.take_back()
        self._quick_s = QUICK_AGAIN_S if quick or kernel.boottime() - began < SHORT_S else QUICK_S

    def _settle(self, wanted: sandbox.Cage) -> sandbox.Cage:
        """Puts the slot into its sandbox at its first attempt, for good."""
        if self._cage is None:
            self._room = sandbox.settle(wanted, self._terms)
            self._cage = wanted
        if wanted != self._cage:
            raise ValueError("the slot is another tenant's")
        return wanted

    def _is_as_before(self, less: sandbox.Cage) -> bool:
        """Whether the slot is clean, so that the next attempt finds it as this one did."""
        # An image is entered for good.
        if less.image:
            return False
        # Another user's processes cannot change anything about the slot.
        kept = less.uid >= 0 or (self._bounds.kept() and self._inherited.kept())
        return kept and self._room.emptied() and not self._limits.spoiled()

    def _ends_soon(self, now: float, until: float) -> bool:
        """Whether the attempt ends at once. Its start and end then go in one message, which halves the work."""
        while self._main and now < until and (ready := self._poll_quick.poll(until - now)):
            for fd, _ in ready:
                self._hear(fd)
            now = kernel.boottime() if self._main else until
        return not self._main

    def _hear(self, fd: int) -> None:
        """A child has ended, or the attempt wrote to stderr for the first time."""
        if fd == self._signals:
            self._read_signals()
            self._reap(os.WNOHANG)
        elif self._main:
            # Otherwise it has ended too, and the rest is read without a thread.
            self._stderr.begin()

    def _limit_to(self, limits: Numbers, *, final: bool) -> None:
        if self._limited != (limits, final):
            self._limited = None
            self._limit(*limits, final=final)
            self._limited = (limits, final)

    def _limit(
        self,
        memory_mib: int,
        cpu_weight: int,
        _cpu_limit: int,
        file_bytes: int,
        processes: int,
        open_files: int,
        *,
        final: bool,
    ) -> None:
        try:
            self._limits.apply("memory", str((memory_mib + SLOT_OVERHEAD_MIB) << 20))
            self._limits.apply("pids", str(processes + 1))
            self._limits.apply("cpu", str(cpu_weight))
        except OSError as error:
            raise ValueError(f"cannot set the limits ({memory_mib} MiB of memory): {error.strerror}") from None
        self._bounds.set(resource.RLIMIT_FSIZE, file_bytes, final=final)
        self._bounds.set(resource.RLIMIT_NOFILE, open_files, final=final)
        self._bounds.set(resource.RLIMIT_CORE, 0, final=True)
        if not self._limits.limits_processes():
            self._bounds.set(resource.RLIMIT_NPROC, processes, final=False)

    def _watch(self, deadline: float, cpu_limit_milli: int) -> bool:
        """Waits for the main process. True when the deadline passed first."""
        expired = False
        aside_at = kernel.boottime() + ASIDE_AFTER_S
        while self._main:
            now = kernel.boottime()
            if now >= aside_at:
                self._limits.step_aside(cpu_limit_milli)
                aside_at = inf
            if now >= deadline and not expired:
                expired, aside_at = True, inf
                self._kill_all()
            left = min(inf if expired else deadline, aside_at) - now
            timeout = None if left > 1e9 else max(0.0, min(left, DEADLINE_CHECK_S))
            for fd, _ in self._poll.poll(timeout):
                if fd == self._warden:
                    self.end()
                elif fd != self._agent.fileno():
                    for news, _ in self._poll_quick.poll(0):
                        self._hear(news)
                else:
                    deadline = self._command(*receive_files(self._agent), deadline)
        return expired

    def _command(self, message: bytes, files: list[int], deadline: float) -> float:
        kind = message[:1]
        if kind == b"D":
            return max(deadline, DEADLINE.unpack(message)[1])
        if kind == b"S":
            # The process may have ended, or left its process group.
            with contextlib.suppress(OSError):
                os.killpg(self._main, message[1])
        elif kind == b"T":
            for pid in kernel.catching(message[1], os.getpid(), self._keepers):
                kernel.kill(pid, message[1])
        elif kind == b"K":
            self._kill_all()
        elif kind == b"N" and files:
            self._enter(EntryOrder(*marshal.loads(message[1:])), files)
        else:
            self.end()
        return deadline

    def _enter(self, order: EntryOrder, files: list[int]) -> None:
        """Forks the keeper of a session into the attempt: its group, limits, user and place."""
        slot = os.getpid()
        # Where there can be no further process, the agent sees the end of the keeper's socket.
        with contextlib.suppress(OSError):
            if (keeper := os.fork()) == 0:
                self._become_keeper(order, files, slot)
            self._keepers.add(keeper)
        for fd in files:
            os.close(fd)

    def _become_keeper(self, order: EntryOrder, files: list[int], slot: int) -> NoReturn:
        control, cage, (oom_score_adj, pin) = socket.socket(fileno=files[0]), self._cage, self._settings
        assert cage is not None, "an attempt runs here"
        self._agent.close()
        os.close(self._signals)
        self._stderr.close()
        try:
            self._limits.join()
            self._inherited.renew()
            with self._inherited.taken_on(oom_score_adj, cage.sandbox, pin, self._null):
                keep(control, files[1:], order, slot, cage.uid)
        finally:
            os._exit(1)

    def _reap(self, flags: int) -> bool:
        """Collects children that ended. False when none is left."""
        try:
            while True:
                pid, status, usage = os.wait4(-1, flags)
                if not pid:
                    return True
                self._cpu_s += usage.ru_utime + usage.ru_stime
                self._rss_kib = max(self._rss_kib, usage.ru_maxrss)
                self._keepers.discard(pid)
                if pid == self._main:
                    self._main, self._status = 0, status
        except ChildProcessError:
            self._alone = True
            return False

    def _kill_all(self) -> None:
        self._limits.uncap()
        if self._namespaced:
            # Only inside its own PID namespace: elsewhere -1 means every process of the machine.
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            for pid in kernel.descendants(os.getpid()):
                kernel.kill(pid)

    def _sweep(self) -> None:
        """Ends and collects every process the attempt left."""
        if self._namespaced:
            self._kill_all()
            self._reap(0)
            return
        while self._reap(os.WNOHANG):
            self._kill_all()
            # Nothing else is waited for: what the agent or the attempt wrote would end the wait at once, each time.
            self._poll_signals.poll(0.01)
            self._read_signals()

    def end(self) -> None:
        """Without a namespace the slot must end its processes itself; with one the kernel does."""
        if not self._namespaced:
            self._sweep()
        os._exit(0)


def _spawned(argv: list[str], env: dict[str, str], cwd: str, files: tuple[int, int, int], uid: int) -> int:
    if uid >= 0 and not os.access(cwd, os.X_OK):
        # The slot itself can enter it, but the attempt's user cannot.
        raise ValueError(f"cannot enter the working directory {cwd}: Permission denied for user {uid}")
    actions = tuple((os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(files))
    return spawn(argv, env, actions, other_user=uid >= 0)


@contextlib.contextmanager
def _opened(cwd: str, log_path: str, uid: int) -> Generator[int, None, None]:
    """Runs the block in the working directory, with the log open."""
    try:
        os.chdir(cwd)
    except OSError as error:
        raise ValueError(f"cannot enter the working directory {cwd}: {error.strerror}") from None
    try:
        with appending(log_path, uid) as log:
            yield log
    finally:
        # An idle slot must not keep the directory of an attempt busy.
        os.chdir("/")
