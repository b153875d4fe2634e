"""The files that a job sees: it can change its own directory only, and sees nothing of the agent or of other tenants.

All mounts are in the mount namespace of one slot, which serves one tenant. They are made once. The directory of an
attempt is mounted for the time of the attempt ("lent") and unmounted after it.
"""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ares.adapters.executors.warden import kernel
from ares.adapters.executors.warden.scratch import PLACES, Scratch

# Root can write to them without any capability, and a write takes effect on the whole machine.
_KERNEL_FILES: Final = (
    "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi",
    # Last: after a failure before it, the slot can still write to its control group there.
    "/sys",
)  # fmt: skip
_RUN: Final = "/run"
# An empty directory in the sandbox.
_VOID: Final = "/run/void"
# Parts of /run that stay visible: name resolution, and files of GPU drivers.
_KEPT_IN_RUN: Final = (
    "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/nvidia-persistenced",
    "/run/nvidia-fabricmanager", "/run/nvidia",
)  # fmt: skip
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
# Accelerators and the network they use among themselves.
_ACCELERATORS: Final = ("nvidia", "kfd", "dri", "infiniband", "accel", "neuron", "davinci")
_LINKS: Final = (
    ("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"), ("ptmx", "pts/ptmx"),
)  # fmt: skip
_STAYS_WRITABLE: Final = (*PLACES, "/dev/pts", "/dev/mqueue", "/proc")
# How often a slot in use looks for files that must be hidden and are new.
_MASK_EVERY_S: Final = 1.0
_FRESH_NS: Final = 2_000_000_000
# Device, number and time of the last change; zeros where there is no directory.
Look = tuple[int, int, int]


class MountTerms(NamedTuple):
    """The agent's settings for the files in sandboxes."""

    # Ares' own files and directories, hidden from every job. `hidden`: those that are hidden in sandboxes only.
    own: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    # Directories that jobs may write to beside their own.
    writable: tuple[str, ...] = ()
    # Paths of more devices that jobs may use.
    devices: tuple[str, ...] = ()
    # Programs that jobs may read, also below a directory that is closed to their user.
    shown: tuple[str, ...] = ()
    # What jobs may read that run in an image, at the same path as on the machine.
    in_images: tuple[str, ...] = ()
    # Directories of one slot's tenant that its attempts may write to.
    kept: tuple[str, ...] = ()
    # Device and inode of directories of one slot: a link or another directory that took the place is not mounted.
    found: tuple[tuple[str, int, int], ...] = ()


class Lent(NamedTuple):
    """A parent directory of attempts. The directory of each attempt is lent while the attempt runs."""

    # The directory itself, which jobs cannot reach, and the empty one mounted over it, writable by this descriptor.
    behind: int
    front: int


class MountRoom:
    """The mounts of one slot, for the attempts of its tenant."""

    def __init__(
        self, lent: Mapping[str, Lent] | None = None, masked: Sequence[str] = (), scratch: Scratch | None = None
    ) -> None:
        """`masked`: hidden paths that were no directories when the mounts were made."""
        self._lent, self._scratch = dict(lent or {}), scratch
        # By directory, with what the directory was like when they were last looked at.
        self._masked: dict[str, list[str]] = {}
        for path in masked:
            self._masked.setdefault(os.path.dirname(path), []).append(path)
        self._looks: dict[str, Look | None] = {}
        self._masked_at = kernel.boottime()
        self._now: list[tuple[int, str, str]] = []

    def lend(self, folders: Iterable[str]) -> None:
        """Mounts the directories of an attempt. After an OSError, those mounted so far must be taken back."""
        if (now := kernel.boottime()) - self._masked_at >= _MASK_EVERY_S:
            self._mask_anew()
            self._masked_at = now
        for folder in folders:
            parent, _, name = folder.rpartition("/")
            if (lent := self._lent.get(parent)) is not None:
                os.mkdir(name, 0o755, dir_fd=lent.front)
                self._now.append((lent.front, folder, name))
                tree = kernel.detached(name, lent.behind)
                try:
                    kernel.attach(tree, folder)
                finally:
                    os.close(tree)

    def _mask_anew(self) -> None:
        """A file may be new, or replaced, such as a key that was rotated: its directory shows it."""
        for folder, paths in self._masked.items():
            look = _look(folder)
            if look is None or look != self._looks.get(folder):
                self._looks[folder] = look
                for path in paths:
                    _mask(path)

    def take_back(self) -> None:
        while self._now:
            front, folder, name = self._now.pop()
            with contextlib.suppress(OSError):
                kernel.unmount(folder)
            os.rmdir(name, dir_fd=front)

    def emptied(self) -> bool:
        """Whether nothing of the attempt is left in /tmp and the like, in shared memory and in queues."""
        return self._scratch is None or self._scratch.emptied()


def _look(folder: str) -> Look | None:
    """What a directory is like; equal while no entry of it came, went or was replaced. None: it cannot be told, as it
    changed just now, and may change again within the same tick of its clock."""
    try:
        found = os.stat(folder)
    except OSError:
        return 0, 0, 0
    fresh = abs(time.time_ns() - found.st_mtime_ns) < _FRESH_NS
    return None if fresh else (found.st_dev, found.st_ino, found.st_mtime_ns)


def protect_kernel() -> None:
    """Makes the kernel's files read-only. The caller must have a mount namespace of its own."""
    for path in _KERNEL_FILES:
        if os.path.lexists(path):
            with _copy(path) as tree:
                kernel.read_only(tree, below=True)
                kernel.attach(tree, path)


def cover(terms: MountTerms, parents: Sequence[str], uid: int) -> MountRoom:
    """Hides Ares' own files, and of `parents` everything that is not lent. User `uid` cannot pass closed directories on
    the way to files that attempts may use, so empty ones replace those. -1: attempts run as the agent's user."""
    with made(), contextlib.ExitStack() as stack:
        shown, kept, lent = (copies(stack, paths) for paths in (terms.shown, terms.kept, parents))
        as_found((*shown, *kept), terms)
        own = [os.path.realpath(path) for path in terms.own]
        paths = (*parents, *terms.shown, *terms.kept)
        closed = [path for path in map(_closed, paths) if path] if uid >= 0 else []
        empty = _empty((*closed, *own))
        fronts = lent_fronts(lent)
        _show(shown, empty)
        for path, tree in kept:
            _put(tree, path)
        # Ares' own files below a program that was just mounted again.
        empty += _empty(path for path in own if _within(path, [path for path, _ in shown]))
        for path in empty:
            kernel.read_only(path)
        return MountRoom(fronts, [path for path in own if not os.path.isdir(path)])


def enclose(terms: MountTerms, parents: Sequence[str], uid: int) -> MountRoom:
    """As `cover`, and makes everything else read-only."""
    with made(), contextlib.ExitStack() as stack:
        writable, shown = copies(stack, (*terms.writable, *terms.kept)), copies(stack, terms.shown)
        as_found((*writable, *shown), terms)
        devices, services = copies(stack, device_paths(terms.devices)), copies(stack, _KEPT_IN_RUN)
        lent = copies(stack, parents)
        # Links are resolved while their targets are still visible.
        hidden = [os.path.realpath(path) for path in (*terms.own, *terms.hidden)]
        paths = (*parents, *terms.shown, *(path for path, _ in writable))
        closed = [path for path in map(_closed, paths) if path] if uid >= 0 else []
        scratch = Scratch(own=uid < 0)
        kernel.mount_memory(_RUN, "mode=755")
        os.mkdir(_VOID)
        empty = _empty((*closed, *hidden))
        furnish(devices)
        scratch.place()
        for path, tree in services:
            _put(tree, path)
        for path in (*parents, *(path for path, _ in writable)):
            os.makedirs(path, exist_ok=True)
        _show(shown, [*empty, *PLACES, _RUN])
        kernel.read_only("/", below=True)
        for path in _STAYS_WRITABLE:
            if os.path.ismount(path):
                kernel.read_only(path, yes=False)
        for path, tree in writable:
            kernel.attach(tree, path)
        # Hidden paths below those that were just mounted over them.
        again = _empty(path for path in hidden if _within(path, [bound for bound, _ in (*writable, *shown)]))
        fronts = lent_fronts(lent)
        for path in again:
            kernel.read_only(path)
        return MountRoom(fronts, [path for path in hidden if not os.path.isdir(path)], scratch.begun())


def device_groups(terms: MountTerms) -> list[int]:
    """Groups that may use the accelerators. A job that runs as its tenant's user needs to be a member."""
    owners = set[int]()
    for path in device_paths(terms.devices):
        inside = [f"{path}/{name}" for name in os.listdir(path)] if os.path.isdir(path) else []
        owners |= {os.stat(device).st_gid for device in (path, *inside)}
    return sorted(owners - {0})


@contextlib.contextmanager
def made() -> Generator[None, None, None]:
    """Runs the block in a mount namespace of its own, with a umask that leaves new directories open to every user."""
    kernel.own_mounts()
    mask = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(mask)


def _empty(paths: Iterable[str]) -> list[str]:
    """Mounts an empty directory or file over each path. Returns the directories."""
    folders = list[str]()
    for path in paths:
        if os.path.isdir(path):
            kernel.mount_memory(path, "mode=755")
            folders.append(path)
        else:
            _mask(path)
    return folders


def _mask(path: str) -> None:
    """Hides a file behind /dev/null, unless it is hidden already, and a new directory behind an empty one."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except OSError:
        return
    if kind == stat.S_IFDIR and os.path.isdir(_VOID) and not os.path.ismount(path):
        _attach_copy(_VOID, path)
    elif kind not in (stat.S_IFCHR, stat.S_IFDIR):
        _attach_copy("/dev/null", path)


def _attach_copy(path: str, place: str) -> None:
    with _copy(path) as tree:
        kernel.attach(tree, place)


def lent_fronts(lent: Iterable[tuple[str, int]]) -> dict[str, Lent]:
    fronts = dict[str, Lent]()
    for path, tree in lent:
        # Mounted again at its path, without the mounts that hide it, then behind an empty directory.
        _put(tree, path)
        behind = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        kernel.mount_memory(path, "mode=755")
        fronts[path] = Lent(behind, kernel.detached(path))
        kernel.read_only(path)
    return fronts


def _show(shown: Iterable[tuple[str, int]], covered: Sequence[str]) -> None:
    """Mounts paths again, read-only, that lie below a directory that was covered."""
    for path, tree in shown:
        if _within(path, covered):
            kernel.read_only(tree, below=True)
            _put(tree, path)


def _within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def device_paths(more: Iterable[str]) -> Iterator[str]:
    yield from (f"/dev/{name}" for name in _DEVICES)
    yield from (f"/dev/{name}" for name in sorted(os.listdir("/dev")) if name.startswith(_ACCELERATORS))
    yield from (path for path in more if os.path.exists(path))


def copies(stack: contextlib.ExitStack, paths: Iterable[str]) -> list[tuple[str, int]]:
    """Copies of the mounts at these paths. Taken before anything is mounted over them."""
    return [(path, stack.enter_context(_copy(path))) for path in paths if os.path.exists(path)]


def as_found(copies: Iterable[tuple[str, int]], terms: MountTerms) -> None:
    """Raises OSError when a directory is not the one that was found."""
    seen = {path: os.fstat(tree) for path, tree in copies}
    for path, device, inode in terms.found:
        if path not in seen or (seen[path].st_dev, seen[path].st_ino) != (device, inode):
            raise OSError(errno.ESTALE, f"{path} was removed or replaced meanwhile")


@contextlib.contextmanager
def _copy(path: str) -> Generator[int, None, None]:
    tree = kernel.detached(path)
    try:
        yield tree
    finally:
        os.close(tree)


def _put(tree: int, path: str) -> None:
    """Attaches a mount at a path, which is made if it is missing by now."""
    if os.path.isdir(f"/proc/self/fd/{tree}"):
        os.makedirs(path, exist_ok=True)
    elif not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    kernel.attach(tree, path)


def furnish(devices: list[tuple[str, int]]) -> None:
    """Makes a /dev with the usual devices and the accelerators, but no disk."""
    kernel.mount_memory("/dev", "mode=755")
    for name in ("pts", "shm", "mqueue"):
        os.mkdir(f"/dev/{name}")
    kernel.mount_terminals("/dev/pts")
    for path, tree in devices:
        _put(tree, path)
    for name, target in _LINKS:
        os.symlink(target, f"/dev/{name}")


def _closed(folder: str) -> str | None:
    """The first directory on the way that other users cannot enter."""
    way = folder.strip("/").split("/")
    for end in range(1, len(way)):
        path = "/" + "/".join(way[:end])
        with contextlib.suppress(OSError):
            if not os.stat(path).st_mode & 0o001:
                return path
    return None
