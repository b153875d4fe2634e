"""The sandbox of a slot. Its first attempt names the tenant; the slot then drops privileges for all its attempts."""

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ares.adapters.executors.warden import image_root, kernel, mounts, privileges, seccomp


class Cage(NamedTuple):
    """The sandbox of one tenant's slot. It never changes while the slot lives."""

    sandbox: bool
    # Whether the slot must drop privileges that other slots of the node keep.
    harden: bool
    # Whether Ares' own files are hidden. A sandbox hides them in any case.
    cover: bool
    offline: bool
    # Parents of its attempts' directories, and the user that its attempts run as. -1: the agent's own.
    parents: tuple[str, ...]
    uid: int
    # The image that its only attempt runs in, see `image_root.ImageRoot`; empty without one.
    image: tuple[str, ...] = ()
    # Directories that its attempts may read, and that they may write to, each with its device and inode.
    shown: tuple[tuple[str, int, int], ...] = ()
    kept: tuple[tuple[str, int, int], ...] = ()


def settle(cage: Cage, terms: mounts.MountTerms) -> mounts.MountRoom:
    """Puts the calling slot into its sandbox. Raises ValueError that names the step the kernel refused."""
    rooms = [mounts.MountRoom()]
    shown, kept = (tuple(path for path, _, _ in folders) for folders in (cage.shown, cage.kept))
    terms = terms._replace(shown=(*terms.shown, *shown), kept=kept, found=(*cage.shown, *cage.kept))
    for what, step in _steps(cage, terms, rooms):
        try:
            step()
        except OSError as error:
            raise ValueError(f"cannot be kept apart: {what}: {error.strerror or error}") from None
    return rooms[-1]


def _steps(cage: Cage, terms: mounts.MountTerms, rooms: list[mounts.MountRoom]) -> list[tuple[str, Callable[[], None]]]:
    other = cage.uid >= 0
    groups = mounts.device_groups(terms) if other else []
    steps: list[tuple[str, Callable[[], None]]] = []
    if cage.harden:
        steps += [("mount-namespace", kernel.own_mounts), ("read-only-kernel", mounts.protect_kernel)]
    if cage.offline:
        steps.append(("net-namespace", offline))
    if cage.sandbox:
        steps += [
            ("ipc-namespace", lambda: kernel.unshare(kernel.NEWIPC)),
            ("uts-namespace", lambda: kernel.unshare(kernel.NEWUTS)),
            ("mount-namespace", lambda: rooms.append(_entered(cage, terms))),
        ]
    elif cage.cover:
        steps.append(("mount-namespace", lambda: rooms.append(mounts.cover(terms, cage.parents, cage.uid))))
    if cage.harden:
        steps.append(("no-capabilities", privileges.no_capabilities_later))
    if other:
        steps.append(("uid", lambda: privileges.lean_to(cage.uid, groups)))
    if cage.harden or cage.sandbox or other:
        steps.append(("no-new-privs", privileges.no_new_privileges))
    if cage.sandbox:
        steps.append(("seccomp", seccomp.refuse_calls))
    return steps


def _entered(cage: Cage, terms: mounts.MountTerms) -> mounts.MountRoom:
    if cage.image:
        return image_root.enter(image_root.ImageRoot(*cage.image), terms, cage.parents, cage.uid)
    return mounts.enclose(terms, cage.parents, cage.uid)


def offline() -> None:
    kernel.unshare(kernel.NEWNET)
    kernel.loopback_up()


# ---- abilities of this machine


def tried(terms: mounts.MountTerms, folder: str, uid: int, namespaced: bool) -> list[str]:
    """The parts that work on this machine. Each is tried in this process, which must end after that."""
    steps: list[tuple[tuple[str, ...], Callable[[], None]]] = []
    if namespaced:
        steps += [
            (("images",), lambda: _in_child(lambda: image_root.tried(folder))),
            (("private-proc",), kernel.private_proc),
            (("read-only-kernel",), mounts.protect_kernel),
            (("net-namespace",), offline),
            (("ipc-namespace",), lambda: kernel.unshare(kernel.NEWIPC)),
            (("uts-namespace",), lambda: kernel.unshare(kernel.NEWUTS)),
            (
                ("mount-namespace", "private-tmp", "private-dev", "read-only-root"),
                lambda: _lent(mounts.enclose(terms, (folder,), uid), ()),
            ),
        ]
    steps.append((("no-capabilities",), privileges.no_capabilities_later))
    if uid >= 0:
        steps.append((("uid-per-tenant",), lambda: privileges.become(uid, mounts.device_groups(terms))))
    steps += [(("no-new-privs",), privileges.no_new_privileges), (("seccomp",), _filtered)]
    found = list[str]()
    for names, step in steps:
        with contextlib.suppress(OSError):
            step()
            found += names
    return found


def _lent(room: mounts.MountRoom, folders: Sequence[str]) -> None:
    room.lend(folders)
    room.take_back()


def _in_child(work: Callable[[], None]) -> None:
    """Tries what this process could not go on after. Raises OSError when it fails."""
    if (pid := os.fork()) == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        raise OSError("it failed in a process of its own")


def _filtered() -> None:
    seccomp.refuse_calls()
    try:
        kernel.unshare(kernel.NEWUSER)
    except PermissionError:
        return
    raise OSError("the filter let a new user namespace through")
