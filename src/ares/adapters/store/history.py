"""The newest changes, kept in memory and bounded, and the watches that read them."""

from asyncio import Future, get_running_loop
from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence

from ares.ports.store import Changes, Compacted, StoreChange

COUNT_MAX = 200_000
BYTES_MAX = 64 * 1024 * 1024
# Changes that every watch has seen are kept up to this number, for watches that resume.
SEEN_COUNT_MAX = 10_000
SEEN_BYTES_MAX = 8 * 1024 * 1024
# A watch far behind catches up in steps, so that it does not hold the loop for long.
_REVISIONS_PER_STEP = 2_000
# Memory of a change beyond its key and value, measured.
_ENTRY_BYTES = 400


class History:
    """Watches are cursors over one list: a slow one costs no memory of its own, it ends by `Compacted`."""

    def __init__(self, revision: int, *, count_max: int = COUNT_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._compacted = revision
        self._revisions: list[int] = []
        self._entries: list[Sequence[StoreChange]] = []
        self._sizes: list[int] = []
        self._start = 0
        self._count = 0
        self._bytes = 0
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._waiting: list[Future[None]] = []
        # The revision that each watch wants next.
        self._cursors: dict[object, int] = {}
        self._failure: Exception | None = None

    def append(self, revision: int, changes: Sequence[StoreChange]) -> None:
        """`wake` makes it seen; several appends may share one."""
        self._revisions.append(revision)
        self._entries.append(changes)
        self._count += len(changes)
        self._sizes.append(_size(changes))
        self._bytes += self._sizes[-1]

    def wake(self) -> None:
        while self._count > self._count_max or self._bytes > self._bytes_max:
            self._drop_oldest()
        unseen = min(self._cursors.values(), default=0)
        while self._is_long() and self._revisions[self._start] < unseen:
            self._drop_oldest()
        if self._start > len(self._entries) // 2:
            del self._revisions[: self._start], self._entries[: self._start], self._sizes[: self._start]
            self._start = 0
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _is_long(self) -> bool:
        return self._count > SEEN_COUNT_MAX or self._bytes > SEEN_BYTES_MAX

    def compact(self, revision: int) -> None:
        """Forgets everything up to `revision`."""
        while self._start < len(self._revisions) and self._revisions[self._start] <= revision:
            self._drop_oldest()
        self._compacted = max(self._compacted, revision)
        self.wake()

    def fail(self, failure: Exception) -> None:
        """Ends every watch by `failure`."""
        self._failure = failure
        self.wake()

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes | Compacted]:
        me = object()
        self._cursors[me] = wanted = max(1, from_revision)
        try:
            while self._failure is None:
                if wanted <= self._compacted:
                    self._cursors.pop(me, None)
                    yield Compacted(self._compacted)
                    return
                first = bisect_left(self._revisions, wanted, self._start)
                last = min(first + _REVISIONS_PER_STEP, len(self._revisions))
                if first == last:
                    waiter = get_running_loop().create_future()
                    self._waiting.append(waiter)
                    await waiter
                    continue
                found = [c for entry in self._entries[first:last] for c in entry if c.kv.key.startswith(prefix)]
                complete = self._revisions[last - 1]
                self._cursors[me] = wanted = complete + 1
                if found:
                    yield Changes(complete, tuple(found))
            raise self._failure
        finally:
            self._cursors.pop(me, None)

    def _drop_oldest(self) -> None:
        changes = self._entries[self._start]
        self._compacted = max(self._compacted, self._revisions[self._start])
        self._count -= len(changes)
        self._bytes -= self._sizes[self._start]
        self._entries[self._start] = ()
        self._start += 1


def _size(changes: Sequence[StoreChange]) -> int:
    return _ENTRY_BYTES * len(changes) + sum([len(change.kv.value) + len(change.kv.key) for change in changes])
