"""A clock that jumps, and links that lose, repeat, delay and are cut. Within a session letters keep their order; a copy
of one may come long after it."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ares.check.federation.history import Happening


class FederationClock:
    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, delay_s: float, call: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now + delay_s, self._number, call))

    def run(self, until: float) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.now, _, call = heapq.heappop(self._heap)
            call()
        self.now = until


class FederationRecorder:
    """Times are rounded, so that a history is the same text everywhere."""

    def __init__(self, clock: FederationClock) -> None:
        self.clock = clock
        self.events: list[Happening] = []

    def add(self, kind: Callable[..., Happening], **fields: Any) -> None:
        self.events.append(kind(t=round(self.clock.now, 3), **fields))


@dataclass(frozen=True, slots=True)
class Envelope:
    """Who sent it, in which of their lives, and to which life of the other side as far as that is known."""

    cluster: str
    cluster_life: int
    plane_life: int
    letter: Any
    copy: bool = False


class FederationLink:
    """Between one cluster and the global plane."""

    def __init__(self, clock: FederationClock, chance: random.Random) -> None:
        self._clock, self._chance = clock, chance
        self.up = self.down = True
        self.loss = 0.03
        self.repeats = 0.05
        self.slow = 0.05
        # When the letter before arrives, in each direction.
        self._last = {True: 0.0, False: 0.0}

    def calm(self) -> None:
        self.up = self.down = True
        self.loss = self.repeats = self.slow = 0.0

    def carry(self, upward: bool, envelope: Envelope, deliver: Callable[[Envelope], None]) -> None:
        chance = self._chance
        if not self._open(upward) or chance.random() < self.loss:
            return
        delay = chance.uniform(1.0, 6.0) if chance.random() < self.slow else chance.uniform(0.005, 0.2)
        arrives = max(self._last[upward], self._clock.now + delay)
        self._last[upward] = arrives
        self._clock.at(arrives - self._clock.now, lambda: self._arrive(upward, envelope, deliver))
        if chance.random() < self.repeats:
            copy = Envelope(envelope.cluster, envelope.cluster_life, envelope.plane_life, envelope.letter, copy=True)
            later = arrives - self._clock.now + chance.uniform(0.1, 8.0)
            self._clock.at(later, lambda: self._arrive(upward, copy, deliver))

    def _arrive(self, upward: bool, envelope: Envelope, deliver: Callable[[Envelope], None]) -> None:
        if self._open(upward):
            deliver(envelope)

    def _open(self, upward: bool) -> bool:
        return self.up if upward else self.down
