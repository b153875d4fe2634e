"""Writes the history of a world as it happens."""

from ares.sim.invariants.history import Event
from ares.sim.world.loop import SimLoop


class Recorder:
    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.events: list[Event] = []
        self.add = self.events.append

    def now(self) -> float:
        """Whole microseconds: a sum of floats has too many digits to read."""
        return round(self._loop.time(), 6)
