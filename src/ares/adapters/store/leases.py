"""When leases end, by the monotonic clock, for the adapters that keep them themselves."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ares.ports.clock import Clock


@dataclass(slots=True)
class _Lease:
    ttl_s: float
    deadline: float


class Leases:
    """Calls `expired` with the leases that ended; they are gone from here by then."""

    def __init__(self, clock: Clock, expired: Callable[[Sequence[int]], None]) -> None:
        self._clock = clock
        self._expired = expired
        self._leases: dict[int, _Lease] = {}
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = 0.0
        # For tests of early and late expiry: a lease ends after this part of its time.
        self.stretch = 1.0

    def __contains__(self, lease: int) -> bool:
        return lease in self._leases

    def add(self, lease: int, ttl_s: float) -> None:
        self._leases[lease] = _Lease(ttl_s, self._clock.monotonic() + ttl_s * self.stretch)
        self._arm()

    def renew(self, lease: int) -> float:
        """The seconds the lease is valid for from now on, 0 when it is gone."""
        self.expire_due()
        found = self._leases.get(lease)
        if found is None:
            return 0.0
        found.deadline = self._clock.monotonic() + found.ttl_s * self.stretch
        return found.ttl_s

    def remove(self, lease: int) -> bool:
        return self._leases.pop(lease, None) is not None

    def expire_due(self) -> None:
        now = self._clock.monotonic()
        due = [lease for lease, held in self._leases.items() if held.deadline <= now]
        for lease in due:
            del self._leases[lease]
        if due:
            self._expired(due)

    def close(self) -> None:
        self._leases.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        first = min(held.deadline for held in self._leases.values())
        if self._timer is not None and not self._timer.done():
            if self._timer_at <= first:
                return
            self._timer.cancel()
        self._timer_at = first
        self._timer = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._leases:
            self._timer_at = min(held.deadline for held in self._leases.values())
            await self._clock.sleep(max(0.0, self._timer_at - self._clock.monotonic()))
            self.expire_due()
