"""Time and chance in the hands of a test."""

import asyncio
import heapq
import itertools
import random

_ROUNDS_MAX = 200_000


async def settle() -> None:
    """Lets everything run that can run without time passing."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    for _ in range(_ROUNDS_MAX):
        await asyncio.sleep(0)
        if not ready:
            return
    raise AssertionError(f"still busy after {_ROUNDS_MAX} rounds: something spins")


class ManualClock:
    """`ports.clock.Clock`: stands still until `advance`."""

    def __init__(self) -> None:
        self._now = 1_000.0
        self._wall_offset = 1_700_000_000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = itertools.count()

    def monotonic(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._now + self._wall_offset

    def jump_wall(self, seconds: float) -> None:
        self._wall_offset += seconds

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._number), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Wakes sleepers one by one, in order, each at its own time."""
        until = self._now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            due, _, woken = heapq.heappop(self._sleepers)
            if woken.done():
                continue
            self._now = max(self._now, due)
            woken.set_result(None)
            await settle()
        self._now = until
        await settle()


class SeededRng:
    """`ports.clock.Rng`, repeatable. `fixed` replaces the next draws of `uniform`."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self.fixed: float | None = None

    def uniform(self) -> float:
        return self._random.random() if self.fixed is None else self.fixed

    def token(self, n_bytes: int) -> bytes:
        return self._random.randbytes(n_bytes)
