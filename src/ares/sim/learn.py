"""Trains a model of run times and says on jobs it has not seen whether it is better than like jobs' runs; and how far
predictions would have been off on a trace.
"""

import heapq
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ares.api.predictions import Accuracy, HeldOut
from ares.check.replay.trace import Trace, TraceJob
from ares.core.forecast.predictor import Predictor
from ares.core.forecast.trees import FEATURES, Forest, Tree, TreeModel
from ares.model.base import Record
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


# The earlier part is trained on, the later part judges.
_TRAINED = 0.7
_TREES = 100
_LEAVES = 31
_LEAST = 200


class CannotTrain(ValueError):
    """The message says what is missing and what to do."""


def train(trace: Trace, seed: int = 0, trees: int = _TREES) -> TreeModel:
    """The same trace and seed give the same model."""
    if len(trace.jobs) < _LEAST:
        raise CannotTrain(f"{trace.name} has {len(trace.jobs)} jobs; at least {_LEAST} are needed to learn from")
    samples = samples_of(trace)
    split = int(_TRAINED * len(trace.jobs))
    told = samples.features[:split]
    # A feature without any value splits nothing, but it must be a number.
    told = np.where(np.isnan(told).all(axis=0), 0.0, told)
    fitted = _regressor(seed, trees).fit(told, np.log(samples.runs[:split]))
    model = TreeModel(
        # Nothing public has the nodes of its trees.
        trees=tuple(_tree(stage[0].nodes) for stage in fitted._predictors),
        base=float(np.ravel(fitted._baseline_prediction)[0]),
        features=FEATURES,
        held_out=HeldOut(jobs=0, model_mae_s=0.0, model_distance=0.0, history_mae_s=0.0, history_distance=0.0),
        trained_on=split,
        source=trace.name,
    )
    return _judged(model, samples, split)


def _regressor(seed: int, trees: int) -> Any:
    try:
        ensemble: Any = import_module("sklearn.ensemble")
    except ImportError:
        fix = "install it with: pip install 'ares-platform[ml]'"
        raise CannotTrain(f"training needs scikit-learn, which is not installed; {fix}") from None
    return ensemble.HistGradientBoostingRegressor(
        loss="quantile", quantile=0.5, max_iter=trees, max_leaf_nodes=_LEAVES, learning_rate=0.1,
        min_samples_leaf=20, random_state=seed, early_stopping=False,
    )  # fmt: skip


def _tree(nodes: Any) -> Tree:
    leaf = nodes["is_leaf"].astype(bool)
    return Tree(
        feature=tuple(np.where(leaf, -1, nodes["feature_idx"]).tolist()),
        threshold=tuple(np.where(leaf, 0.0, nodes["num_threshold"]).tolist()),
        left=tuple(np.where(leaf, 0, nodes["left"]).tolist()),
        right=tuple(np.where(leaf, 0, nodes["right"]).tolist()),
        value=tuple(np.where(leaf, nodes["value"], 0.0).tolist()),
        unknown_left=tuple(np.where(leaf, 0, nodes["missing_go_to_left"]).tolist()),
    )


def _judged(model: TreeModel, samples: Samples, split: int) -> TreeModel:
    """Where history cannot say anything, the limit does for both."""
    forest = Forest(model)
    runs, limits = samples.runs[split:], samples.limits[split:]
    said = np.minimum([forest.seconds(row) for row in samples.features[split:].tolist()], limits)
    history = np.minimum(np.where(np.isnan(samples.history[split:]), said, samples.history[split:]), limits)
    held_out = HeldOut(
        jobs=len(runs),
        model_mae_s=_mae(said, runs),
        model_distance=_distance(said, runs),
        history_mae_s=_mae(history, runs),
        history_distance=_distance(history, runs),
    )
    return replace(model, held_out=held_out)


def _mae(said: Floats, runs: Floats) -> float:
    return float(np.abs(said - runs).mean())


def _distance(said: Floats, runs: Floats) -> float:
    return float(np.abs(np.log((said + 10.0) / (runs + 10.0))).mean())


# ---- how far predictions would have been off


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
