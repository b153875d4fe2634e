"""The embedded store: one SQLite file, one writer thread, one fsync for many transactions."""

from ares.adapters.store.sqlite.backup import Copy, backup, restore
from ares.adapters.store.sqlite.store import SqliteStore

__all__ = ["Copy", "SqliteStore", "backup", "restore"]
