"""Time and chance in a simulated world."""

import asyncio
import random
from collections.abc import Sequence
from typing import TypeVar

from ares.sim.world.loop import SimLoop

T = TypeVar("T")

_WALL_AT_START = 1_700_000_000.0


class Chance:
    """Draws of one part of the world. Each part has its own, so that a draw more in one does not move the others."""

    def __init__(self, seed: int, part: str) -> None:
        # From text: the same on every version of Python.
        self._random = random.Random(f"{seed}/{part}")
        self.random = self._random.random

    def __call__(self, likely: float) -> bool:
        """True with this probability."""
        return self.random() < likely

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def pick(self, among: Sequence[T]) -> T:
        return among[int(self.random() * len(among))]

    def some(self, among: Sequence[T], count: int) -> list[T]:
        """So many of them in random order, none twice."""
        left = list(among)
        return [left.pop(int(self.random() * len(left))) for _ in range(min(count, len(left)))]

    def after(self, mean_s: float) -> float:
        """Seconds until the next of events that happen at random."""
        return self._random.expovariate(1.0 / mean_s)

    # ---- `ports.clock.Rng`

    def uniform(self) -> float:
        return self.random()

    def token(self, n_bytes: int) -> bytes:
        return self._random.randbytes(n_bytes)


class SimClock:
    """`ports.clock.Clock` of one machine: its rate may be wrong, and its wall clock may jump."""

    def __init__(self, loop: SimLoop, chance: Chance, rate: float = 1.0) -> None:
        self._loop = loop
        self._chance = chance
        self._rate = rate
        # No two machines were started at the same time.
        self._began = 100.0 + 900.0 * chance.random()
        self._wall_offset = 0.0
        # A wake-up is late by up to this, so seeds differ in the order of components.
        self.late_s = 0.002

    def monotonic(self) -> float:
        return self._began + self._loop.time() * self._rate

    def wall(self) -> float:
        return _WALL_AT_START + self._loop.time() * self._rate + self._wall_offset

    def jump_wall(self, seconds: float) -> None:
        self._wall_offset += seconds

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = self._loop
        woken: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds / self._rate + self.late_s * self._chance.random(), _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()


def _wake(sleeper: "asyncio.Future[None]") -> None:
    if not sleeper.done():
        sleeper.set_result(None)
