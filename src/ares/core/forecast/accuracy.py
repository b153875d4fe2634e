"""How good predictions were: error and calibration, as they were found out job by job."""

from collections import deque
from math import log
from statistics import median

from ares.api.predictions import Accuracy
from ares.model.base import Record

# The median is over this many of the latest jobs.
_LATEST = 4096


class JudgedData(Record, frozen=True):
    """Plain data, to be kept."""

    jobs: int = 0
    error_s: float = 0.0
    within: int = 0
    relative: tuple[float, ...] = ()


class AccuracyCount:
    def __init__(self, data: JudgedData = JudgedData()) -> None:  # noqa: B008 - frozen
        self._jobs, self._error_s, self._within = data.jobs, data.error_s, data.within
        self._relative = deque(data.relative, _LATEST)

    def add(self, said_s: float, truth_s: float, within: bool) -> None:
        self._jobs += 1
        self._error_s += abs(said_s - truth_s)
        self._within += within
        self._relative.append(abs(said_s - truth_s) / max(truth_s, 1.0))

    @property
    def data(self) -> JudgedData:
        return JudgedData(jobs=self._jobs, error_s=self._error_s, within=self._within, relative=tuple(self._relative))

    @property
    def accuracy(self) -> Accuracy:
        if not self._jobs:
            return Accuracy()
        return Accuracy(
            jobs=self._jobs,
            mean_absolute_error_s=self._error_s / self._jobs,
            median_relative_error=median(self._relative),
            within=self._within / self._jobs,
        )


def distance(said_s: float, truth_s: float) -> float:
    """Twice as long and half as long are equally far off; a few seconds are no error."""
    return abs(log((said_s + 10.0) / (truth_s + 10.0)))
