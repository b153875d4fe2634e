"""One process owns a database: a lock on it and one on a file beside it, which the kernel drops when the owner dies.

The file beside it is locked before there is a database, and holds the pid of the owner. It can be removed and made
anew by another process, so the lock on the database itself decides.
"""

import contextlib
import fcntl
import os

from ares.ports.store import StoreUnavailable


class OwnerLock:
    def __init__(self, path: str) -> None:
        self._path = path
        self._database = -1
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
            raise StoreUnavailable(_in_use(path, f"process {owner}")) from None
        # Only for the message above: on a full disk the lock is held all the same.
        with contextlib.suppress(OSError):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode("ascii"), 0)

    def hold_database(self) -> None:
        """Locks the database, and makes it if there is none. It is not a POSIX lock: SQLite has those on the same file,
        and closing any handle would drop them. So this handle stays open until SQLite has closed the file."""
        # Readable by this user only: it holds the jobs of all tenants. SQLite gives its other files the same mode.
        self._database = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._database, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreUnavailable(_in_use(self._path, "another process")) from None

    def lost(self) -> str:
        """Which of its files was removed or replaced under a running server; empty when they are there."""
        try:
            there, held = os.stat(self._path), os.fstat(self._database)
        except FileNotFoundError:
            return self._path
        if (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino):
            return self._path
        return "" if os.path.exists(f"{self._path}-wal") else f"{self._path}-wal"

    def release(self) -> None:
        if self._database >= 0:
            os.close(self._database)
        os.close(self._handle)


def _in_use(path: str, by: str) -> str:
    return (
        f"{path} is in use by {by}: one process owns an embedded store. "
        "Stop that one first, give this one another path, or use etcd for several servers"
    )
