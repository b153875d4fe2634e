"""What a job hands over as its result: JSON that every part of Ares can read, write and show."""

from collections.abc import Iterable
from typing import Any

import msgspec

# Encoders give up somewhat earlier than decoders, and both later or sooner as the stack is deep: stay far below.
NESTED_MAX = 512


def decode(data: bytes) -> Any:
    """Raises ValueError for what is not JSON, or is nested too deeply to be written again."""
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        value = None
    else:
        if not _reaches(value, NESTED_MAX):
            return value
    raise ValueError(f"it is nested more than {NESTED_MAX} levels deep")


def _reaches(value: Any, depth: int) -> bool:
    level: list[Any] = [value]
    for _ in range(depth):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return value if isinstance(value, list) else ()  # pyright: ignore[reportUnknownVariableType]
