"""The root of a job that runs in an image: the image's files, read-only, and above them a layer for what it changes.

The slot moves into it for good before anything is mounted in it: whatever links an image holds, they lead nowhere but
into the image. What is mounted later lies at directories that are no links, so that a job cannot turn them elsewhere.
"""

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ares.adapters.executors.warden import kernel, mounts

_KERNEL: Final = ("/proc", "/sys")
# Names of machines, which a network needs. They are the node's.
_NAMES: Final = ("/etc/resolv.conf", "/etc/hosts")
_FILE_BYTES_MAX: Final = 1 << 20
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ImageRoot(NamedTuple):
    """An image for one attempt."""

    # Its files, and an empty directory of the attempt for what it changes.
    root: str
    layer: str
    # Directories in the image that are made if it lacks them: its user's own, and the one to start in.
    home: str
    workdir: str


def enter(image: ImageRoot, terms: mounts.MountTerms, parents: Sequence[str], uid: int) -> mounts.MountRoom:
    """Moves the calling slot into the image. Raises OSError, and ValueError for an image that cannot be used."""
    with mounts.made(), contextlib.ExitStack() as stack:
        given = tuple(path for path, _, _ in terms.found)
        writable, shown = mounts.copies(stack, terms.writable), mounts.copies(stack, (*terms.in_images, *given))
        mounts.as_found(shown, terms)
        devices = mounts.copies(stack, mounts.device_paths(terms.devices))
        files, lent = mounts.copies(stack, _KERNEL), mounts.copies(stack, parents)
        names = [(path, _read(os.path.realpath(path))) for path in _NAMES]
        for _, tree in shown:
            kernel.read_only(tree, below=True)
        _mount(image)
        kernel.enter_root(image.root)
        for path, tree in files:
            _put(tree, path)
        _way("/dev")
        mounts.furnish(devices)
        kernel.mount_memory("/dev/shm", "mode=1777")
        # Some machines forbid it.
        with contextlib.suppress(OSError):
            kernel.mount_queues("/dev/mqueue")
        _furnish_image(image, uid, names)
        for path, tree in (*writable, *shown):
            _put(tree, path)
        for path, _ in lent:
            _way(path)
        return mounts.MountRoom(mounts.lent_fronts(lent))


def _mount(image: ImageRoot) -> None:
    """Mounts the image's files and the attempt's layer over the image's own directory. The layer is in memory where the
    disk cannot hold one."""
    for name in ("upper", "work"):
        os.makedirs(f"{image.layer}/{name}", exist_ok=True)
    lower = os.open(image.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _take_after(f"{image.layer}/upper", lower)
        try:
            _layered(image, lower)
        except OSError:
            kernel.mount_memory(image.layer, "mode=755")
            for name in ("upper", "work"):
                os.mkdir(f"{image.layer}/{name}")
            _take_after(f"{image.layer}/upper", lower)
            _layered(image, lower)
    finally:
        os.close(lower)


def _take_after(upper: str, lower: int) -> None:
    """The root of the whole is as its upper part is: it gets the image's owner and permissions."""
    seen = os.stat(f"/proc/self/fd/{lower}")
    if seen.st_uid != os.geteuid():
        os.chown(upper, seen.st_uid, seen.st_gid)
    os.chmod(upper, seen.st_mode & 0o777 | 0o755)


def _layered(image: ImageRoot, lower: int) -> None:
    try:
        kernel.mount_layers(image.root, lower, image.layer, own_users=False)
    except OSError:
        kernel.mount_layers(image.root, lower, image.layer, own_users=True)


# ---- in the image


def _way(path: str) -> None:
    """Makes the directories of a path. Raises ValueError when one of them is no directory."""
    folder = os.open("/", _FOLDER)
    try:
        for name in path.strip("/").split("/"):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=folder)
            try:
                below = os.open(name, _FOLDER, dir_fd=folder)
            except OSError:
                raise ValueError(
                    f"the image cannot be used on this node: {path} has to be a directory in it, and {name!r} on the "
                    "way there is a link or a file"
                ) from None
            os.close(folder)
            folder = below
    finally:
        os.close(folder)


def _put(tree: int, path: str) -> None:
    """Attaches a mount at the same path in the image."""
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        _way(path)
    else:
        _way(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, _NEW, 0o644))
        if os.path.islink(path):
            raise ValueError(f"the image cannot be used on this node: {path} has to be a file in it, and is a link")
    kernel.attach(tree, path)


def _furnish_image(image: ImageRoot, uid: int, names: Iterable[tuple[str, bytes]]) -> None:
    """Makes what programs expect: their directories, names of machines, and a name of the user they run as."""
    user = uid if uid >= 0 else os.getuid()
    if not os.path.lexists("/tmp"):
        os.mkdir("/tmp")
        os.chmod("/tmp", 0o1777)
    for path in (image.home, image.workdir):
        if path and not os.path.exists(path):
            with contextlib.suppress(ValueError, OSError):
                _way(path)
                os.chown(path, user, -1)
    with contextlib.suppress(ValueError, OSError):
        _way("/etc")
        for path, data in names:
            _replace(path, data, user)
        _name_user(user, image.home or "/")


def _name_user(user: int, home: str) -> None:
    """Many programs fail where their user has no name."""
    lines = _read("/etc/passwd").splitlines()
    if not any(line.split(b":")[2:3] == [b"%d" % user] for line in lines):
        own = f"ares:x:{user}:{user}:Ares:{home}:/bin/sh".encode()
        _replace("/etc/passwd", b"\n".join([*lines, own, b""]), user)


def _read(path: str) -> bytes:
    """A small plain file; nothing of a link, which could lead to what only the slot may read."""
    try:
        fd = os.open(path, _READ)
    except OSError:
        return b""
    try:
        return os.read(fd, _FILE_BYTES_MAX) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    finally:
        os.close(fd)


def _replace(path: str, data: bytes, user: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(path, _NEW, 0o644)
    try:
        os.write(fd, data)
        os.fchown(fd, user, -1)
    finally:
        os.close(fd)


# ---- whether this machine can


def tried(folder: str) -> None:
    """Enters an empty image. The calling process must end after that. Raises OSError when the machine does not allow
    it."""
    kernel.own_mounts()
    kernel.mount_memory(folder, "mode=755")
    image = ImageRoot(f"{folder}/root", f"{folder}/layer", "", "")
    for path in (image.root, image.layer):
        os.mkdir(path)
    _mount(image)
    kernel.enter_root(image.root)
