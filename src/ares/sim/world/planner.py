"""Planners of simulated replicas: by the seed they answer late, die, hang, or repeat an old plan."""

from collections import deque
from collections.abc import Sequence
from math import inf

import msgspec

from ares.control.planner.messages import PlannerAnswer
from ares.control.planner.mirror import Mirror
from ares.ports.clock import Clock
from ares.ports.planning import Handler
from ares.sim.world.clocks import Chance

_EARLIER_MAX = 16


class Moods:
    """The faults of one replica's planners: none until a swarm sets them, and none after healing."""

    def __init__(self, clock: Clock, chance: Chance) -> None:
        self._clock = clock
        self._chance = chance
        self.calm = True

    def make(self) -> Handler:
        """A new planner: it knows nothing."""
        return _Wayward(Mirror(self._clock.monotonic).handle, self).answer

    def lag_s(self) -> float:
        """How late the next answer is; infinite when the planner hangs, below zero when it dies."""
        if self.calm or self._chance(0.7):
            return 0.0
        return self._chance.pick((self._chance.between(0.05, 3.0), self._chance.between(0.05, 3.0), -1.0, inf))

    def instead(self, earlier: Sequence[bytes]) -> bytes | None:
        """Now and then one of the earlier answers: an old plan."""
        return self._chance.pick(earlier) if earlier and not self.calm and self._chance(0.3) else None


class _Wayward:
    """A planner that now and then repeats an earlier answer."""

    def __init__(self, handler: Handler, moods: Moods) -> None:
        self._handler = handler
        self._moods = moods
        # Answers with placements.
        self._earlier: deque[bytes] = deque(maxlen=_EARLIER_MAX)

    def answer(self, frame: bytes) -> bytes:
        answer = self._handler(frame)
        plan = msgspec.msgpack.decode(answer, type=PlannerAnswer).plan
        if plan is None:
            return answer
        instead = self._moods.instead(self._earlier)
        if plan.placed:
            self._earlier.append(answer)
        return instead or answer
