"""How many calls are in service: in all, and for each key, such as an address or a credential."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

# Streams that need no credential.
VISITS_MAX: Final = 256
VISITS_PER_ADDRESS_MAX: Final = 16


class Visitors:
    """A call counts until its last byte was taken: the end of one whose client does not read waits in memory."""

    def __init__(self, most: int = VISITS_MAX, per_key: int = VISITS_PER_ADDRESS_MAX) -> None:
        self._max = most
        self._per_key = per_key
        self._open: Counter[str] = Counter()
        self._total = 0

    @contextmanager
    def one(self, key: str) -> Generator[bool]:
        """Whether there is room for one more of this key."""
        if self._total >= self._max or self._open[key] >= self._per_key:
            yield False
            return
        self._open[key] += 1
        self._total += 1
        try:
            yield True
        finally:
            self._total -= 1
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]
