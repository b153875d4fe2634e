"""A seccomp filter: the kernel refuses system calls that no job needs and that exploits often use."""

import ctypes
import errno
import os
import struct
from typing import Final, NamedTuple

from ares.adapters.executors.warden import kernel

_LOAD, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000
_INSTRUCTION: Final = struct.Struct("=HBBI")
# Flags of all namespaces. The lowest one is no flag of `clone`, and no signal has that number.
_NAMESPACES: Final = 0x7E020080
# Calls of another word size have other numbers.
_X32: Final = 0x40000000


class _Machine(NamedTuple):
    arch: int
    denied: tuple[int, ...]
    # Calls whose first argument says whether a namespace is made.
    clone: int
    unshare: int
    x32: bool


# New since all machines share their numbers: clone3 hides its flags from filters, so programs are sent back to clone.
_CLONE3: Final = 435
# io_uring does what this filter does not see; then making mounts step by step, and quotas by descriptor. A slot lives
# under its own filter and lends directories by umount2, open_tree, move_mount and mount_setattr: those need rights that
# no job has, in a namespace that no job can make.
_SHARED: Final = (425, 426, 427, 430, 431, 432, 433, 443, 467)
MACHINES: Final = {
    "x86_64": _Machine(
        0xC000003E,
        (
            165, 155, 161, 167, 168, 169,  # mount pivot_root chroot swapon swapoff reboot
            170, 171, 172, 173, 175, 176, 313,  # sethostname setdomainname iopl ioperm init_, delete_, finit_module
            179, 180, 163, 164, 227, 246, 320,  # quotactl nfsservctl acct settimeofday clock_settime kexec_(file_)load
            248, 249, 250, 298, 304, 308, 321,  # add_key request_key keyctl perf_event_open open_by_handle_at setns bpf
            323, 153, 212, 134, 103, 300,  # userfaultfd vhangup lookup_dcookie uselib syslog fanotify_init
            *_SHARED,
        ),
        clone=56, unshare=272, x32=True,
    ),
    "aarch64": _Machine(
        0xC00000B7,
        (
            40, 41, 51, 224, 225, 142, 161, 162, 105, 106, 273, 60, 42, 89, 170, 112, 104, 294,
            217, 218, 219, 241, 265, 268, 280, 282, 58, 18, 116, 262,
            *_SHARED,
        ),
        clone=220, unshare=97, x32=False,
    ),
}  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def program(machine: _Machine) -> bytes:
    """Each line: operation, where to go if so, where to go if not, and a number. Places are counted from the end."""
    lines: list[tuple[int, str, str, int]] = [
        (_LOAD, "", "", _ARCH_AT),
        (_JEQ, "", "refuse", machine.arch),
        (_LOAD, "", "", _NUMBER_AT),
        *([(_JGE, "refuse", "", _X32)] if machine.x32 else []),
        *((_JEQ, "refuse", "", number) for number in machine.denied),
        (_JEQ, "unknown", "", _CLONE3),
        (_JEQ, "flags", "", machine.clone),
        (_JEQ, "flags", "allow", machine.unshare),
    ]
    tail = {
        "flags": (_LOAD, "", "", _FIRST_ARGUMENT_AT),
        "namespaces": (_JSET, "refuse", "allow", _NAMESPACES),
        "allow": (_RETURN, "", "", _ALLOW),
        "refuse": (_RETURN, "", "", _REFUSE | errno.EPERM),
        "unknown": (_RETURN, "", "", _REFUSE | errno.ENOSYS),
    }
    place = {name: len(lines) + at for at, name in enumerate(tail)}
    return b"".join(
        _INSTRUCTION.pack(code, place[yes] - at - 1 if yes else 0, place[no] - at - 1 if no else 0, number)
        for at, (code, yes, no, number) in enumerate((*lines, *tail.values()))
    )


_CODE: Final = program(MACHINES[os.uname().machine]) if os.uname().machine in MACHINES else b""


def refuse_calls() -> None:
    """Sets the filter for this process and its children, for good. Needs `no_new_privs`."""
    if not _CODE:
        raise OSError(errno.ENOSYS, f"no list of system calls for {os.uname().machine}")
    kernel.filter_calls(_Program(len(_CODE) // _INSTRUCTION.size, _CODE))
