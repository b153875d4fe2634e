"""Writes the history of a world as it happens."""

from collections.abc import Callable

from ares.check.invariants.history import Event
from ares.sim.world.loop import SimLoop


class WorldRecorder:
    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.events: list[Event] = []
        self.add: Callable[[Event], None] = self.events.append

    def tell(self, listener: Callable[[Event], None]) -> None:
        """From now on `listener` hears of every event at the very moment it happens."""
        add = self.add

        def added(event: Event) -> None:
            add(event)
            listener(event)

        self.add = added

    def now(self) -> float:
        """Whole microseconds: a sum of floats has too many digits to read."""
        return round(self._loop.time(), 6)
