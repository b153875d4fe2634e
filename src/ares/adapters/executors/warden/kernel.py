"""The few system calls Python 3.11 does not offer, and a walk over the process tree."""

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import time
from collections.abc import Collection, Sequence
from typing import Any, Final

NEWNS: Final = 0x00020000
NEWUTS: Final = 0x04000000
NEWIPC: Final = 0x08000000
NEWNET: Final = 0x40000000
NEWUSER: Final = 0x10000000
NEWPID: Final = 0x20000000

_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_MS_NOSUID_NODEV = 2 | 4
_MS_NOSUID_NOEXEC = 2 | 8
_MS_REC_SLAVE = 1 << 14 | 1 << 19
_MS_REC_PRIVATE = 1 << 14 | 1 << 18
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_SECCOMP = 22
_SECCOMP_FILTER = 2
SET_DUMPABLE: Final = 4
CAPBSET_DROP: Final = 24
SET_SECUREBITS: Final = 28
SET_NO_NEW_PRIVS: Final = 38
CAP_AMBIENT: Final = 47
AMBIENT_CLEAR_ALL: Final = 4

# Numbers of calls that the C library may not know; these are the same on all machines.
_OPEN_TREE: Final = 428
_MOVE_MOUNT: Final = 429
_MOUNT_SETATTR: Final = 442
_AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_AT_EMPTY_PATH: Final = 0x1000
_OPEN_TREE_CLONE: Final = 1
_COPY: Final = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_ATTR_READ_ONLY: Final = 1
_MNT_DETACH: Final = 2

MPOL_DEFAULT: Final = 0
MPOL_PREFERRED: Final = 1
MPOL_BIND: Final = 2
# The C library has no function for it: the number of the system call differs between machines.
_SET_MEMPOLICY: Final = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
_CAPABILITY_VERSION: Final = 0x20080522
_WORD_BITS: Final = 64
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall


def _call(name: str, *arguments: Any) -> int:
    return _checked(getattr(_libc, name)(*arguments), name)


def _checked(result: int, name: str) -> int:
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
    """Makes this process the parent of descendants whose parent ends (child subreaper)."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def private_proc() -> None:
    """A mount namespace of its own, whose /proc shows its own PID namespace. Later mounts of the host still appear."""
    unshare(NEWNS)
    _call("mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC_SLAVE), None)
    _call("mount", b"proc", b"/proc", b"proc", ctypes.c_ulong(_MS_NOSUID_NODEV_NOEXEC), None)


def own_mounts() -> None:
    """Cuts the mount namespace off: later mounts of the host do not appear in it, nor its own on the host."""
    unshare(NEWNS)
    _call("mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC_PRIVATE), None)


def mount_memory(path: str, options: str) -> None:
    """Mounts an empty tmpfs. Its pages count for the cgroup of the process that writes them."""
    _call("mount", b"tmpfs", os.fsencode(path), b"tmpfs", ctypes.c_ulong(_MS_NOSUID_NODEV), options.encode())


def mount_terminals(path: str) -> None:
    options = b"newinstance,ptmxmode=0666,mode=620"
    _call("mount", b"devpts", os.fsencode(path), b"devpts", ctypes.c_ulong(_MS_NOSUID_NOEXEC), options)


def mount_queues(path: str) -> None:
    """Mounts the message queues of its own IPC namespace."""
    _call("mount", b"mqueue", os.fsencode(path), b"mqueue", ctypes.c_ulong(_MS_NOSUID_NODEV_NOEXEC), None)


def mount_layers(path: str, lower: int, upper: str, *, own_users: bool) -> None:
    """Mounts the directory `lower` read-only, with what is changed kept in `upper`. No setuid bit and no device file in
    it has any effect. `own_users`: the caller is in a user namespace, where the kernel keeps its notes elsewhere."""
    # By descriptor: a path may hold commas and colons.
    place = os.open(upper, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        own = f"/proc/self/fd/{place}"
        options = f"lowerdir=/proc/self/fd/{lower},upperdir={own}/upper,workdir={own}/work"
        options += ",userxattr" if own_users else ""
        flags = ctypes.c_ulong(_MS_NOSUID_NODEV)
        _call("mount", b"overlay", os.fsencode(path), b"overlay", flags, options.encode())
    finally:
        os.close(place)


def enter_root(path: str) -> None:
    """Makes a mount the root of this mount namespace, and leaves the old one for good."""
    os.chdir(path)
    _call("pivot_root", b".", b".")
    # The old root lies over the new one now.
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def unmount(path: str) -> None:
    """Unmounts, also a file system in use."""
    _call("umount2", os.fsencode(path), _MNT_DETACH)


def detached(path: str, folder: int | None = None) -> int:
    """A detached copy of the mounts at a path and below it. The path is relative to `folder`."""
    start = _AT_FDCWD if folder is None else folder
    return _checked(_syscall(_OPEN_TREE, start, os.fsencode(path), _COPY), "open_tree")


def attach(tree: int, path: str) -> None:
    _checked(_syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(path), _MOVE_MOUNT_F_EMPTY_PATH), "move_mount")


def read_only(place: str | int, *, yes: bool = True, below: bool = False) -> None:
    """Makes a mount read-only, with `below` also the mounts in it. `place` is a path or a detached copy."""
    attributes = (ctypes.c_uint64 * 4)(_ATTR_READ_ONLY if yes else 0, 0 if yes else _ATTR_READ_ONLY, 0, 0)
    at, path = (_AT_FDCWD, os.fsencode(place)) if isinstance(place, str) else (place, b"")
    flags = (_AT_RECURSIVE if below else 0) | (0 if path else _AT_EMPTY_PATH)
    arguments = (ctypes.c_int(at), path, ctypes.c_uint(flags), attributes, ctypes.c_size_t(32))
    _call("syscall", ctypes.c_long(_MOUNT_SETATTR), *arguments)


def loopback_up() -> None:
    """Turns on the loopback interface of a new network namespace, which is off at first."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def process_control(option: int, value: int) -> None:
    _call("prctl", option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())


def filter_calls(program: ctypes.Structure) -> None:
    _call("prctl", _PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_FILTER), ctypes.byref(program), 0, 0)


def last_capability() -> int:
    with open("/proc/sys/kernel/cap_last_cap") as file:
        return int(file.read())


def memory_policy(mode: int, node: int = 0) -> None:
    """Sets the NUMA node for memory of the caller and its children. The default mode ignores `node`."""
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


def descendants(root: int, spared: Collection[int] = ()) -> list[int]:
    """Every process below `root`, from one walk over /proc; without `spared` and what is below them."""
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
        below = [pid for pid in children.get(ahead.pop(), []) if pid not in spared]
        found += below
        ahead += below
    return found


def catching(signum: int, root: int, spared: Collection[int]) -> list[int]:
    """Those of them that have a handler for the signal."""
    found = list[int]()
    for pid in descendants(root, spared):
        try:
            with open(f"/proc/{pid}/status", "rb") as file:
                caught = next((int(line.split()[1], 16) for line in file if line.startswith(b"SigCgt:")), 0)
        except OSError:
            continue
        if caught >> (signum - 1) & 1:
            found.append(pid)
    return found


def kill(pid: int, signum: int = signal.SIGKILL) -> None:
    """Signals a process. One that has ended, or belongs to another user, is left alone."""
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return
