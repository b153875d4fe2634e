"""Giving up rights for good: what a process cannot do any more, nothing it starts can."""

import contextlib
import os
from collections.abc import Generator, Sequence

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
    """All of a directory that is new and that nobody uses yet; links themselves, not what they lead to."""
    if os.stat(folder).st_uid == uid:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            os.chown(entry.path, uid, uid, follow_symlinks=False)
    os.chown(folder, uid, uid)


def lean_to(uid: int, groups: Sequence[int]) -> None:
    """What root starts from here on can be that user: see `starting_as`."""
    os.setgroups(groups)
    os.setresgid(uid, 0, 0)


def become(uid: int, groups: Sequence[int]) -> None:
    """For good."""
    os.setgroups(groups)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


@contextlib.contextmanager
def starting_as(uid: int) -> Generator[None, None, None]:
    """Root, whose children are of another user: those that reset their effective ids to the real ones. -1: nobody."""
    if uid < 0:
        yield
        return
    os.setresuid(uid, 0, 0)
    try:
        yield
    finally:
        # At once, for a user may stop and slow down what is its own.
        os.setresuid(0, 0, 0)
