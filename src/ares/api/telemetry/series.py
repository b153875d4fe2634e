"""How numbers of the platform went over time, as a replica remembers them without any other program."""

from ares.model.base import Shown


class SeriesPoints(Shown, frozen=True):
    """One series. `points` are means over the steps, the oldest first; None where nothing was measured."""

    # Of a counter `NAME:rate`, per second; of a histogram `NAME:p50`, `NAME:p95` and `NAME:rate`.
    name: str
    labels: dict[str, str]
    points: tuple[float | None, ...] = ()
    # The newest that was measured.
    latest: float | None = None


class SeriesAnswer(Shown, frozen=True):
    """The first point is of the step that begins at `since`. Times are seconds since the epoch."""

    replica: str
    at: float
    since: float
    step_s: float
    series: tuple[SeriesPoints, ...]
    # Series that this replica remembers, of all names, and the most that it would.
    kept: int
    kept_max: int
