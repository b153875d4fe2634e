"""The writer thread: takes everything queued, commits it with one fsync, answers all of it at once."""

import threading
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic

import apsw
from msgspec import Struct, field

from ares.adapters.store.evaluate import Txn, evaluate, remove_keys
from ares.adapters.store.sqlite.batch import Batch, Recorded
from ares.adapters.store.sqlite.schema import BUSY_MS, close_untouched
from ares.adapters.store.sqlite.seal import Damaged, lease_share, write_digest
from ares.adapters.store.sqlite.sql import Connection
from ares.ports.store import Committed, StoreChange, StoreError, StoreFull, StoreUnavailable, Unknown

# A larger commit would only make the first caller wait longer.
_TXNS_PER_COMMIT = 2_000
_BYTES_PER_COMMIT = 16_000_000
_CHECKPOINT_PAGES = 4_000
_CHECKPOINT_PAGES_MUST = 8 * _CHECKPOINT_PAGES
# How long a reader in the way of a checkpoint may hold up commits: a backup may read for minutes.
_READERS_MS = 100


class Grant(Struct, frozen=True):
    ttl_s: float


class Revoke(Struct, frozen=True):
    lease: int


Answer = Committed | Unknown | int | StoreError


class WriteRequest(Struct, eq=False):
    work: Txn | Grant | Revoke
    future: "Future[Committed | Unknown | int]"
    size: int = 0


class CommitDelivery(Struct, eq=False):
    """The answers and changes of one group commit, for the event loop."""

    requests: Sequence[WriteRequest]
    answers: list[Answer]
    recorded: list[Recorded] = field(default_factory=list[Recorded])
    revision: int = 0
    digest: int = 0
    # Set when the store must not be used any more.
    broken: str = ""


class SqliteWriter:
    def __init__(
        self,
        connection: Connection,
        revision: int,
        digest: int,
        has_lease: Callable[[int], bool],
        loop: AbstractEventLoop,
        deliver: Callable[[CommitDelivery], None],
        folded: Callable[[int], bool],
    ) -> None:
        self._folded = folded
        self._connection = connection
        self._revision = revision
        self._digest = digest
        self._has_lease = has_lease
        self._loop = loop
        self._deliver = deliver
        self._queue: SimpleQueue[WriteRequest | None] = SimpleQueue()
        self._wal_pages = 0
        self._checkpoint_at = _CHECKPOINT_PAGES
        self._broken = ""
        # The batch under way and when it began, for the store's watchdog.
        self.current: Sequence[WriteRequest] = ()
        self.busy_since: float | None = None
        connection.set_wal_hook(self._saw_wal)
        self._thread = threading.Thread(target=self._run, name="ares-store-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, request: WriteRequest) -> None:
        self._queue.put(request)

    def drain(self) -> list[WriteRequest]:
        """Takes back the requests that have not been begun."""
        taken: list[WriteRequest] = []
        with suppress(Empty):
            while True:
                request = self._queue.get_nowait()
                if request is not None:
                    taken.append(request)
        return taken

    def stop(self) -> None:
        """Ends the thread after the queued requests. `join` waits for it."""
        self._queue.put(None)

    def join(self, timeout_s: float) -> bool:
        """Whether the thread has ended within that time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        going_on = True
        # RuntimeError: the event loop is closed, so no caller waits for an answer any more.
        with suppress(RuntimeError):
            while going_on:
                requests, going_on = self._take()
                if requests:
                    self.current, self.busy_since = requests, monotonic()
                    delivery = self._commit(requests)
                    self.current, self.busy_since = (), None
                    self._loop.call_soon_threadsafe(self._deliver, delivery)
                if not self._broken:
                    self._checkpoint()
        if self._broken or not self._fold():
            close_untouched(self._connection)
        else:
            self._connection.close()

    def _fold(self) -> bool:
        """Whether the whole log is in the file and the mark says so: only then may the last connection remove it."""
        try:
            log, done = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:
            return False
        return log == done and self._folded(self._revision)

    def _take(self) -> tuple[list[WriteRequest], bool]:
        """Waits for a request, then takes all that are queued. False with the last ones."""
        taken: list[WriteRequest] = []
        size = 0
        request = self._queue.get()
        with suppress(Empty):
            while request is not None:
                taken.append(request)
                size += request.size
                if len(taken) == _TXNS_PER_COMMIT or size > _BYTES_PER_COMMIT:
                    break
                request = self._queue.get_nowait()
        return taken, request is not None

    def _commit(self, requests: list[WriteRequest]) -> CommitDelivery:
        """One BEGIN, each transaction with its own compares and revision, one COMMIT: one fsync."""
        if self._broken:
            return self._refuse(requests, self._broken)
        committing = False
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            delivery = self._evaluate(requests)
            committing = True
            self._connection.execute("COMMIT")
        except apsw.FullError as full:
            # The commit mark was not written whole, so this is a refusal and not an unknown outcome.
            why = f"the store's disk is full ({full}); nothing was written: free some space"
            return self._undo(requests, why, StoreFull)
        except Damaged as error:
            self._broken = f"the store is damaged ({error}); restore the last backup"
            return self._undo(requests, self._broken)
        except apsw.Error as error:
            # Never tried again: after a failed fsync the kernel may have dropped the pages for good.
            self._broken = f"the store's disk failed ({error}); check the disk and restart this process"
            answer: Answer = Unknown(self._broken) if committing else StoreUnavailable(self._broken)
            return CommitDelivery(requests, [answer] * len(requests), broken=self._broken)
        except Exception as error:  # Whatever it is, callers must not wait for ever.
            return self._undo(requests, f"the store could not evaluate a batch of transactions: {error!r}")
        self._revision, self._digest = delivery.revision, delivery.digest
        return delivery

    def _evaluate(self, requests: list[WriteRequest]) -> CommitDelivery:
        batch = Batch(self._connection, self._has_lease)
        batch.load(request.work for request in requests if isinstance(request.work, Txn))
        delivery = CommitDelivery(requests, [], digest=self._digest)
        revision = self._revision
        for request in requests:
            try:
                answer, changes = self._one(batch, request.work, delivery, revision)
            except StoreError as refused:
                delivery.answers.append(refused)
                continue
            delivery.answers.append(answer)
            if changes:
                revision += 1
                delivery.recorded.append((revision, changes))
        delivery.digest += batch.flush()
        delivery.revision = revision
        if (revision, delivery.digest) != (self._revision, self._digest):
            write_digest(self._connection, revision, delivery.digest)
        return delivery

    def _one(
        self, batch: Batch, work: Txn | Grant | Revoke, delivery: CommitDelivery, revision: int
    ) -> tuple[Answer, list[StoreChange]]:
        if isinstance(work, Txn):
            return evaluate(batch, work, revision)
        if isinstance(work, Grant):
            self._connection.execute("INSERT INTO lease (ttl_s) VALUES (?)", (work.ttl_s,))
            lease = self._connection.last_insert_rowid()
            delivery.digest += lease_share(lease, work.ttl_s)
            return lease, []
        ended = self._connection.execute("DELETE FROM lease WHERE id = ? RETURNING ttl_s", (work.lease,)).get
        if ended is not None:
            delivery.digest -= lease_share(work.lease, ended)
        return work.lease, remove_keys(batch, batch.of_lease(work.lease), revision + 1)

    def _undo(
        self, requests: list[WriteRequest], why: str, kind: type[StoreUnavailable] = StoreUnavailable
    ) -> CommitDelivery:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        return self._refuse(requests, why, kind)

    def _refuse(
        self, requests: list[WriteRequest], why: str, kind: type[StoreUnavailable] = StoreUnavailable
    ) -> CommitDelivery:
        refused: Answer = kind(why)
        return CommitDelivery(requests, [refused] * len(requests), revision=self._revision, broken=self._broken)

    def _saw_wal(self, _connection: Connection, _schema: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        pages, self._wal_pages = self._wal_pages, 0
        if pages < self._checkpoint_at:
            return
        must = pages >= _CHECKPOINT_PAGES_MUST
        mode = apsw.SQLITE_CHECKPOINT_RESTART if must else apsw.SQLITE_CHECKPOINT_PASSIVE
        self._connection.set_busy_timeout(_READERS_MS)
        try:
            self._connection.wal_checkpoint(mode=mode)
            self._checkpoint_at = _CHECKPOINT_PAGES
        except apsw.FullError:
            # Everything stays in the write-ahead log; the next checkpoint tries again.
            return
        except apsw.BusyError:
            # Not tried again at once: every commit would wait for that reader.
            self._checkpoint_at = pages + _CHECKPOINT_PAGES
        except apsw.Error as error:
            self._broken = f"the store's disk failed in a checkpoint ({error}); check the disk and restart this process"
            delivery = CommitDelivery((), [], revision=self._revision, broken=self._broken)
            self._loop.call_soon_threadsafe(self._deliver, delivery)
        finally:
            self._connection.set_busy_timeout(BUSY_MS)
