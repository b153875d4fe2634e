"""Tells an agent on the same machine whether a server is alive that decides by an embedded store.

A server has the store for a while before it decides anything: it reads all records first. On a busy machine that takes
longer than a lease lasts. So the store's own lock does not count, but a second one, held from the first decision on:
a file that is locked before it gets its name. Agents know it by its inode.
"""

import asyncio
import contextlib
import fcntl
import os
from pathlib import Path

from ares.model.link import StoreLock

_KERNEL = Path("/proc/sys/kernel/random/boot_id")


class DecidingLock:
    """The lock of the server that has the store open. `told` is what agents need to find it, None if they cannot."""

    def __init__(self, store: str, longest_s: float) -> None:
        self._path, self._made = os.path.realpath(f"{store}.deciding"), f"{store}.deciding.new"
        self._handle: int | None = None
        self.told: StoreLock | None = None
        # Without it (a full disk, a kernel without a boot id) agents are told of no lock.
        with contextlib.suppress(OSError):
            self.told = self._make(longest_s)

    def _make(self, longest_s: float) -> StoreLock:
        kernel = _KERNEL.read_text().strip()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._made)
        self._handle = os.open(self._made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(self._handle)
        return StoreLock(path=self._path, device=found.st_dev, inode=found.st_ino, kernel=kernel, longest_s=longest_s)

    def begin(self) -> None:
        """Gives the lock its name. Agents of the previous server find another file now, so they see no free lock."""
        if self.told is not None:
            with contextlib.suppress(OSError):
                os.replace(self._made, self._path)
                return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class LockWitness:
    """The agent's look at the lock. It must be able to read the file: as the server's user, or as root."""

    async def free(self, lock: StoreLock) -> bool:
        # In a thread: a file system that hangs must not block the agent.
        return await asyncio.to_thread(_free, lock)


def _free(lock: StoreLock) -> bool:
    try:
        if _KERNEL.read_text().strip() != lock.kernel:
            return False
        # Opened anew each time: the next server has another file.
        handle = os.open(lock.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        found = os.fstat(handle)
        if (found.st_dev, found.st_ino) != (lock.device, lock.inode):
            return False
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
