"""Scratch space of sandboxed attempts: /tmp and the like, in memory that counts for the attempt, message queues and
shared memory. Attempts of a slot use it one after the other, and each finds it empty."""

import contextlib
import os
import stat
from itertools import islice
from typing import Final

from ares.adapters.executors.warden import kernel

PLACES: Final = ("/tmp", "/var/tmp", "/dev/shm")
_QUEUES: Final = "/dev/mqueue"
_SHARED: Final = ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg")
_MODE: Final = 0o1777
# Of directories on the way to a mount below one of the places.
_MODE_OF_WAYS: Final = 0o755
# With more entries than this the slot is retired, and the kernel frees them.
_REMOVED_MAX: Final = 10_000


class Scratch:
    """One file system for all places, so that one system call tells whether they are empty."""

    def __init__(self, own: bool) -> None:
        """`own`: attempts run as the same user, and may change the places themselves."""
        self._own = own
        first = PLACES[0]
        kernel.mount_memory(first, "mode=755")
        self._whole = os.open(first, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._trees = list[tuple[str, int]]()
        for number, place in enumerate(PLACES):
            os.mkdir(f"{first}/{number}")
            os.chmod(f"{first}/{number}", _MODE)
            self._trees.append((place, kernel.detached(f"{first}/{number}")))
        self._free, self._queues = 0, -1
        self._shared = list[int]()
        self._held_first = list[int]()

    def place(self) -> None:
        for path, tree in self._trees:
            if os.path.isdir(path):
                kernel.attach(tree, path)
            os.close(tree)
        self._trees = []
        # Some machines forbid it. Queues then cannot be seen, and end with the slot.
        with contextlib.suppress(OSError):
            kernel.mount_queues(_QUEUES)
            self._queues = os.open(_QUEUES, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def begun(self) -> "Scratch":
        """Notes the empty state. Called in the namespaces of the attempts."""
        self._free = os.fstatvfs(self._whole).f_ffree
        for path in _SHARED:
            with contextlib.suppress(OSError):
                self._shared.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._held_first = self._held()
        return self

    def emptied(self) -> bool:
        """Removes what the attempt left. False when that fails: then the slot must end."""
        if self._used() and not self._cleared():
            return False
        return self._held() == self._held_first

    def _held(self) -> list[int]:
        """A measure of shared memory, semaphores and queues: each adds a line, or makes its directory larger."""
        queues = os.fstat(self._queues).st_size if self._queues >= 0 else 0
        return [queues, *(len(os.pread(fd, 4096, 0)) for fd in self._shared)]

    def _used(self) -> bool:
        return os.fstatvfs(self._whole).f_ffree != self._free or (self._own and self._changed())

    def _changed(self) -> bool:
        modes = (os.stat(str(number), dir_fd=self._whole).st_mode for number in range(len(PLACES)))
        return any(stat.S_IMODE(mode) != _MODE for mode in modes)

    def _cleared(self) -> bool:
        try:
            for place in PLACES:
                if os.path.isdir(place):
                    os.chmod(place, _MODE)
            left, device = _REMOVED_MAX, os.fstat(self._whole).st_dev
            for place in PLACES:
                left = _remove_below(place, left, device)
        except OSError:
            return False
        return not self._used()


def _remove_below(folder: str, left: int, device: int) -> int:
    """Removes at most `left` entries and returns how many are left of that. Raises OSError when there are more.

    Mounts below the folder stay, with the directories on the way to them: programs that attempts may read, and the
    operator's directories that they may write to."""
    with os.scandir(folder) as entries:
        found = list(islice(entries, left + 1))
    left -= len(found)
    if left < 0:
        raise OSError("too much to remove one by one")
    for entry in found:
        if entry.stat(follow_symlinks=False).st_dev != device:
            continue
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)
            left = _remove_below(entry.path, left, device)
            if os.listdir(entry.path):
                os.chmod(entry.path, _MODE_OF_WAYS)
            else:
                os.rmdir(entry.path)
        else:
            os.unlink(entry.path)
    return left
