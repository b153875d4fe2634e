"""The embedded store: writes through the writer thread, reads on the event loop's own connections."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any, cast

import apsw

from ares.adapters.store.evaluate import Txn
from ares.adapters.store.history import History
from ares.adapters.store.leases import Leases
from ares.adapters.store.limits import check_key, check_txn, prefix_end
from ares.adapters.store.sqlite import mark
from ares.adapters.store.sqlite.batch import AFTER_ALL
from ares.adapters.store.sqlite.lock import OwnerLock
from ares.adapters.store.sqlite.schema import open_reader, open_writer, read_revision
from ares.adapters.store.sqlite.seal import Damaged, read_digest, require_row
from ares.adapters.store.sqlite.sql import Connection
from ares.adapters.store.sqlite.writer import CommitDelivery, Grant, Revoke, SqliteWriter, WriteRequest
from ares.ports.clock import Clock
from ares.ports.store import (
    KV,
    Changes,
    Committed,
    Compacted,
    Compare,
    Op,
    Page,
    StoreBroken,
    StoreError,
    StoreUnavailable,
    Unknown,
)

# A commit that takes longer means a disk that hangs.
_DEADLINE_S = 10.0
_EXPIRE_AGAIN_S = 1.0
# Long listings let the loop run in between.
_ROWS_PER_STEP = 500

_GET = "SELECT key, value, create_revision, mod_revision, version, lease, seal FROM kv WHERE key = ?"
_RANGE = """
SELECT key, value, create_revision, mod_revision, version, lease, seal FROM kv
WHERE key >= ? AND key < ? AND mod_revision >= ? ORDER BY key LIMIT ?
"""


class SqliteStore:
    """Made by `open`. A failed disk breaks it for good: every call is refused until the process restarts."""

    def __init__(self, path: str, clock: Clock, lock: OwnerLock, writer: Connection) -> None:
        self.path = path
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._broken: StoreBroken | None = None
        self._closed = False
        self._readers: list[Connection] = []
        self._revision, digest = read_digest(writer, path)
        self._history = History(self._revision)
        self._leases = Leases(clock, self._expire)
        # Each lease gets its full time again: its owner may have renewed just before the last process ended.
        for lease, ttl_s in writer.execute("SELECT id, ttl_s FROM lease"):
            self._leases.add(lease, ttl_s)
        self._writer = SqliteWriter(
            writer, self._revision, digest, self._leases.__contains__, self._loop, self._deliver, self._folded
        )
        self._writer.start()
        self._watchdog = self._loop.call_later(_DEADLINE_S / 4, self._look_after_writer)

    @classmethod
    async def open(cls, path: str, clock: Clock) -> "SqliteStore":
        """Creates the file when there is none; StoreError when it is in use, foreign, newer or damaged."""
        lock = OwnerLock(path)
        try:
            mark.require_files(path, mark.read(path))
            lock.hold_database()
            return cls(path, clock, lock, open_writer(path))
        except (apsw.Error, OSError) as error:
            lock.release()
            raise StoreError(f"{path} cannot be opened as a store: {error}") from error
        except BaseException:
            lock.release()
            raise

    async def get(self, key: str) -> KV | None:
        check_key(key)
        reader = self._borrow()
        try:
            row = reader.execute(_GET, (key,)).fetchone()
            found = None if row is None else _kv(row)
        except (apsw.Error, Damaged) as error:
            raise self._read_failed(reader, error) from error
        self._give_back(reader)
        return found

    async def range(self, prefix: str, *, after: str = "", limit: int = 0, min_mod_revision: int = 0) -> Page:
        end = prefix_end(prefix)
        # No key holds a NUL, so this is the first place after `after`.
        first = f"{after}\0" if after and after >= prefix else prefix
        bounds = (first, AFTER_ALL if end is None else end, min_mod_revision, limit + 1 if limit else -1)
        reader = self._borrow()
        found: list[KV] = []
        try:
            # One read transaction: the rows and the revision are of one moment.
            reader.execute("BEGIN")
            revision = read_revision(reader)
            rows = iter(reader.execute(_RANGE, bounds))
            while step := list(islice(rows, _ROWS_PER_STEP)):
                found.extend(map(_kv, step))
                await asyncio.sleep(0)
            reader.execute("COMMIT")
        except (apsw.Error, Damaged) as error:
            raise self._read_failed(reader, error) from error
        except BaseException:
            # Reused half way through, it would show a later reader the state of this moment.
            reader.close(force=True)
            raise
        self._give_back(reader)
        more = 0 < limit < len(found)
        return Page(tuple(found[:limit] if more else found), revision, more)

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> Committed | Unknown:
        size = check_txn(compares, then, otherwise)
        return cast("Committed | Unknown", await self._write(Txn(compares, then, otherwise), size))

    async def revision(self) -> int:
        self._enter()
        return self._revision

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes | Compacted]:
        return self._history.watch(prefix, from_revision)

    async def grant_lease(self, ttl_s: float) -> int:
        lease = await self._write(Grant(ttl_s))
        if not isinstance(lease, int):
            raise StoreUnavailable(f"whether the lease was granted is not known: {lease}")
        self._leases.add(lease, ttl_s)
        return lease

    async def keep_alive(self, lease: int) -> float:
        self._enter()
        return self._leases.renew(lease)

    async def revoke_lease(self, lease: int) -> None:
        self._leases.remove(lease)
        outcome = await self._write(Revoke(lease))
        if isinstance(outcome, Unknown):
            raise StoreUnavailable(f"whether lease {lease} was revoked is not known: {outcome.why}")

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._watchdog.cancel()
        self._leases.close()
        self._history.fail(StoreUnavailable("the store was closed"))
        self._writer.stop()
        for reader in self._readers:
            reader.close()
        # A writer that hangs may still write later, so the lock is kept until the process ends.
        if await asyncio.to_thread(self._writer.join, _DEADLINE_S):
            self._lock.release()

    def _enter(self) -> None:
        if self._broken is not None:
            raise StoreBroken(str(self._broken))
        if self._closed:
            raise StoreUnavailable("the store was closed")

    def _write(self, work: Txn | Grant | Revoke, size: int = 0) -> "asyncio.Future[Committed | Unknown | int]":
        self._enter()
        future: asyncio.Future[Committed | Unknown | int] = self._loop.create_future()
        self._writer.put(WriteRequest(work, future, size))
        return future

    def _deliver(self, delivery: CommitDelivery) -> None:
        """Answers the callers and the watches of one group commit in one step of the event loop."""
        if delivery.recorded:
            self._revision = delivery.revision
            for revision, changes in delivery.recorded:
                self._history.append(revision, changes)
            self._history.wake()
        for request, answer in zip(delivery.requests, delivery.answers, strict=True):
            future = request.future
            if future.done():
                continue
            if isinstance(answer, StoreError):
                # An exception of its own: raised in many callers, one object would gather all tracebacks.
                future.set_exception(type(answer)(*answer.args))
            else:
                future.set_result(answer)
        if delivery.broken:
            self._break(delivery.broken)

    def _break(self, why: str) -> None:
        if self._broken is None:
            self._broken = StoreBroken(why)
            self._history.fail(self._broken)

    def _look_after_writer(self) -> None:
        since = self._writer.busy_since
        if since is not None and monotonic() - since > _DEADLINE_S:
            why = f"the store's disk has not finished a commit for {_DEADLINE_S:g} s; restart this process"
            under_way, waiting = self._writer.current, self._writer.drain()
            unclear: list[Unknown | StoreError] = [Unknown(why)] * len(under_way)
            refused: list[Unknown | StoreError] = [StoreUnavailable(why)] * len(waiting)
            self._deliver(CommitDelivery([*under_way, *waiting], [*unclear, *refused], broken=why))
            return
        if lost := self._lock.lost():
            self._break(f"{lost} was removed or replaced while this server used it; look for who did it, then restart")
            # The log has lost its name: its content is written to the file before it is lost for good.
            self._writer.stop()
            return
        mark.write(self.path, mark.StoreMark(True, self._revision), durable=False)
        self._watchdog = self._loop.call_later(_DEADLINE_S / 4, self._look_after_writer)

    def _folded(self, revision: int) -> bool:
        """Marks that every commit is in the file, so that its log may be removed. False when that fails."""
        return mark.write(self.path, mark.StoreMark(False, revision), durable=True)

    def _expire(self, leases: Sequence[int]) -> None:
        if self._broken is None and not self._closed:
            for lease in leases:
                self._write(Revoke(lease)).add_done_callback(partial(self._expired, lease))

    def _expired(self, lease: int, outcome: "asyncio.Future[Committed | Unknown | int]") -> None:
        if not outcome.cancelled() and outcome.exception() is not None:
            # The disk is full: the keys of the lease stay until there is room to record their deletion.
            self._loop.call_later(_EXPIRE_AGAIN_S, self._expire, [lease])

    def _borrow(self) -> Connection:
        self._enter()
        if self._readers:
            return self._readers.pop()
        try:
            return open_reader(self.path)
        except apsw.Error as error:
            # Too many open files, most likely: that passes, so the store is not given up.
            raise StoreUnavailable(f"{self.path} cannot be opened for reading ({error}); try again") from error

    def _give_back(self, reader: Connection) -> None:
        if self._closed:
            reader.close()
        else:
            self._readers.append(reader)

    def _read_failed(self, reader: Connection, error: Exception) -> StoreBroken:
        reader.close(force=True)
        self._break(f"the store's disk failed while reading ({error}); check the disk and restart this process")
        return StoreBroken(str(self._broken))


def _kv(row: tuple[Any, ...]) -> KV:
    return KV(*require_row(row))
