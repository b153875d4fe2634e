"""Trains a model of run times and says on jobs it has not seen whether it is better than like jobs' runs."""

from importlib import import_module
from typing import Any

import numpy as np
from msgspec.structs import replace

from ares.api.predictions import HeldOut
from ares.check.replay.trace import Trace
from ares.core.forecast.features import FEATURES
from ares.core.forecast.trees import Forest, Tree, TreeModel
from ares.sim.learn.samples import Floats, Samples, samples_of

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
        trees=tuple(_tree(one[0].nodes) for one in fitted._predictors),
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
