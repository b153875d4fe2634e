"""How long running jobs are left as they are. Elastic gangs that gave up ranks take no more for a while: growing and
shrinking in turn costs more than it gains. Jobs that save their work hold their place for a while before they yield."""

from math import inf
from typing import NamedTuple

from ares.core.capacity.holding import Holding

# Each time soon after the last one, twice as long, up to the most.
_PAUSE_S = 60.0
_PAUSE_MAX_S = 1800.0


class GrowthPause(NamedTuple):
    """When a gang gave up ranks, and for how long it does not take more."""

    at: float
    lasts_s: float

    @property
    def soon_after(self) -> float:
        """Ranks given up before that make the next pause longer."""
        return self.at + 4 * self.lasts_s


class GrowthPauses:
    """By gang. `now` is the time as of which the picture is."""

    def __init__(self) -> None:
        self.now = -inf
        self._of: dict[str, GrowthPause] = {}

    def resized(self, before: Holding, after: Holding) -> None:
        if len(after.ranks) < len(before.ranks) and after.elastic is not None:
            self._of = {job: pause for job, pause in self._of.items() if self.now < pause.soon_after}
            last = self._of.get(after.job)
            self._of[after.job] = GrowthPause(
                self.now, _PAUSE_S if last is None else min(2 * last.lasts_s, _PAUSE_MAX_S)
            )

    def until(self, job: str) -> float:
        """When the gang may take more ranks again."""
        pause = self._of.get(job)
        return -inf if pause is None else pause.at + pause.lasts_s


class Yields:
    """When each running job that saves its work may first have to make room for one that has had less service."""

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at: dict[str, float] = {}

    def put(self, holding: Holding) -> None:
        if holding.served_s is not None and not holding.leaving:
            self._at[holding.job] = holding.yields_at
        elif self._at:
            self.drop(holding.job)

    def drop(self, job: str) -> None:
        self._at.pop(job, None)

    def due(self, now: float) -> bool:
        """Whether a running job has had enough service to make room."""
        return any(at <= now for at in self._at.values())
