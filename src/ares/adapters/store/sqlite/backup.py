"""Copies of an embedded store: one while it runs, and back again under a new epoch."""

import os
from dataclasses import dataclass
from pathlib import Path

import apsw

from ares.adapters.store import epoch
from ares.adapters.store.sqlite import mark
from ares.adapters.store.sqlite.lock import OwnerLock
from ares.adapters.store.sqlite.schema import (
    begin_epoch,
    check_integrity,
    check_log,
    check_schema,
    check_size,
    migrate,
    open_reader,
    read_revision,
    sync_directory,
)
from ares.adapters.store.sqlite.sql import Connection, connect
from ares.core.keys import EPOCH
from ares.ports.store import StoreError

# More epochs than a store that cannot be read any more can have begun after power failures.
_EPOCHS_UNKNOWN = 1_000


@dataclass(frozen=True, slots=True)
class Copy:
    """What was copied; `kept` names where the replaced store is, when there was one."""

    path: str
    revision: int
    keys: int
    epoch: int
    kept: str = ""


def backup(path: str, dest: str) -> Copy:
    """A consistent copy of the store at `path`, also while a server writes to it."""
    if not Path(path).exists():
        raise StoreError(f"{path} does not exist: there is nothing to back up")
    if Path(dest).exists() and Path(dest).samefile(path):
        raise StoreError(f"{dest} is the store itself: choose another place for the backup")
    temporary = f"{dest}.part"
    try:
        _copy(path, temporary)
        copy = _describe(temporary, dest)
        os.replace(temporary, dest)
        sync_directory(dest)
    except (apsw.Error, OSError) as error:
        raise StoreError(f"backup of {path} to {dest} failed: {error}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    return copy


def restore(src: str, path: str) -> Copy:
    """Puts the backup `src` in the place of `path`, which no process may use, with a higher epoch."""
    if not Path(src).exists():
        raise StoreError(f"{src} does not exist: there is nothing to restore")
    temporary = f"{path}.restore"
    lock = OwnerLock(path)
    try:
        if Path(path).exists():
            lock.hold_database()
        _copy(src, temporary)
        _describe(temporary, src)
        restores = _restores(path)
        _begin_epoch(temporary, path, _fold(path), restores)
        copy = _describe(temporary, path, _keep(path, f"{path}.before-restore-{restores + 1}"))
        os.replace(temporary, path)
        mark.write(path, mark.StoreMark(False, copy.revision), durable=True)
        sync_directory(path)
    except (apsw.Error, OSError) as error:
        raise StoreError(f"restore of {src} to {path} failed: {error}; {path} is as it was") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
        lock.release()
    return copy


def _copy(source: str, dest: str) -> None:
    Path(dest).unlink(missing_ok=True)
    check_size(source)
    reader = open_reader(source)
    try:
        check_schema(reader, source)
        check_log(reader, source)
        writer = connect(dest, create=True)
        try:
            with writer.backup("main", reader, "main") as running:
                running.step(-1)
            # One file without a write-ahead log beside it.
            writer.execute("PRAGMA journal_mode = DELETE")
        finally:
            writer.close()
    finally:
        reader.close()
    Path(dest).chmod(0o600)
    _sync(dest)


def _describe(path: str, name: str, kept: str = "") -> Copy:
    connection = open_reader(path)
    try:
        if not check_schema(connection, name):
            raise StoreError(f"{name} is empty: it is not a store")
        check_integrity(connection, name)
        return _read(connection, name, kept)
    finally:
        connection.close()


def _read(connection: Connection, name: str, kept: str) -> Copy:
    keys = int(connection.execute("SELECT count(*) FROM kv").get)
    found = connection.execute("SELECT value FROM kv WHERE key = ?", (EPOCH,)).get
    number = 0 if found is None else epoch.decode(found).epoch
    return Copy(name, read_revision(connection), keys, number, kept)


def _read_replaced(connection: Connection, path: str) -> Copy:
    """Only what is certain: a wrong epoch would let fences be granted twice."""
    check_integrity(connection, path)
    return _read(connection, path, "")


def _fold(path: str) -> Copy | None:
    """Brings the replaced store's log into its file and tells what it was, if it can still be read."""
    if not Path(path).exists():
        return None
    try:
        connection = connect(path, create=False)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            return _read_replaced(connection, path)
        finally:
            connection.close()
    except (apsw.Error, StoreError, ValueError):
        # A damaged store is what restores are for; it is kept as it is.
        return None


def _begin_epoch(path: str, replaces: str, replaced: Copy | None, restores: int) -> None:
    """Fences of the time before are lower than every fence from now on; revisions go on growing.

    Each earlier restore left a file behind: counted, they keep epochs apart also when the store that
    is replaced cannot be read any more.
    """
    connection = connect(path, create=False)
    try:
        migrate(connection, path)
        copy = _read(connection, path, "")
        unknown = 0 if replaced or not Path(replaces).exists() else _EPOCHS_UNKNOWN
        above = max(copy.epoch + restores + unknown, replaced.epoch if replaced else 0)
        begin_epoch(connection, path, above, replaced.revision if replaced else 0)
    finally:
        connection.close()
    _sync(path)


def _restores(path: str) -> int:
    number = 0
    while Path(f"{path}.before-restore-{number + 1}").exists():
        number += 1
    return number


def _keep(path: str, kept: str) -> str:
    """Gives the present file a second name, so that `path` is never missing, not even for a moment."""
    if not Path(path).exists():
        return ""
    os.link(path, kept)
    # A log left beside the file would be applied to the restored one.
    for suffix in ("-wal", "-shm"):
        if Path(path + suffix).exists():
            os.replace(path + suffix, kept + suffix)
    return kept


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
