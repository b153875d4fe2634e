"""Run times and starts as they are predicted, and how good that was."""

from typing import Annotated

from msgspec import Meta

from ares.api.decisions import Eta
from ares.model.base import Record
from ares.model.profile import PredictionPolicy


class Interval(Record, frozen=True):
    """Seconds; four of five like jobs are between `low` and `high`."""

    seconds: float
    low: float
    high: float
    basis: str


class JobPrediction(Record, frozen=True):
    """Of a job, as if it were submitted now. Without `runtime` nobody can say."""

    runtime: Interval | None = None
    starts: Eta | None = None


class Accuracy(Record, frozen=True):
    """Of all jobs judged so far; the median is of the latest."""

    jobs: int = 0
    mean_absolute_error_s: float = 0.0
    # |said - truth| / truth.
    median_relative_error: float | None = None
    # Of those an interval was given for, the share that fell into it; 0.8 is meant.
    within: float | None = None


class Hits(Record, frozen=True):
    """Of starts that came: how many intervals were given, and how many of them held."""

    given: int = 0
    within: int = 0

    @property
    def rate(self) -> float | None:
        return self.within / self.given if self.given else None


class StartsJudged(Record, frozen=True):
    """Of jobs that had to wait: how many started within the interval they were given first, and within the latest."""

    first: Hits = Hits()
    latest: Hits = Hits()


_Error = Annotated[float, Meta(ge=0.0, le=1e12)]


class HeldOut(Record, frozen=True):
    """Errors on the later part of what it was trained from, which it had not seen: of the model and of like jobs' runs.

    `mae` is the mean absolute error, `distance` the mean of |log of said over truth|. Better is who is so by both."""

    jobs: Annotated[int, Meta(ge=0, le=10**12)]
    model_mae_s: _Error
    model_distance: _Error
    history_mae_s: _Error
    history_distance: _Error

    @property
    def better(self) -> bool:
        return self.model_distance < self.history_distance and self.model_mae_s < self.history_mae_s


class ModelView(Record, frozen=True):
    """A trained model of run times, without its trees. It is used when it did better on jobs it had not seen."""

    source: str
    trained_on: int
    trees: int
    held_out: HeldOut
    used: bool


class PredictionReport(Record, frozen=True):
    """How good predictions have been; four of five are meant to hold."""

    policy: PredictionPolicy
    # Of run times, by what was said when the job came.
    runtimes: Accuracy
    starts: StartsJudged
    # Kinds of jobs that something is known about.
    kinds: int = 0
    model: ModelView | None = None
    at: float = 0.0
