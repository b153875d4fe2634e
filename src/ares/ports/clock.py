"""Time and randomness, always injected."""

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
