"""One process owns a database: a lock on a file beside it, which the kernel drops when the owner dies."""

import contextlib
import fcntl
import os

from ares.ports.store import StoreUnavailable


class OwnerLock:
    # Not on the database itself: closing any handle of it would drop SQLite's own locks.
    def __init__(self, path: str) -> None:
        try:
            self._handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(
                f"a store cannot be kept at {path}: {error.strerror}; make its folder, writable for this user"
            ) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._handle)
            raise StoreUnavailable(
                f"{path} is in use by process {owner}: one process owns an embedded store. "
                "Stop that one first, give this one another path, or use etcd for several servers"
            ) from None
        # Only for the message above: on a full disk the lock is held all the same.
        with contextlib.suppress(OSError):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        os.close(self._handle)
