"""The tables, numbered migrations, and how a connection is opened."""

import os
import secrets
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import apsw

from ares.adapters.store import epoch
from ares.adapters.store.sqlite import mark
from ares.adapters.store.sqlite.mark import has_torn_commit
from ares.adapters.store.sqlite.seal import (
    Damaged,
    damaged_rows,
    read_digest,
    require_row,
    seal_all,
    seal_of,
    share,
    write_digest,
)
from ares.adapters.store.sqlite.sql import Connection, connect
from ares.core.keys import EPOCH
from ares.ports.store import StoreError

# "Ares" in the file's header, so that no other program's database is taken for a store.
_APPLICATION_ID = 0x41726573
BUSY_MS = 5_000
_PAGE_BYTES_MIN = 512

# Each entry brings the schema from its index to the next version. Entries never change once released.
MIGRATIONS = (
    """
    CREATE TABLE kv (
        key TEXT PRIMARY KEY,
        value BLOB NOT NULL,
        create_revision INTEGER NOT NULL,
        mod_revision INTEGER NOT NULL,
        version INTEGER NOT NULL,
        lease INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX kv_lease ON kv (lease) WHERE lease <> 0;
    CREATE TABLE lease (id INTEGER PRIMARY KEY AUTOINCREMENT, ttl_s REAL NOT NULL);
    CREATE TABLE store (revision INTEGER NOT NULL);
    INSERT INTO store VALUES (1);
    """,
    # Filled in by `seal_all`, which SQL alone cannot do.
    """
    ALTER TABLE kv ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE store ADD COLUMN digest INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE store ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
    """,
)
_SEALED_SINCE = 2
# A larger store is not read as a whole when it is opened: it would take minutes. `ares verify` does.
_CHECKED_BYTES_MAX = 256 << 20
_DAMAGE_SHOWN = 5


def open_writer(path: str) -> Connection:
    """The one connection that writes; migrates. The caller holds the database, and has looked for its files."""
    check_size(path)
    connection = connect(path, create=False)
    try:
        connection.set_busy_timeout(BUSY_MS)
        migrate(connection, path)
        torn = check_log(connection, path)
        if Path(path).stat().st_size <= _CHECKED_BYTES_MAX:
            check_integrity(connection, path)
        if not torn:
            mark.require_revision(path, mark.read(path), read_revision(connection))
        else:
            # The torn commit may have been acknowledged, perhaps as the first: its fences must not be granted again.
            begin_epoch(connection, path, above=1)
        mode = connection.execute("PRAGMA journal_mode = WAL").get
        if mode != "wal":
            # SQLite does not call this an error: it would go on without.
            raise StoreError(
                f"{path} cannot have a write-ahead log (its mode stays {mode!r}): check the disk, try again"
            )
        # FULL: a commit has reached the disk when it is acknowledged.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -32000")
        # Checkpoints are called by the writer, so that their errors are seen.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        # The log exists from the first read on, so before the mark that demands it.
        mark.write_first(path, mark.StoreMark(True, read_revision(connection)))
        sync_directory(path)
    except BaseException:
        close_untouched(connection)
        raise
    return connection


def check_size(path: str) -> None:
    """SQLite takes a file shorter than a page for a new database, and drops the log beside it."""
    size, log = Path(path).stat().st_size, Path(f"{path}-wal")
    if 0 < size < _PAGE_BYTES_MIN or (size == 0 and log.exists() and log.stat().st_size):
        raise Damaged(
            f"{path} is damaged: {size} bytes are left of it. Restore the last backup by `ares store restore FILE`"
        )


def close_untouched(connection: Connection) -> None:
    """Closes without a checkpoint: a write that the disk refused is not repeated, and the log stays as evidence."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close(force=True)


def open_reader(path: str) -> Connection:
    connection = connect(path, create=False)
    connection.set_busy_timeout(BUSY_MS)
    connection.execute("PRAGMA query_only = 1")
    # Readers come and go on the event loop: emptying the log is the writer's work.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.execute("PRAGMA cache_size = -8000")
    return connection


def migrate(connection: Connection, path: str) -> None:
    version = check_schema(connection, path)
    if version == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    for step in MIGRATIONS[version:]:
        connection.execute(step)
    if version < _SEALED_SINCE:
        seal_all(connection)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute("COMMIT")


def check_schema(connection: Connection, path: str) -> int:
    """The schema's version; refuses what this program cannot read."""
    version = int(connection.execute("PRAGMA user_version").get)
    application = int(connection.execute("PRAGMA application_id").get)
    tables = int(connection.execute("SELECT count(*) FROM sqlite_schema").get)
    if application != _APPLICATION_ID and (version or tables):
        raise StoreError(f"{path} is a database of another program, not an Ares store: choose another path")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} has schema version {version}, this Ares knows up to {len(MIGRATIONS)}: install a newer Ares"
        )
    return version


def read_revision(connection: Connection) -> int:
    return int(connection.execute("SELECT revision FROM store").get)


def check_integrity(connection: Connection, path: str) -> None:
    """Reads the whole store and raises Damaged for an error in it."""
    found = list(islice(damage_of(connection, path), _DAMAGE_SHOWN))
    if found:
        raise Damaged(f"{path} is damaged: {'; '.join(found)}. Restore the last backup by `ares store restore FILE`")


def damage_of(connection: Connection, path: str) -> Iterator[str]:
    """Errors in the file's structure, its tables and its records, one text for each."""
    try:
        version = check_schema(connection, path)
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
        if found != ["ok"]:
            yield from found
        elif _tables(connection) != _own_tables(version):
            yield "its tables are not those of an Ares store"
        elif version >= _SEALED_SINCE:
            yield from damaged_rows(connection, path)
    except (apsw.Error, UnicodeError) as error:
        yield f"it cannot be read on ({error})"
    except Damaged as error:
        yield str(error)


def _tables(connection: Connection) -> list[tuple[object, ...]]:
    return list(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"))


def _own_tables(version: int) -> list[tuple[object, ...]]:
    own = connect(":memory:", create=True)
    try:
        for step in MIGRATIONS[:version]:
            own.execute(step)
        return _tables(own)
    finally:
        own.close()


def check_log(connection: Connection, path: str) -> bool:
    """Whether the last commit in the log is not whole; Damaged when others are not. A server may be writing."""
    while True:
        taken = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        try:
            return has_torn_commit(path, max(0, taken[0]))
        except Damaged:
            if connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP) == taken:
                raise


def begin_epoch(connection: Connection, path: str, above: int = 0, revision: int = 0) -> None:
    """Moves to an epoch above the present one and `above`, at a revision beyond the present one and `revision`."""
    before, digest = read_digest(connection, path)
    row = connection.execute(
        "SELECT key, value, create_revision, mod_revision, version, lease, seal FROM kv WHERE key = ?", (EPOCH,)
    ).fetchone()
    fresh = max(before, revision) + 1
    _, value, created, _, version, _ = require_row(row) if row else (EPOCH, b"", fresh, 0, 0, 0)
    number = max(epoch.decode(value).epoch if row else 0, above) + 1
    content = (EPOCH, epoch.encode(number, secrets.token_bytes(16)), created, fresh, version + 1, 0)
    seal = seal_of(*content)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT OR REPLACE INTO kv VALUES (?, ?, ?, ?, ?, ?, ?)", (*content, seal))
    write_digest(connection, fresh, digest + share(seal) - (share(row[-1]) if row else 0))
    connection.execute("COMMIT")


def sync_directory(path: str) -> None:
    """Makes the file's name itself durable."""
    handle = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
