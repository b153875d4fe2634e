"""What a trained model is told about a job: what it asks for, and what like jobs took."""

from collections.abc import Mapping
from math import log, log1p, nan

from ares.core.forecast.kinds import JobKind, keys_of
from ares.core.forecast.recent import RecentValues
from ares.model.job import JobSpec

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
