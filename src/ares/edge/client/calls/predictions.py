"""Requests about run times and starts, as values like those in `calls`, and what they are answered."""

import msgspec

from ares.edge.client.calls.calls import JSON, Call, Request
from ares.edge.client.calls.decisions import Eta
from ares.model.base import Record
from ares.model.job import JobSpec
from ares.model.profile import PredictionPolicy

_PATH = "/v1/predictions"


class Interval(Record, frozen=True):
    """Seconds; four of five like jobs are between `low` and `high`."""

    seconds: float
    low: float = 0.0
    high: float = 0.0
    basis: str = ""


class JobPrediction(Record, frozen=True):
    """Of a job, as if it were submitted now. Without `runtime` nobody can say."""

    runtime: Interval | None = None
    starts: Eta | None = None


class Accuracy(Record, frozen=True):
    """Of run times: what was said when a job came against what it took. `within` is meant to be 0.8."""

    jobs: int = 0
    mean_absolute_error_s: float = 0.0
    median_relative_error: float | None = None
    within: float | None = None


class Hits(Record, frozen=True):
    """Intervals that were given to jobs that have started, and how many held."""

    given: int = 0
    within: int = 0

    @property
    def rate(self) -> float | None:
        return self.within / self.given if self.given else None


class StartsJudged(Record, frozen=True):
    """By the interval a job was given first, and by the latest."""

    first: Hits = Hits()
    latest: Hits = Hits()


class HeldOut(Record, frozen=True):
    """Errors of a model on jobs it had not seen, and of like jobs' runs on the same."""

    jobs: int = 0
    model_mae_s: float = 0.0
    model_distance: float = 0.0
    history_mae_s: float = 0.0
    history_distance: float = 0.0


class ModelView(Record, frozen=True):
    """A trained model. It is `used` when it was better than like jobs' runs."""

    source: str = ""
    trained_on: int = 0
    trees: int = 0
    held_out: HeldOut = HeldOut()
    used: bool = False


class PredictionReport(Record, frozen=True):
    policy: PredictionPolicy = PredictionPolicy()
    runtimes: Accuracy = Accuracy()
    starts: StartsJudged = StartsJudged()
    kinds: int = 0
    model: ModelView | None = None
    at: float = 0.0


def report() -> Call[PredictionReport]:
    return Call(Request("GET", _PATH), PredictionReport)


def job(spec: JobSpec) -> Call[JobPrediction]:
    return Call(Request("POST", _PATH, (), msgspec.json.encode({"spec": spec}), JSON), JobPrediction)


def install(model: bytes) -> Call[ModelView]:
    """`model` is what `ares predict train` wrote."""
    return Call(Request("PUT", f"{_PATH}/model", (), model, JSON), ModelView)


def remove() -> Call[None]:
    return Call(Request("DELETE", f"{_PATH}/model"), None)
