"""How far predictions would have been off on a trace: of like jobs' runs, and of what jobs say themselves."""

import heapq

from ares.api.predictions import Accuracy
from ares.check.replay.trace import Trace
from ares.core.forecast.predictor import Predictor
from ares.model.base import Record
from ares.model.profile import PredictionPolicy
from ares.sim.learn.samples import account_of


class Score(Record, frozen=True):
    """Of the same jobs in the same order. What a job states, else its time limit, has no interval."""

    trace: str
    history: Accuracy
    stated: Accuracy


def score(trace: Trace) -> Score:
    """Every job is scored by its prediction at submission. Later jobs know it once it has ended, without any wait."""
    found = {
        "history": Predictor(PredictionPolicy(source="history")),
        "stated": Predictor(PredictionPolicy(source="stated")),
    }
    ending: list[tuple[float, int]] = []
    for row, job in enumerate(trace.jobs):
        while ending and ending[0][0] <= job.submit:
            _end(found, trace, heapq.heappop(ending)[1])
        for predictor in found.values():
            predictor.met(str(row), job.spec, account_of(job))
        heapq.heappush(ending, (job.submit + job.run_s, row))
    while ending:
        _end(found, trace, heapq.heappop(ending)[1])
    return Score(trace=trace.name, history=found["history"].accuracy, stated=found["stated"].accuracy)


def _end(found: dict[str, Predictor], trace: Trace, row: int) -> None:
    for predictor in found.values():
        predictor.ended(str(row), trace.jobs[row].run_s)
