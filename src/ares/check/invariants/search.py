"""Whether operations that overlapped in time can be put into one order in which each of them makes sense.

The search is that of Wing and Gong with the memory of Lowe: an operation may come first if it began before any other
ended; what was tried with the same operations done and the same state is not tried again.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

S = TypeVar("S")


class TimedOperation(NamedTuple):
    """`ended` is None when nobody knows whether it ever took effect: it may be placed anywhere later, or nowhere."""

    began: int
    ended: int | None
    what: Any


class _Mark:
    """The beginning or the end of an operation, in a list from which an operation can be lifted and put back."""

    __slots__ = ("after", "before", "end", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.before: _Mark = self
        self.after: _Mark = self
        # Of a beginning: its end.
        self.end: _Mark | None = None


def misplaced(
    operations: Sequence[TimedOperation], state: S, step: Callable[[S, Any], S | None]
) -> TimedOperation | None:
    """An operation that fits nowhere, or None when there is an order.

    `step` gives the state after an operation, or None where it makes no sense. The one returned is the one that the
    longest attempt did not get past."""
    head = _marks(operations)
    done, taken, tried = 0, list[tuple[_Mark, S]](), set[tuple[int, S]]()
    furthest: tuple[int, _Mark] | None = None
    mark = head.after
    while mark is not head:
        if mark.end is not None:
            new = step(state, operations[mark.number].what)
            key = (done | 1 << mark.number, new)
            if new is not None and key not in tried:
                tried.add((key[0], new))
                taken.append((mark, state))
                done, state = key[0], new
                _lift(mark)
                mark = head.after
            else:
                mark = mark.after
            continue
        if furthest is None or len(taken) >= furthest[0]:
            furthest = (len(taken), mark)
        if not taken:
            return operations[furthest[1].number]
        mark, state = taken.pop()
        done ^= 1 << mark.number
        _put_back(mark)
        mark = mark.after
    return None


def _marks(operations: Sequence[TimedOperation]) -> _Mark:
    """All beginnings and ends in their order, in a ring behind a mark that is neither."""
    rows: list[tuple[int, int, _Mark]] = []
    for number, one in enumerate(operations):
        begin, end = _Mark(number), _Mark(number)
        begin.end = end
        rows.append((one.began, 0, begin))
        if one.ended is not None:
            rows.append((one.ended, 1, end))
    rows.sort(key=lambda row: row[:2])
    head = _Mark(-1)
    for _, _, mark in rows:
        last = head.before
        last.after = head.before = mark
        mark.before, mark.after = last, head
    return head


def _lift(mark: _Mark) -> None:
    for one in (mark, mark.end):
        # The end of what nobody knows was never put into the ring.
        if one is not None:
            one.before.after, one.after.before = one.after, one.before


def _put_back(mark: _Mark) -> None:
    for one in (mark.end, mark):
        if one is not None:
            one.before.after = one.after.before = one
