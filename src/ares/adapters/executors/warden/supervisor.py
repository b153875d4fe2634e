"""The warden: forks slots for the agent, and ends them all when the agent closes its socket.

The death of the agent closes the sockets too. That, not a signal, ends the warden, so that it can remove
its cgroups. A slot sees the end of its own socket in the same way, and dies with its warden in any case.
"""

import contextlib
import errno
import gc
import marshal
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from ares.adapters.executors.warden import kernel, mounts, privileges, sandbox
from ares.adapters.executors.warden.limits import CgroupLimits
from ares.adapters.executors.warden.slot import WardenSlot
from ares.adapters.executors.warden.wire import receive

_SLOT_BUFFER_BYTES = 1 << 20
_TIDY_TRIES = 100
_TIDY_PAUSE_S = 0.01
# The kernel lacks resources for the moment: the agent tries again. Other errors mean that it is forbidden.
_FOR_NOW = (errno.EAGAIN, errno.ENOMEM)
_SYS: Final = "/sys"


class Orders(NamedTuple):
    """The first message of the agent to its warden."""

    # Whether every attempt runs without privileges, also one that does not ask for it.
    harden: bool
    terms: mounts.MountTerms
    # A directory and a user id to try the sandbox with. -1: jobs run as the agent's user.
    folder: str
    uid: int


class Warden:
    def __init__(self, agent: socket.socket, namespaced: bool, cgroups: Sequence[str], orders: Orders) -> None:
        self._agent = agent
        self._namespaced = namespaced
        self._orders = orders
        self._own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY) if namespaced else -1
        self._signals = kernel.signal_fd([signal.SIGCHLD])
        self._slots: set[int] = set()
        self._cgroups = cgroups
        # Only the warden holds the writing end, so its slots see its end on the reading end.
        self._life, self._alive = os.pipe()

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._agent, select.POLLIN)
        poll.register(self._signals, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._signals:
                    self._reap()
                elif message := receive(self._agent):
                    self._open_slot(marshal.loads(message))
                else:
                    return

    def _open_slot(self, paths: Mapping[str, Sequence[str]]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SLOT_BUFFER_BYTES)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            try:
                pid = self._fork()
            except OSError as error:
                self._agent.send(f"cannot open a slot: {error}".encode())
                return
            if pid == 0:
                self._become_slot(theirs, ours, paths)
            self._slots.add(pid)
            socket.send_fds(self._agent, [b"slot"], [ours.fileno()])

    def _fork(self) -> int:
        """The child is the first process of a new PID namespace; the warden stays in its own."""
        if not self._namespaced:
            return os.fork()
        kernel.unshare(kernel.NEWPID)
        try:
            pid = os.fork()
        except OSError:
            kernel.enter(self._own_namespace, kernel.NEWPID)
            raise
        if pid:
            kernel.enter(self._own_namespace, kernel.NEWPID)
        return pid

    def _become_slot(self, agent: socket.socket, other: socket.socket, paths: Mapping[str, Sequence[str]]) -> NoReturn:
        try:
            other.close()
            self._agent.close()
            os.close(self._signals)
            os.close(self._alive)
            sys_fd = os.open(_SYS, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            paths = {kind: [_behind(sys_fd, path) for path in some] for kind, some in paths.items()}
            prepare_slot(self._namespaced, self._orders.harden)
            slot = WardenSlot(agent, self._life, self._namespaced, CgroupLimits(paths), self._orders.terms)
            try:
                slot.serve()
            finally:
                slot.end()
        except BaseException as error:
            agent.send(f"B{error}".encode(errors="replace")[:4000])
            raise
        finally:
            os._exit(1)

    def parts(self) -> list[str]:
        """The parts of the sandbox that work on this machine. A child process tries them and then ends."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        with open(reader, "rb") as file, open(writer, "wb") as report:
            pid = self._fork()
            if pid == 0:
                try:
                    orders = self._orders
                    found = sandbox.tried(orders.terms, orders.folder, orders.uid, self._namespaced)
                    os.write(report.fileno(), " ".join(found).encode())
                finally:
                    os._exit(0)
            report.close()
            found = file.read().decode().split()
        os.waitpid(pid, 0)
        return found

    def _reap(self) -> bool:
        """Collects children that ended. False when none is left."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._signals, 1024)
        try:
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                self._slots.discard(pid)
        except ChildProcessError:
            return False
        return True

    def end(self) -> None:
        """Kills every slot with all it holds, then removes the cgroups."""
        while self._reap():
            for pid in self._slots if self._namespaced else kernel.descendants(os.getpid()):
                kernel.kill(pid)
            time.sleep(_TIDY_PAUSE_S)
        for folder in self._cgroups:
            # Also the groups of an earlier warden.
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                if name.startswith("slot-"):
                    _remove_cgroup(f"{folder}/{name}")
            _remove_cgroup(folder)


def _remove_cgroup(folder: str) -> None:
    for _ in range(_TIDY_TRIES):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            # The kernel frees the group a moment after its last process was collected.
            time.sleep(_TIDY_PAUSE_S)
        else:
            return


def _behind(sys_fd: int, path: str) -> str:
    """The same file below the writable /sys, before a read-only one is mounted over it."""
    return f"/proc/self/fd/{sys_fd}{path.removeprefix(_SYS)}" if path.startswith(f"{_SYS}/") else path


def prepare_slot(namespaced: bool, harden: bool = False) -> None:
    gc.freeze()
    gc.disable()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    # A core dump holds secrets from memory, and goes to a place where other users may read it.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _contain_slot(namespaced, harden)
    if harden:
        for step in (privileges.no_capabilities_later, privileges.no_new_privileges):
            # Some machines forbid it. The node reports which parts of the sandbox work.
            with contextlib.suppress(OSError):
                step()


def _contain_slot(namespaced: bool, harden: bool) -> None:
    if not namespaced:
        # SIGTERM, not SIGKILL: the slot must first end its processes. If the warden ended before this line, no signal
        # comes, and the slot sees the end of the pipe.
        kernel.die_with_parent(signal.SIGTERM)
        kernel.adopt_orphans()
        return
    kernel.die_with_parent(signal.SIGKILL)
    # Some containers forbid the mount. The namespace still ends everything in it.
    with contextlib.suppress(OSError):
        kernel.private_proc()
        if harden:
            mounts.protect_kernel()


def can_contain() -> bool:
    """Whether slots may have PID namespaces; without privileges, inside a user namespace of our own."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        kernel.unshare(kernel.NEWPID)
        kernel.enter(own, kernel.NEWPID)
    except OSError as error:
        if error.errno in _FOR_NOW:
            raise
        return _enter_user_namespace()
    finally:
        os.close(own)
    return True


def _enter_user_namespace() -> bool:
    """Continues in a child, the first process of namespaces that this user owns. The process that the agent started
    waits for it."""
    uid, gid = os.getuid(), os.getgid()
    try:
        kernel.unshare(kernel.NEWUSER | kernel.NEWPID)
    except OSError as error:
        if error.errno in _FOR_NOW:
            raise
        return False
    # From here on a failure ends this process, and the agent starts another that does not try.
    for name, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)
    if inner := os.fork():
        os.waitpid(inner, 0)
        os._exit(0)
    kernel.die_with_parent(signal.SIGKILL)
    return True


def main() -> None:
    agent = socket.socket(fileno=int(sys.argv[1]))
    agent.set_inheritable(False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    namespaced = sys.argv[2] == "best" and can_contain()
    if not namespaced:
        kernel.adopt_orphans()
    harden, terms, folder, uid = marshal.loads(receive(agent))
    warden = Warden(agent, namespaced, sys.argv[3:], Orders(harden, mounts.MountTerms(*terms), folder, uid))
    try:
        agent.send(" ".join(["pid-namespace" if namespaced else "none", *warden.parts()]).encode())
        warden.serve()
    except (BrokenPipeError, ConnectionResetError):
        # The agent was killed while it waited for an answer.
        return
    finally:
        warden.end()
