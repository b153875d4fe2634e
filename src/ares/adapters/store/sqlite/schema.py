"""The tables, numbered migrations, and how a connection is opened."""

import os
from pathlib import Path

import apsw

from ares.adapters.store.sqlite.sql import Connection, connect
from ares.ports.store import StoreError

# "Ares" in the file's header, so that no other program's database is taken for a store.
_APPLICATION_ID = 0x41726573
_BUSY_MS = 5_000

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
)


def open_writer(path: str) -> Connection:
    """The one connection that writes; creates and migrates. The caller holds the lock file."""
    # For this user only: it holds everyone's jobs. SQLite gives its other files the same mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = connect(path, create=False)
    try:
        connection.set_busy_timeout(_BUSY_MS)
        migrate(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        # FULL: a commit has reached the disk when it is acknowledged.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -32000")
        # Checkpoints are called by the writer, so that their errors are seen.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except apsw.Error:
        connection.close()
        raise
    sync_directory(path)
    return connection


def open_reader(path: str) -> Connection:
    connection = connect(path, create=False)
    connection.set_busy_timeout(_BUSY_MS)
    connection.execute("PRAGMA query_only = 1")
    connection.execute("PRAGMA cache_size = -8000")
    return connection


def migrate(connection: Connection, path: str) -> None:
    version = check_schema(connection, path)
    if version == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    for step in MIGRATIONS[version:]:
        connection.execute(step)
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
    found = connection.execute("PRAGMA integrity_check").get
    if found != "ok":
        raise StoreError(f"{path} is damaged: {found}")


def sync_directory(path: str) -> None:
    """Makes the file's name itself durable."""
    handle = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
