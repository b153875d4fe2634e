"""Puts many small writes into few transactions, within what one transaction may hold."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from ares.ports.store import TXN_BYTES_MAX, TXN_OPS_MAX, Compare, Op, Put

# A compare's key may come once more, as a read in the other branch.
_COMPARE_BYTES = 16
# Of an operation that is added to all drafts of a transaction.
_SPARE_BYTES = 1024


class Draft(Protocol):
    """Something to write. Drafts with the same `subject` never share a transaction; None shares with nobody."""

    @property
    def ops(self) -> tuple[Op, ...]: ...

    @property
    def compares(self) -> tuple[Compare, ...]: ...

    @property
    def subject(self) -> str | None: ...


D = TypeVar("D", bound=Draft)


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


def _size(draft: Draft) -> int:
    size = sum(2 * len(compare.key) + _COMPARE_BYTES for compare in draft.compares)
    for op in draft.ops:
        size += len(op.key) + (len(op.value) if isinstance(op, Put) else 0)
    return size
