"""The lock of an embedded store, seen by another process on the same machine."""

import asyncio
import contextlib
import fcntl
import os
from pathlib import Path

from ares.model.link import StoreLock

_KERNEL = Path("/proc/sys/kernel/random/boot_id")


def lock_of(path: str, longest_s: float) -> StoreLock | None:
    """How others find the lock on the database at `path`; None where the kernel has no name."""
    with contextlib.suppress(OSError):
        found, kernel = os.stat(path), _KERNEL.read_text().strip()
        return StoreLock(
            path=os.path.realpath(path), device=found.st_dev, inode=found.st_ino, kernel=kernel, longest_s=longest_s
        )
    return None


class LockWitness:
    """Needs the right to read the database: an agent of the server's user, or of root."""

    async def free(self, lock: StoreLock) -> bool:
        # A file system that hangs must not hold up the agent.
        return await asyncio.to_thread(_free, lock)


def _free(lock: StoreLock) -> bool:
    try:
        if _KERNEL.read_text().strip() != lock.kernel:
            return False
        # Anew each time: a store that was restored is another file.
        handle = os.open(lock.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        found = os.fstat(handle)
        if (found.st_dev, found.st_ino) != (lock.device, lock.inode):
            return False
        # Held for a moment only: a server that starts just then tries again.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
