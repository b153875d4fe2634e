"""Many transactions evaluated in memory on top of the database, then written by few statements.

apsw lets go of the interpreter's lock around every row it steps over. While the event loop is busy
each of those costs up to a switch interval (5 ms), so the number of statements per batch is constant:
what the transactions touch is read as one JSON row and written from one JSON array and one blob.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ares.adapters.store.evaluate import Txn
from ares.adapters.store.limits import prefix_end
from ares.adapters.store.sqlite.seal import require_meta, require_row, seal_of, share
from ares.adapters.store.sqlite.sql import Connection
from ares.ports.store import KV, Get, StoreChange

# Stands for a value that was not read, by identity.
_NOT_READ = bytes(bytearray(b"not read"))
# In SQLite's order every blob comes after every text.
AFTER_ALL = b""

_LOAD = """
SELECT json_group_array(json_array(kv.key, create_revision, mod_revision, version, lease, seal))
FROM json_each(?1) AS wanted CROSS JOIN kv ON kv.key = wanted.value
"""
_WRITE = """
INSERT OR REPLACE INTO kv
SELECT value->>0, substr(?2, value->>1, value->>2), value->>3, value->>4, value->>5, value->>6,
    value->>7 FROM json_each(?1)
"""
_DELETE = "DELETE FROM kv WHERE key IN (SELECT value FROM json_each(?1))"
_UNDER = "SELECT json_group_array(key) FROM kv WHERE key >= ?1 AND key < ?2"
_OF_LEASE = "SELECT json_group_array(key) FROM kv WHERE lease = ?1 AND lease <> 0"

_decode_rows = msgspec.json.Decoder(list[tuple[str, int, int, int, int, int]]).decode
_decode_keys = msgspec.json.Decoder(list[str]).decode
_encode = msgspec.json.encode


class Batch:
    """The `State` of one group commit. Nothing is written before `flush`."""

    def __init__(self, connection: Connection, has_lease: Callable[[int], bool]) -> None:
        self._connection = connection
        self._rows: dict[str, KV | None] = {}
        self._dirty: dict[str, None] = {}
        # Seals of the rows as they are in the database.
        self._seals: dict[str, int] = {}
        self._has_lease = has_lease

    def load(self, txns: Iterable[Txn]) -> None:
        """Reads what the transactions touch, all at once."""
        rows = self._rows
        for txn in txns:
            for compare in txn.compares:
                rows[compare.key] = None
            for op in txn.then:
                rows[op.key] = None
            for op in txn.otherwise:
                # Gets of the `otherwise` branch are read when they are reached.
                if not isinstance(op, Get):
                    rows[op.key] = None
        if rows:
            self._load(list(rows))

    def meta(self, key: str) -> KV | None:
        if key not in self._rows:
            self._rows[key] = None
            self._load([key])
        return self._rows[key]

    def full(self, key: str) -> KV | None:
        kv = self.meta(key)
        if kv is not None and kv.value is _NOT_READ:
            value = self._connection.execute("SELECT value FROM kv WHERE key = ?", (key,)).get
            row = (key, value, kv.create_revision, kv.mod_revision, kv.version, kv.lease, self._seals[key])
            kv = self._rows[key] = KV(*require_row(row))
        return kv

    def under(self, prefix: str) -> Sequence[str]:
        end = prefix_end(prefix)
        stored = self._connection.execute(_UNDER, (prefix, AFTER_ALL if end is None else end)).get
        return self._present(stored, lambda kv: kv.key.startswith(prefix))

    def of_lease(self, lease: int) -> Sequence[str]:
        stored = self._connection.execute(_OF_LEASE, (lease,)).get
        return self._present(stored, lambda kv: kv.lease == lease)

    def put(self, kv: KV) -> None:
        self._rows[kv.key] = kv
        self._dirty[kv.key] = None

    def remove(self, key: str) -> None:
        # Its seal leaves the store's digest with it.
        self.meta(key)
        self._rows[key] = None
        self._dirty[key] = None

    def has_lease(self, lease: int) -> bool:
        return self._has_lease(lease)

    def flush(self) -> int:
        """Writes the last state of every changed key. Returns the change of the store's digest."""
        rows: list[tuple[str, int, int, int, int, int, int, int]] = []
        # The first byte keeps the blob from being empty, which SQLite's substr answers with NULL.
        values: list[bytes] = [b"\0"]
        removed: list[str] = []
        offset, change = 2, 0
        for key in self._dirty:
            kv = self._rows[key]
            change -= share(self._seals.get(key, 0))
            if kv is None:
                removed.append(key)
                continue
            size = len(kv.value)
            seal = seal_of(key, kv.value, kv.create_revision, kv.mod_revision, kv.version, kv.lease)
            change += share(seal)
            rows.append((key, offset, size, kv.create_revision, kv.mod_revision, kv.version, kv.lease, seal))
            values.append(kv.value)
            offset += size
        if rows:
            self._connection.execute(_WRITE, (_encode(rows).decode(), b"".join(values)))
        if removed:
            self._connection.execute(_DELETE, (_encode(removed).decode(),))
        return change

    def _load(self, keys: list[str]) -> None:
        found = self._connection.execute(_LOAD, (_encode(keys).decode(),)).get
        for key, created, modified, version, lease, seal in _decode_rows(found):
            require_meta(key, created, modified, version, lease, seal)
            self._seals[key] = seal
            self._rows[key] = KV(key, _NOT_READ, created, modified, version, lease)

    def _present(self, stored: str, belongs: Callable[[KV], bool]) -> Sequence[str]:
        """Keys of the database that this batch did not touch, and keys that it touched and that still belong."""
        untouched = [key for key in _decode_keys(stored) if key not in self._dirty]
        touched = [kv.key for key in self._dirty if (kv := self._rows[key]) is not None and belongs(kv)]
        return sorted(untouched + touched)


Recorded = tuple[int, list[StoreChange]]
