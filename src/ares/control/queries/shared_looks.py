"""Answers that many viewers share: computed once at a time, and kept for a moment."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from ares.ports.clock import Clock

# Answers that are kept: one for each tenant that watches, as a rule.
_KEPT_MAX: Final = 256
Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class SharedLooks(Generic[Key, Found]):
    """However many ask at the same moment, one of them looks and the others get what it found."""

    def __init__(self, clock: Clock, kept_s: float) -> None:
        self._clock = clock
        self._kept_s = kept_s
        self._kept: dict[Key, tuple[float, Found]] = {}
        self._under_way: dict[Key, asyncio.Task[Found]] = {}

    async def of(self, key: Key, look: Callable[[], Awaitable[Found]]) -> Found:
        there = self._kept.get(key)
        if there is not None and self._clock.monotonic() - there[0] < self._kept_s:
            return there[1]
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._look(key, look), name="shared look")
            task.add_done_callback(lambda done: self._over(key, done))
        # A viewer who leaves takes nothing from those who wait for the same answer.
        return await asyncio.shield(task)

    async def _look(self, key: Key, look: Callable[[], Awaitable[Found]]) -> Found:
        found = await look()
        if len(self._kept) >= _KEPT_MAX and key not in self._kept:
            self._kept.clear()
        self._kept[key] = (self._clock.monotonic(), found)
        return found

    def _over(self, key: Key, done: "asyncio.Task[Found]") -> None:
        del self._under_way[key]
        if not done.cancelled():
            # Its viewers may all have left: then its failure is not told to any of them.
            done.exception()
