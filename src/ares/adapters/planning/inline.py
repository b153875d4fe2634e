"""A planner within this process, for simulations on virtual time, which can make it answer late or die."""

import asyncio
from collections.abc import Callable

from ares.ports.clock import Clock
from ares.ports.planning import Handler, PlannerLost

# Delay of the next answer in seconds. Infinite: the planner hangs. Below zero: it dies.
Mood = Callable[[], float]


def prompt() -> float:
    """No delay."""
    return 0.0


class InlinePlanning:
    def __init__(self, make: Callable[[], Handler], clock: Clock, mood: Mood = prompt) -> None:
        self._make = make
        self._clock = clock
        self._mood = mood
        self._handler: Handler | None = None
        self.life = 0

    async def open(self) -> None:
        if self._handler is None:
            self._handler = self._make()
            self.life += 1

    async def ask(self, frame: bytes, within_s: float) -> bytes:
        if self._handler is None:
            raise PlannerLost("there is no planner")
        lag_s = self._mood()
        if lag_s < 0.0:
            self._handler = None
            raise PlannerLost("the planner died")
        # Computed from the state of now, also when the answer comes later.
        answer = self._handler(frame)
        if lag_s:
            await self._late(lag_s, within_s)
        return answer

    async def _late(self, lag_s: float, within_s: float) -> None:
        try:
            await self._clock.sleep(min(lag_s, within_s))
        except asyncio.CancelledError:
            # The request was cancelled. A planner that still works on it cannot take the next one.
            self._handler = None
            raise
        if lag_s > within_s:
            self._handler = None
            raise PlannerLost(f"no answer within {within_s:g} s", late=True)

    async def close(self) -> None:
        self._handler = None
