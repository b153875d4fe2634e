"""The indices of an array job: "0-999", "1,5,7-20", "0-100:10", and how many of its tasks run at once: "0-199%8"."""

import re
from collections.abc import Iterable

from ares.core.refusal import Refusal
from ares.model.job import ARRAY_TASKS_MAX

INDEX_MAX = 10_000_000

_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)
_FIX = "write indices as 0-999, 1,5,7-20 or 0-100:10, and 0-999%8 to let 8 run at once"


def indices(text: str) -> tuple[int, ...] | Refusal:
    """The indices in the order they are written. Nothing large is built before its size is known."""
    ranges: list[range] = []
    listed, limited, most = text.partition("%")
    if limited and not int(most):
        return _bad(f"array {_short(text)} lets no task run at once")
    for part in listed.split(","):
        span = _span(part)
        if isinstance(span, Refusal):
            return span
        ranges.append(span)
    count = sum(len(span) for span in ranges)
    if count > ARRAY_TASKS_MAX:
        message = f"array {_short(text)} has {count:,} tasks, at most {ARRAY_TASKS_MAX:,} are allowed"
        return Refusal(code="array-too-large", message=message, fix="split it into several arrays")
    return _without_repeats(text, tuple(index for span in ranges for index in span))


def throttle(text: str) -> int | None:
    """How many tasks of an admitted array may run at once; None for as many as there is room for."""
    _, limited, most = text.partition("%")
    return int(most) if limited else None


def _span(part: str) -> range | Refusal:
    match = _PART.fullmatch(part)
    if match is None:
        return _bad(f"{_short(part)!r} is not an index or a range")
    first = int(match[1])
    last = int(match[2] or first)
    step = int(match[3] or 1)
    if last < first:
        return _bad(f"range {part} runs backwards")
    if step < 1:
        return _bad(f"range {part} has step 0")
    if last > INDEX_MAX:
        return _bad(f"index {last:,} is above the highest allowed, {INDEX_MAX:,}")
    return range(first, last + 1, step)


def _without_repeats(text: str, found: tuple[int, ...]) -> tuple[int, ...] | Refusal:
    if len(set(found)) == len(found):
        return found
    return _bad(f"array {_short(text)} names index {_first_repeat(found)} more than once")


def _first_repeat(found: Iterable[int]) -> int:
    seen: set[int] = set()
    return next(index for index in found if index in seen or seen.add(index))


def _bad(message: str) -> Refusal:
    return Refusal(code="array-syntax", message=message, fix=_FIX)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
