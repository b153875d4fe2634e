"""A trained model of run times: what it is told about a job, and boosted trees as plain arrays, walked here. Training
happens elsewhere."""

from collections.abc import Mapping, Sequence
from math import exp, log, log1p, nan
from typing import Annotated

from msgspec import Meta

from ares.api.predictions import HeldOut
from ares.core.forecast.kinds import JobKind, keys_of
from ares.core.forecast.spread import RecentValues
from ares.model.base import Note, Record
from ares.model.job import JobSpec

# A new meaning of the features makes older models useless.
FORMAT = 1
_Number = Annotated[float, Meta(ge=-1e12, le=1e12)]
_NODES = Annotated[tuple[Annotated[int, Meta(ge=-1, le=4096)], ...], Meta(min_length=1, max_length=4096)]
_NUMBERS = Annotated[tuple[_Number, ...], Meta(min_length=1, max_length=4096)]


class BadModel(ValueError):
    """The arrays are no trees; the message says where."""


class Tree(Record, frozen=True):
    """One entry per node; the first is the root. A leaf has the feature -1."""

    feature: _NODES
    # Values at or below it go left.
    threshold: _NUMBERS
    left: _NODES
    right: _NODES
    value: _NUMBERS
    # 1: an unknown value goes left.
    unknown_left: _NODES


class TreeModel(Record, frozen=True):
    """Says the logarithm of a run time: `base` and the leaves that `features` lead to, summed."""

    trees: Annotated[tuple[Tree, ...], Meta(min_length=1, max_length=200)]
    base: _Number
    features: Annotated[tuple[str, ...], Meta(max_length=64)]
    held_out: HeldOut
    format: Annotated[int, Meta(ge=1, le=1000)] = FORMAT
    trained_on: Annotated[int, Meta(ge=1, le=10**12)] = 1
    # Where the model comes from, in words.
    source: Note = ""


class Forest:
    """A model whose arrays were checked: every walk comes to an end."""

    __slots__ = ("_trees", "model")

    def __init__(self, model: TreeModel) -> None:
        _check(model)
        self.model = model
        self._trees = [
            (tree.feature, tree.threshold, tree.left, tree.right, tree.value, tree.unknown_left) for tree in model.trees
        ]

    def log_runtime(self, features: Sequence[float]) -> float:
        """One row at a time, where plain loops are faster than columns. NaN stands for what is not known."""
        said = self.model.base
        for feature, threshold, left, right, value, unknown_left in self._trees:
            at = 0
            while (which := feature[at]) >= 0:
                seen = features[which]
                goes_left = seen <= threshold[at] if seen == seen else unknown_left[at]
                at = left[at] if goes_left else right[at]
            said += value[at]
        return said

    def seconds(self, features: Sequence[float]) -> float:
        return exp(min(20.0, max(0.0, self.log_runtime(features))))


def _check(model: TreeModel) -> None:
    if model.format != FORMAT:
        raise BadModel(f"format {model.format}, this version reads format {FORMAT}; train it again")
    if model.features != FEATURES[: len(model.features)]:
        raise BadModel("it goes by other features than this version of Ares tells; train it again")
    for number, tree in enumerate(model.trees):
        columns = (tree.feature, tree.threshold, tree.left, tree.right, tree.value, tree.unknown_left)
        if len({len(column) for column in columns}) > 1:
            raise BadModel(f"tree {number}: its columns differ in length")
        for at, feature in enumerate(tree.feature):
            if feature >= len(model.features):
                raise BadModel(f"tree {number}, node {at}: feature {feature} of {len(model.features)}")
            for child in (tree.left[at], tree.right[at]) if feature >= 0 else ():
                # Children come later, so every walk ends.
                if not at < child < len(tree.feature):
                    raise BadModel(f"tree {number}, node {at}: child {child} must come after it and exist")


# Levels whose runs are features, by their place among all levels.
_TOLD = {
    "like": 0, "name_limit": 1, "name_shape": 2, "name": 3, "user": 6, "tenant_like": 7, "shape_limit": 10, "all": 11,
}  # fmt: skip
FEATURES = (
    "limit", "stated", "cpus", "memory", "gpus", *(f"{name}_median" for name in _TOLD),
    "like_latest", "like_high", "like_runs", "user_latest", "user_high", "user_runs",
)  # fmt: skip


def features_of(spec: JobSpec, kind: JobKind, histories: Mapping[str, RecentValues]) -> tuple[float, ...]:
    """NaN for what is not known. Times are logarithms of seconds."""
    ranks = 1 if spec.gang is None else spec.gang.ranks
    asks, keys = spec.resources, keys_of(kind)
    told = {name: histories.get(keys[at]) for name, at in _TOLD.items()}
    plain = (
        _log(spec.time_limit_s),
        _log(spec.expected_runtime_s),
        log1p(asks.cpu_milli * ranks),
        log1p(asks.memory_mib * ranks),
        log1p(asks.gpus * asks.gpu_milli * ranks),
    )
    medians = (nan if recent is None else _log(recent.quantile(0.5)) for recent in told.values())
    return (*plain, *medians, *_more(told["like"]), *_more(told["user"]))


def _more(recent: RecentValues | None) -> tuple[float, float, float]:
    if recent is None:
        return nan, nan, 0.0
    return _log(recent.values[0]), _log(recent.quantile(0.9)), float(len(recent))


def _log(seconds: float | None) -> float:
    return nan if seconds is None else log(max(1.0, seconds))
