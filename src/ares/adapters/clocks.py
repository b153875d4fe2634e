"""The machine's own time and randomness."""

import asyncio
import random
import secrets
import time
from functools import partial


class SystemClock:
    """`ports.clock.Clock`. CLOCK_BOOTTIME goes on while the machine is suspended; CLOCK_MONOTONIC does not."""

    # The functions themselves: a submission asks for the time about twenty times.
    monotonic = staticmethod(partial(time.clock_gettime, time.CLOCK_BOOTTIME))
    wall = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_DRAW_BYTES = 4096


class SystemRng:
    """`ports.clock.Rng`."""

    def uniform(self) -> float:
        return random.random()

    def __init__(self) -> None:
        self._drawn = b""
        self._used = 0

    def token(self, n_bytes: int) -> bytes:
        """Random bytes, read from the kernel in larger pieces: a system call per id would cost more than the id."""
        if self._used + n_bytes > len(self._drawn):
            self._drawn, self._used = secrets.token_bytes(max(_DRAW_BYTES, n_bytes)), 0
        self._used += n_bytes
        return self._drawn[self._used - n_bytes : self._used]
