"""What a job sees of the machine: nothing it could change but its own directory, and nothing of the agent or of others.

Everything here happens in the job's own mount namespace and is gone with it.
"""

import contextlib
import os
from collections.abc import Generator, Iterable, Iterator
from typing import Final, NamedTuple

from ares.adapters.executors.warden import kernel

# Writable by root without any capability, and what is written there holds for the whole machine.
_KERNEL_FILES: Final = (
    "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi",
    # Last: a slot that could not have all of it goes on as if it had none, and writes to its control group there.
    "/sys",
)  # fmt: skip
_PRIVATE: Final = ("/tmp", "/var/tmp")
_RUN: Final = "/run"
# Of what services keep there: how names are resolved, and what GPU drivers need.
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
_STAYS_WRITABLE: Final = (*_PRIVATE, "/dev/shm", "/dev/pts", "/proc")


class Terms(NamedTuple):
    """What the agent's configuration says about boxes."""

    # Files and directories that jobs see empty.
    hidden: tuple[str, ...] = ()
    # Directories that they may write to beside their own.
    writable: tuple[str, ...] = ()
    # More devices that they may use, as paths.
    devices: tuple[str, ...] = ()


def protect_kernel() -> None:
    """The kernel's own files are for reading only: in the caller's mount namespace, which is its own already."""
    for path in _KERNEL_FILES:
        if os.path.lexists(path):
            with _copy(path) as tree:
                kernel.read_only(tree, below=True)
                kernel.attach(tree, path)


def enclose(terms: Terms, folders: tuple[str, ...], other_user: bool) -> None:
    """`folders` are the attempt's own. `other_user`: whoever runs there does not get past closed directories on the
    way to them, so that those are replaced by empty ones."""
    kernel.own_mounts()
    with contextlib.ExitStack() as stack:
        own = _copies(stack, (*folders, *terms.writable))
        devices = _copies(stack, _device_paths(terms.devices))
        services = _copies(stack, _KEPT_IN_RUN)
        # By where links lead, while that can be seen.
        hidden = [os.path.realpath(path) for path in terms.hidden]
        null = [stack.enter_context(_copy("/dev/null")) for path in hidden if os.path.isfile(path)]
        closed = [path for folder in folders if (path := _closed(folder))] if other_user else []
        for path in _PRIVATE:
            if os.path.isdir(path):
                kernel.mount_memory(path, "mode=1777")
        kernel.mount_memory(_RUN, "mode=755")
        for path in (*closed, *hidden):
            if os.path.isdir(path):
                kernel.mount_memory(path, "mode=755")
            elif os.path.isfile(path):
                kernel.attach(null.pop(), path)
        _furnish(devices)
        for path, tree in services:
            _put(tree, path)
        for path, _ in own:
            os.makedirs(path, exist_ok=True)
        kernel.read_only("/", below=True)
        for path in _STAYS_WRITABLE:
            if os.path.ismount(path):
                kernel.read_only(path, yes=False)
        for path, tree in own:
            kernel.attach(tree, path)


def device_groups(terms: Terms) -> list[int]:
    """Groups that may use the accelerators: who has no other rights is one of them."""
    owners = set[int]()
    for path in _device_paths(terms.devices):
        inside = [f"{path}/{name}" for name in os.listdir(path)] if os.path.isdir(path) else []
        owners |= {os.stat(one).st_gid for one in (path, *inside)}
    return sorted(owners - {0})


def _device_paths(more: Iterable[str]) -> Iterator[str]:
    yield from (f"/dev/{name}" for name in _DEVICES)
    yield from (f"/dev/{name}" for name in sorted(os.listdir("/dev")) if name.startswith(_ACCELERATORS))
    yield from (path for path in more if os.path.exists(path))


def _copies(stack: contextlib.ExitStack, paths: Iterable[str]) -> list[tuple[str, int]]:
    """Taken before anything is put in front of them."""
    return [(path, stack.enter_context(_copy(path))) for path in paths if os.path.exists(path)]


@contextlib.contextmanager
def _copy(path: str) -> Generator[int, None, None]:
    tree = kernel.detached(path)
    try:
        yield tree
    finally:
        os.close(tree)


def _put(tree: int, path: str) -> None:
    """At a path that may be missing by now."""
    if os.path.isdir(f"/proc/self/fd/{tree}"):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    kernel.attach(tree, path)


def _furnish(devices: list[tuple[str, int]]) -> None:
    """A /dev with what programs expect and accelerators, and no disk."""
    kernel.mount_memory("/dev", "mode=755")
    for name in ("pts", "shm"):
        os.mkdir(f"/dev/{name}")
    kernel.mount_terminals("/dev/pts")
    kernel.mount_memory("/dev/shm", "mode=1777")
    for path, tree in devices:
        _put(tree, path)
    for name, target in _LINKS:
        os.symlink(target, f"/dev/{name}")


def _closed(folder: str) -> str | None:
    """The first directory on the way that is not open to everybody."""
    way = folder.strip("/").split("/")
    for end in range(1, len(way)):
        path = "/" + "/".join(way[:end])
        if not os.stat(path).st_mode & 0o001:
            return path
    return None
