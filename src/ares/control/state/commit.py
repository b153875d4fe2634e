"""Puts many small writes into few transactions, within what one transaction may hold."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ares.ports.store import TXN_BYTES_MAX, TXN_OPS_MAX, Compare, Op, Put

# A compare's key may come once more, as a read in the other branch.
_COMPARE_BYTES = 16
# Of an operation that is added to all drafts of a transaction.
_SPARE_BYTES = 1024
# Transactions of one caller that are under way at once: they share a commit, and others' do not wait for all of them.
_AT_ONCE = 16


class WriteDraft(Protocol):
    """Something to write. Drafts with the same `subject` never share a transaction; None shares with nobody."""

    @property
    def ops(self) -> tuple[Op, ...]: ...

    @property
    def compares(self) -> tuple[Compare, ...]: ...

    @property
    def subject(self) -> str | None: ...


D = TypeVar("D", bound=WriteDraft)
A = TypeVar("A")
T = TypeVar("T")


class Pack(Generic[D]):
    """What goes into one transaction. Room for `spare` more operations is left."""

    def __init__(self, spare: int = 0) -> None:
        self.drafts: list[D] = []
        self._ops = self._compares = spare
        self._size = spare * _SPARE_BYTES
        self._subjects: set[str] = set()
        self._closed = False

    def add(self, draft: D) -> bool:
        """Whether it is in now. The first one always is."""
        ops, compares = self._ops + len(draft.ops), self._compares + len(draft.compares)
        size, subject = self._size + _size(draft), draft.subject
        if self.drafts:
            full = max(ops, compares) > TXN_OPS_MAX or size > TXN_BYTES_MAX
            if full or self._closed or subject is None or subject in self._subjects:
                return False
        self._ops, self._compares, self._size = ops, compares, size
        if subject is None:
            self._closed = True
        else:
            self._subjects.add(subject)
        self.drafts.append(draft)
        return True


def packs(drafts: Sequence[tuple[int, D]]) -> list[list[tuple[int, D]]]:
    """The drafts in order, each with the number it came with."""
    found: list[list[tuple[int, D]]] = []
    pack: Pack[D] | None = None
    for place, draft in drafts:
        if pack is None or not pack.add(draft):
            pack = Pack()
            pack.add(draft)
            found.append([])
        found[-1].append((place, draft))
    return found


async def few_at_once(write: Callable[[A], Coroutine[Any, Any, T]], whats: Sequence[A]) -> list[T]:
    """What writing each of them gives, in order."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(what: A) -> T:
        async with places:
            return await write(what)

    return await asyncio.gather(*map(one, whats))


def _size(draft: WriteDraft) -> int:
    size = sum(2 * len(compare.key) + _COMPARE_BYTES for compare in draft.compares)
    for op in draft.ops:
        size += len(op.key) + (len(op.value) if isinstance(op, Put) else 0)
    return size
