"""Giving up rights for good: what a process cannot do any more, nothing it starts can."""

import os
from collections.abc import Sequence

from ares.adapters.executors.warden import kernel

# Root's programs get no capabilities for being root's, and nobody can change that back; nor raise ambient ones.
_SECURE_BITS = 1 | 1 << 1 | 1 << 6 | 1 << 7


def no_new_privileges() -> None:
    """A setuid bit, or capabilities of a file, then mean nothing."""
    kernel.process_control(kernel.SET_NO_NEW_PRIVS, 1)


def no_capabilities_later() -> None:
    """Whatever is executed from here on has none, also as root. The caller itself keeps its own."""
    kernel.process_control(kernel.SET_SECUREBITS, _SECURE_BITS)
    kernel.process_control(kernel.CAP_AMBIENT, kernel.AMBIENT_CLEAR_ALL)
    for number in range(kernel.last_capability() + 1):
        kernel.process_control(kernel.CAPBSET_DROP, number)


def give(folder: str, uid: int) -> None:
    """All of it, while nobody uses it yet; links themselves, not what they lead to."""
    os.chown(folder, uid, uid)
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(f"{path}/{name}", uid, uid, follow_symlinks=False)


def become(uid: int, groups: Sequence[int]) -> None:
    os.setgroups(groups)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
