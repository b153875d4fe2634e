"""A snapshot of an embedded store, whether a server runs on it or not.

A long read would keep a running server from emptying its write-ahead log. So a copy in a temporary directory is read,
and the server's files are open only while it is made. It needs no lock of the owner.
"""

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import apsw

from ares.adapters.store.limits import prefix_end
from ares.adapters.store.sqlite.batch import AFTER_ALL
from ares.adapters.store.sqlite.schema import check_schema, damage_of, read_revision
from ares.adapters.store.sqlite.sql import Connection, connect
from ares.ports.store import KV, Progress, StoreError

_BUSY_MS = 5_000
_PAGES_PER_STEP = 8_192
_DAMAGE_SHOWN = 20
_TRIES = 3

_COLUMNS = "key, value, create_revision, mod_revision, version, lease"
_RANGE = f"SELECT {_COLUMNS} FROM kv WHERE key >= ? AND key < ? ORDER BY key"
_GET = f"SELECT {_COLUMNS} FROM kv WHERE key = ?"
_COUNT = "SELECT count(*) FROM kv WHERE key >= ? AND key < ?"


class SqliteSnapshot:
    """Made by `take`. The copy is gone when the block is left."""

    def __init__(self, directory: tempfile.TemporaryDirectory[str], connection: Connection, path: str) -> None:
        self._directory = directory
        self._connection = connection
        self._path = path
        self._revision = read_revision(connection)

    @classmethod
    def take(cls, path: str, progress: Progress) -> Self:
        """Raises StoreError when there is no store that can be read, or no room for the copy."""
        if not Path(path).is_file():
            raise StoreError(f"{path} does not exist: there is no store to look at")
        directory = tempfile.TemporaryDirectory(prefix="ares-verify-")
        try:
            copy = str(Path(directory.name) / "store.db")
            _copy_unchanged(path, copy, progress)
            connection = _open(copy, immutable=True)
            if not check_schema(connection, path):
                raise StoreError(f"{path} is empty: it is not a store")
            return cls(directory, connection, path)
        except (apsw.Error, OSError) as error:
            directory.cleanup()
            raise StoreError(f"{path} cannot be read: {error}") from error
        except BaseException:
            directory.cleanup()
            raise

    @property
    def revision(self) -> int:
        return self._revision

    def rows(self, prefix: str) -> Iterator[KV]:
        with _reading(prefix):
            for row in self._connection.execute(_RANGE, _bounds(prefix)):
                yield _kv(row)

    def get(self, key: str) -> KV | None:
        with _reading(key):
            row = self._connection.execute(_GET, (key,)).fetchone()
            return None if row is None else _kv(row)

    def count(self, prefix: str) -> int:
        with _reading(prefix):
            return int(self._connection.execute(_COUNT, _bounds(prefix)).get)

    def damage(self) -> tuple[str, ...]:
        return tuple(islice(damage_of(self._connection, self._path), _DAMAGE_SHOWN))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close(force=True)
        self._directory.cleanup()


def _copy_unchanged(path: str, copy: str, progress: Progress) -> None:
    for _ in range(_TRIES):
        # A store that was closed has no log. Opening one in the usual way would leave files beside the store.
        closed = not Path(f"{path}-wal").exists()
        before = _looks(path)
        _require_room(path, copy)
        _copy(path, copy, progress, immutable=closed)
        if not closed or (not Path(f"{path}-wal").exists() and _looks(path) == before):
            return
        # A server was started during the copy, which assumed that no process writes to the file.
        Path(copy).unlink()
    raise StoreError(f"{path} was started and stopped {_TRIES} times while it was read; try again")


def _copy(path: str, copy: str, progress: Progress, *, immutable: bool) -> None:
    source = _open(path, immutable=immutable)
    try:
        # One transaction from the first step to the last: the copy is of this moment.
        source.execute("BEGIN")
        read_revision(source)
        target = connect(copy, create=True)
        try:
            with target.backup("main", source, "main") as running:
                while not running.step(_PAGES_PER_STEP):
                    progress(running.page_count - running.remaining, running.page_count)
            # One file without a log beside it.
            target.execute("PRAGMA journal_mode = DELETE")
        finally:
            target.close()
    finally:
        source.close(force=True)


def _open(path: str, *, immutable: bool) -> Connection:
    """`mode=ro` reads the log of a living writer too; `immutable` would not."""
    name = f"{Path(path).absolute().as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"
    connection = cast("Connection", apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI))
    connection.set_busy_timeout(_BUSY_MS)
    return connection


def _looks(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def _require_room(path: str, copy: str) -> None:
    needed = sum(os.stat(name).st_size for name in (path, f"{path}-wal") if Path(name).exists())
    free = shutil.disk_usage(Path(copy).parent).free
    if needed > free:
        raise StoreError(
            f"a copy of {path} needs {needed / 1e6:,.0f} MB in {tempfile.gettempdir()}, "
            f"where {free / 1e6:,.0f} MB are left: set TMPDIR to a directory with more room"
        )


@contextmanager
def _reading(what: str) -> Generator[None]:
    try:
        yield
    except apsw.Error as error:
        raise StoreError(f"what is under {what} cannot be read: {error}") from error


def _bounds(prefix: str) -> tuple[str, str | bytes]:
    end = prefix_end(prefix)
    return prefix, AFTER_ALL if end is None else end


def _kv(row: tuple[object, ...]) -> KV:
    return KV(*row)  # pyright: ignore[reportArgumentType]
