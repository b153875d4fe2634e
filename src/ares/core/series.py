"""Numbers over time in bounded memory: rings of means, finer ones for the last hours and coarser ones for months."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
# A name and the values of its labels, by name: what tells series apart.
SeriesKey = tuple[str, tuple[tuple[str, str], ...]]

SERIES_KEPT_MAX: Final = 300
# So many steps a clock may go back without anything being taken for a leap.
_BACK_STEPS: Final = 30


class RingShape(NamedTuple):
    step_s: int
    steps: int


# Two hours by 10 s, two days by minutes, 90 days by quarters of an hour: 49 kB of a series, 15 MB of all.
RINGS: Final = (RingShape(10, 720), RingShape(60, 2880), RingShape(900, 8640))


class StepRing:
    """Means by step. A step is a number of the epoch's seconds: `at // step_s`. Steps that passed without a value are
    not a number. `newest` is 0 before the first."""

    def __init__(self, shape: RingShape, rows: int = 0) -> None:
        self.shape = shape
        self.newest = 0
        self.values: Floats = np.full((rows, shape.steps), np.nan, np.float32)
        # Of the step that is being filled.
        self._sums = np.zeros(rows)
        self._counts = np.zeros(rows, np.int64)

    def grow(self, rows: int) -> None:
        more = rows - len(self.values)
        if more > 0:
            self.values = np.concatenate([self.values, np.full((more, self.shape.steps), np.nan, np.float32)])
            self._sums = np.concatenate([self._sums, np.zeros(more)])
            self._counts = np.concatenate([self._counts, np.zeros(more, np.int64)])

    def put(self, at: float, rows: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> None:
        """A clock that goes back a little adds to the newest step: what was remembered stays. One that had leapt ahead
        and was set right leaves nothing in the time to come, or no step would be new until then."""
        step = int(at // self.shape.step_s)
        if 0 < step < self.newest - _BACK_STEPS:
            ahead = min(self.newest - step, self.shape.steps)
            self.values[:, [(self.newest - back) % self.shape.steps for back in range(ahead)]] = np.nan
            self._sums[:], self._counts[:], self.newest = 0.0, 0, step
        step = max(step, self.newest)
        if step > self.newest:
            passed = min(step - self.newest, self.shape.steps) if self.newest else self.shape.steps
            self.values[:, [(step - back) % self.shape.steps for back in range(passed)]] = np.nan
            self._sums[:], self._counts[:], self.newest = 0.0, 0, step
        self._sums[rows] += values
        self._counts[rows] += 1
        self.values[rows, step % self.shape.steps] = (self._sums[rows] / self._counts[rows]).astype(np.float32)

    def read(self, row: int, since: float, now: float) -> list[float | None]:
        """From the step of `since` to that of `now`, at most as many as are kept."""
        wanted = np.arange(self.first(since, now), int(now // self.shape.step_s) + 1)
        known = (self.newest - self.shape.steps < wanted) & (wanted <= self.newest)
        found = np.where(known, self.values[row, wanted % self.shape.steps], np.nan)
        # A value that is none is not equal to itself.
        return [value if value == value else None for value in found.tolist()]

    def first(self, since: float, now: float) -> int:
        """The first step of an answer."""
        return max(int(since // self.shape.step_s), int(now // self.shape.step_s) - self.shape.steps + 1)


class SeriesRings:
    """All series of a replica. A series keeps its row for good; beyond the most, new ones are left out."""

    def __init__(self) -> None:
        self.rows: dict[SeriesKey, int] = {}
        self.rings = tuple(StepRing(shape) for shape in RINGS)

    def put(self, at: float, values: Mapping[SeriesKey, float]) -> None:
        finite = {key: value for key, value in values.items() if np.isfinite(value)}
        for key in finite:
            if key not in self.rows and len(self.rows) < SERIES_KEPT_MAX:
                self.rows[key] = len(self.rows)
        known = [(self.rows[key], value) for key, value in finite.items() if key in self.rows]
        rows = np.array([row for row, _ in known], np.int64)
        numbers = np.array([value for _, value in known], np.float64)
        for ring in self.rings:
            ring.grow(len(self.rows))
            ring.put(at, rows, numbers)

    def ring_for(self, seconds: float) -> StepRing:
        """The finest that reaches so far back."""
        return next((ring for ring in self.rings if ring.shape.step_s * ring.shape.steps >= seconds), self.rings[-1])

    def latest(self, key: SeriesKey) -> float | None:
        ring = self.rings[0]
        value = float(ring.values[self.rows[key], ring.newest % ring.shape.steps])
        return None if np.isnan(value) else value

    def copy(self) -> "SeriesRings":
        """To be written elsewhere while this one goes on."""
        found = SeriesRings()
        found.rows = dict(self.rows)
        for mine, ring in zip(found.rings, self.rings, strict=True):
            mine.grow(len(self.rows))
            mine.values, mine.newest = ring.values.copy(), ring.newest
        return found
