"""The few system calls Python 3.11 does not offer, and a walk over the process tree."""

import ctypes
import errno
import os
import signal
import time
from collections.abc import Sequence
from typing import Any, Final

NEWNS: Final = 0x00020000
NEWUSER: Final = 0x10000000
NEWPID: Final = 0x20000000

_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_MS_REC_SLAVE = 1 << 14 | 1 << 19
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

MPOL_DEFAULT: Final = 0
MPOL_PREFERRED: Final = 1
MPOL_BIND: Final = 2
# The C library has no function for it: the number of the system call differs between machines.
_SET_MEMPOLICY: Final = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
_WORD_BITS: Final = 64

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> int:
    result = getattr(_libc, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(result)


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def unshare(flags: int) -> None:
    _call("unshare", flags)


def enter(namespace_fd: int, kind: int) -> None:
    _call("setns", namespace_fd, kind)


def die_with_parent(number: int) -> None:
    _call("prctl", _PR_SET_PDEATHSIG, number, 0, 0, 0)


def adopt_orphans() -> None:
    """Processes whose parent ends become this one's children."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def private_proc() -> None:
    """An own mount namespace whose /proc shows the own PID namespace. Mounts of the host still arrive."""
    unshare(NEWNS)
    _call("mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC_SLAVE), None)
    _call("mount", b"proc", b"/proc", b"proc", ctypes.c_ulong(_MS_NOSUID_NODEV_NOEXEC), None)


def memory_policy(mode: int, node: int = 0) -> None:
    """Where the caller's memory, and that of what it starts, comes from. `node` has no meaning for the default."""
    words = node // _WORD_BITS + 1
    mask = (ctypes.c_uint64 * words)()
    if mode != MPOL_DEFAULT:
        mask[node // _WORD_BITS] = 1 << node % _WORD_BITS
    number = _SET_MEMPOLICY.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"set_mempolicy: not known for {os.uname().machine}")
    # The kernel reads one bit less than it is told.
    _call("syscall", ctypes.c_long(number), ctypes.c_int(mode), mask, ctypes.c_ulong(words * _WORD_BITS + 1))


def signal_fd(numbers: Sequence[int]) -> int:
    """A file that becomes readable when one of these signals arrives; they are blocked otherwise."""
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    mask = (ctypes.c_uint64 * 16)()
    for number in numbers:
        mask[0] |= 1 << (number - 1)
    return _call("signalfd", -1, ctypes.byref(mask), os.O_NONBLOCK | os.O_CLOEXEC)


def descendants(root: int) -> list[int]:
    """Every process below `root`, from one walk over /proc."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry))
    found, ahead = list[int](), [root]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def kill(pid: int) -> None:
    """Gone already, or another user's: either way not ours to end."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
