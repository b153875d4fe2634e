"""A planner within this process, for worlds on virtual time: it answers late, or dies, as the world wishes."""

import asyncio
from collections.abc import Callable

from ares.ports.clock import Clock
from ares.ports.planning import Handler, PlannerLost

# How late the next answer is, in seconds; infinite: never, for it hangs. Below zero it dies instead.
Mood = Callable[[], float]


def prompt() -> float:
    """It answers at once."""
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
        # As it sees things now: the answer may come when they are different.
        answer = self._handler(frame)
        if lag_s:
            await self._late(lag_s, within_s)
        return answer

    async def _late(self, lag_s: float, within_s: float) -> None:
        try:
            await self._clock.sleep(min(lag_s, within_s))
        except asyncio.CancelledError:
            # Nobody waits for the answer any more; a planner that is still at work is of no use to the next.
            self._handler = None
            raise
        if lag_s > within_s:
            self._handler = None
            raise PlannerLost(f"no answer within {within_s:g} s", late=True)

    async def close(self) -> None:
        self._handler = None
