"""What is said of one job's run time, and by what: kept until the job has ended, to be judged then."""

from typing import NamedTuple

from ares.core.forecast.estimate import Estimate
from ares.core.forecast.kinds import JobKind
from ares.core.forecast.spread import IntervalEnds


class PastRuns(NamedTuple):
    """What like jobs took: the value planned by, how many, and which spread of errors it belongs to."""

    seconds: float
    runs: int
    words: str
    bucket: str
    # The quantile that holds go by.
    upper: float = 0.0


class PredictedRun(NamedTuple):
    """What was said of a job: in the end, by the job itself, and by history."""

    used: Estimate | None
    stated: Estimate | None
    past: PastRuns | None
    # The ends of the spreads at that moment.
    stated_ends: IntervalEnds | None = None
    past_ends: IntervalEnds | None = None


class MetJob(NamedTuple):
    """The specification itself is not kept: of a hundred thousand jobs that wait it would be most of what they take."""

    kind: JobKind
    said: PredictedRun
    # Whether the job says how long it runs.
    states: bool
