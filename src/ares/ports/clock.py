"""Time and randomness, always injected."""

import asyncio
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds that never jump and go on during suspend. Leases and timers use only this."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch, for people and records."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Rng(Protocol):
    def uniform(self) -> float:
        """A float in [0, 1)."""
        ...

    def token(self, n_bytes: int) -> bytes:
        """Unguessable bytes."""
        ...


async def happens(event: asyncio.Event, clock: Clock, within_s: float) -> bool:
    """True as soon as the event is set; False when the time is over first."""
    if event.is_set() or within_s <= 0:
        return event.is_set()
    tasks = (asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(within_s)))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    return event.is_set()
