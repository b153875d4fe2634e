"""Checksums of rows, and of all of them together: SQLite itself does not notice a byte that changed on the disk.

A row's seal covers its key, its numbers and its value. The store's digest is the sum of all seals and leases, so
that rows which are gone, or back from an earlier time, are noticed too. It is kept up with every commit.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as NotPacked  # noqa: N812
from typing import Any
from zlib import crc32

from ares.adapters.store.sqlite.sql import Connection
from ares.ports.store import StoreError

_META = Struct("<4qI")
_STORE = Struct("<2q")
_LEASE = Struct("<qd")
_ROWS = "SELECT key, value, create_revision, mod_revision, version, lease, seal FROM kv"
# Exceptions from bytes that are not of the expected type.
_NOT_READ = (TypeError, AttributeError, ValueError, NotPacked)


class Damaged(StoreError):
    """The disk does not hold what was written to it."""


def seal_of(key: str, value: bytes, create: int, mod: int, version: int, lease: int) -> int:
    """The seal of a row. Its high half covers the value, so that the rest can be checked without the value."""
    of_value = crc32(value) >> 1
    return of_value << 32 | crc32(_META.pack(create, mod, version, lease, of_value), crc32(key.encode()))


def share(seal: int) -> int:
    """The part of a row in the store's digest."""
    return seal & 0xFFFFFFFF


def lease_share(lease: int, ttl_s: float) -> int:
    return crc32(_LEASE.pack(lease, ttl_s))


def store_seal(revision: int, digest: int) -> int:
    return crc32(_STORE.pack(revision, digest))


def require_meta(key: str, create: int, mod: int, version: int, lease: int, seal: int) -> None:
    """A row without its value."""
    of_value = seal >> 32
    if share(seal) != crc32(_META.pack(create, mod, version, lease, of_value), crc32(key.encode())):
        raise Damaged(_words(key))


def require_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Key, value, numbers and seal, as read; without the seal."""
    *content, seal = row
    try:
        holds = seal_of(*content) == seal
    except _NOT_READ:
        holds = False
    if not holds:
        raise Damaged(_words(row[0]))
    return tuple(content)


def read_digest(connection: Connection, path: str) -> tuple[int, int]:
    """The store's revision and digest."""
    try:
        ((revision, digest, seal),) = connection.execute("SELECT revision, digest, seal FROM store")
        holds = seal == store_seal(revision, digest)
    except _NOT_READ:
        raise Damaged(f"{path} is damaged: its revision cannot be read") from None
    if not holds:
        raise Damaged(f"{path} is damaged: its revision and digest do not agree")
    return revision, digest


def write_digest(connection: Connection, revision: int, digest: int) -> None:
    connection.execute(
        "UPDATE store SET revision = ?, digest = ?, seal = ?", (revision, digest, store_seal(revision, digest))
    )


def seal_all(connection: Connection) -> None:
    """Seals the rows of a store from a version without seals."""
    connection.create_scalar_function("ares_seal", seal_of, 6)
    connection.execute("UPDATE kv SET seal = ares_seal(key, value, create_revision, mod_revision, version, lease)")
    connection.create_scalar_function("ares_seal", None, 6)
    revision = int(connection.execute("SELECT revision FROM store").get)
    write_digest(connection, revision, sum(share(row[-1]) for row in connection.execute(_ROWS)) + _leases(connection))


def damaged_rows(connection: Connection, path: str) -> Iterator[str]:
    """Reads every row. A text for each one that is not as it was written."""
    _, digest = read_digest(connection, path)
    found = _leases(connection)
    for row in connection.execute(_ROWS):
        try:
            require_row(row)
            found += share(row[-1])
        except Damaged as error:
            yield str(error)
    if found != digest:
        yield "records are missing, or are of an earlier time: the sum of all does not agree with what was recorded"


def _leases(connection: Connection) -> int:
    try:
        return sum(lease_share(*row) for row in connection.execute("SELECT id, ttl_s FROM lease"))
    except _NOT_READ:
        raise Damaged("a lease is damaged: it cannot be read") from None


def _words(key: object) -> str:
    return f"the record {str(key)[:200]!r} is damaged: its checksum does not agree"
