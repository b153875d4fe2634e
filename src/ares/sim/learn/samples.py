"""What a model is trained from: every job of a trace as it looked when it came, and how long it ran."""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ares.check.replay.trace import Trace, TraceJob
from ares.core.forecast.features import FEATURES
from ares.core.forecast.predictor import Predictor
from ares.model.profile import PredictionPolicy

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Samples:
    """One row per job, in the order of submission. `history` is the run time of like jobs, NaN without any."""

    features: Floats
    runs: Floats
    history: Floats
    limits: Floats


def samples_of(trace: Trace) -> Samples:
    """A job is known to later ones once it has ended. Its wait counts as zero, as not every trace has it."""
    predictor = Predictor(PredictionPolicy(source="history"))
    count = len(trace.jobs)
    features, runs = np.empty((count, len(FEATURES))), np.empty(count)
    history, limits = np.full(count, np.nan), np.full(count, np.inf)
    ending: list[tuple[float, int]] = []
    for row, job in enumerate(trace.jobs):
        while ending and ending[0][0] <= job.submit:
            ended = trace.jobs[heapq.heappop(ending)[1]]
            predictor.learn(ended.spec, account_of(ended), ended.run_s)
        account = account_of(job)
        features[row] = predictor.features(job.spec, account)
        said = predictor.estimate(job.spec, account)
        if said is not None:
            history[row] = said.seconds
        runs[row] = max(1.0, job.run_s)
        if job.spec.time_limit_s is not None:
            limits[row] = job.spec.time_limit_s
        heapq.heappush(ending, (job.submit + job.run_s, row))
    return Samples(features, runs, history, limits)


def account_of(job: TraceJob) -> str:
    """As the simulator submits it."""
    return f"{job.tenant}/default/{job.user or job.tenant}"
