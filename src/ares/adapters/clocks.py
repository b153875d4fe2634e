"""The machine's own time and randomness."""

import asyncio
import random
import secrets
import time


class SystemClock:
    """`ports.clock.Clock`. CLOCK_BOOTTIME goes on while the machine is suspended; CLOCK_MONOTONIC does not."""

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemRng:
    """`ports.clock.Rng`."""

    def uniform(self) -> float:
        return random.random()

    def token(self, n_bytes: int) -> bytes:
        return secrets.token_bytes(n_bytes)
