"""Dropping privileges for good. A privilege that a process has dropped, its children cannot get back."""

import contextlib
import os
from collections.abc import Generator, Sequence

from ares.adapters.executors.warden import kernel

# Programs get no capabilities for running as root, and no ambient ones; both settings are locked.
_SECURE_BITS = 1 | 1 << 1 | 1 << 6 | 1 << 7


def no_new_privileges() -> None:
    """Programs gain nothing by a setuid bit or by file capabilities any more."""
    kernel.process_control(kernel.SET_NO_NEW_PRIVS, 1)


def no_capabilities_later() -> None:
    """Programs executed from now on have no capabilities, also as root. The caller keeps its own."""
    kernel.process_control(kernel.SET_SECUREBITS, _SECURE_BITS)
    kernel.process_control(kernel.CAP_AMBIENT, kernel.AMBIENT_CLEAR_ALL)
    for number in range(kernel.last_capability() + 1):
        kernel.process_control(kernel.CAPBSET_DROP, number)


def give(folder: str, uid: int) -> None:
    """Gives a new directory, not used yet, with its entries to a user. Links are not followed."""
    if os.stat(folder).st_uid == uid:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            os.chown(entry.path, uid, uid, follow_symlinks=False)
    os.chown(folder, uid, uid)


def lean_to(uid: int, groups: Sequence[int]) -> None:
    """Prepares the groups for starting programs as that user, see `starting_as`."""
    os.setgroups(groups)
    os.setresgid(uid, 0, 0)


def become(uid: int, groups: Sequence[int]) -> None:
    """Becomes that user for good."""
    os.setgroups(groups)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def give_up(uid: int) -> None:
    """Becomes that user, -1: stays the present one, without any capability and closed to other processes' eyes."""
    if uid >= 0:
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    kernel.drop_capabilities()
    kernel.process_control(kernel.SET_DUMPABLE, 0)


@contextlib.contextmanager
def starting_as(uid: int) -> Generator[None, None, None]:
    """Sets the real user id during the block. A child that resets its effective id to it runs as that user. -1: no
    change."""
    if uid < 0:
        yield
        return
    os.setresuid(uid, 0, 0)
    try:
        yield
    finally:
        # At once: a user may stop and slow down every process with its real id.
        os.setresuid(0, 0, 0)
