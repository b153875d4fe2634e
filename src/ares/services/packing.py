"""Puts many small writes into few transactions, within what one transaction may hold."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from ares.ports.store import TXN_BYTES_MAX, TXN_OPS_MAX, Compare, Op, Put

# A compare's key may come once more, as a read in the other branch.
_COMPARE_BYTES = 16


class Draft(Protocol):
    """Something to write. Drafts with the same `subject` never share a transaction; None shares with nobody."""

    @property
    def ops(self) -> tuple[Op, ...]: ...

    @property
    def compares(self) -> tuple[Compare, ...]: ...

    @property
    def subject(self) -> str | None: ...


D = TypeVar("D", bound=Draft)


def packs(drafts: Sequence[tuple[int, D]]) -> list[list[tuple[int, D]]]:
    """The drafts in order, each with the number it came with."""
    found: list[list[tuple[int, D]]] = []
    ops = compares = size = 0
    subjects: set[str] | None = None
    for place, draft in drafts:
        own, subject = _size(draft), draft.subject
        ops, compares, size = ops + len(draft.ops), compares + len(draft.compares), size + own
        full = max(ops, compares) > TXN_OPS_MAX or size > TXN_BYTES_MAX
        if full or subjects is None or subject is None or subject in subjects:
            found.append([])
            ops, compares, size = len(draft.ops), len(draft.compares), own
            subjects = None if subject is None else set()
        found[-1].append((place, draft))
        if subjects is not None and subject is not None:
            subjects.add(subject)
    return found


def _size(draft: Draft) -> int:
    size = sum(2 * len(compare.key) + _COMPARE_BYTES for compare in draft.compares)
    for op in draft.ops:
        size += len(op.key) + (len(op.value) if isinstance(op, Put) else 0)
    return size
