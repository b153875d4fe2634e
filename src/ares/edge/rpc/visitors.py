"""Streams that need no credential: few at a time, and few from one address."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_MAX: Final = 256
_PER_ADDRESS_MAX: Final = 16


class Visitors:
    """Who has such a stream open."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, address: str) -> Generator[bool]:
        """Whether there is room for one more from this address."""
        if self._open.total() >= _MAX or self._open[address] >= _PER_ADDRESS_MAX:
            yield False
            return
        self._open[address] += 1
        try:
            yield True
        finally:
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]
