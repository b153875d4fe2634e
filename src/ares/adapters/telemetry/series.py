"""Series in memory: counters, histograms and gauges, without locks. They belong to one event loop; a thread renders a
copy."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "histogram", "gauge"]
# What series beyond the bound come to together: their sum, the largest, or their mean.
Rest = Literal["sum", "max", "mean"]
Labels = tuple[str, ...]

FAST: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SLOW: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 8.0, 10.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
# Of what there are many series of: fewer of each.
COARSE: Final = (0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0)
OTHER: Final = "other"
LABELS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Metric:
    """A family of series. A job, a tenant or a person is never a label. `series_max` bounds the product of its labels'
    values: what is beyond it counts as "other", in each label."""

    kind: Kind
    help: str
    labels: Labels = ()
    series_max: int = 16
    buckets: tuple[float, ...] = FAST
    rest: Rest = "sum"
    # Values that exist from the start with nothing counted: a rate over them is 0, not nothing.
    begins: tuple[Labels, ...] = ()

    @property
    def lines_max(self) -> int:
        """Lines of the exposition at most: what a server that scrapes calls series."""
        series = 1 if not self.labels else self.series_max + 1
        return series * (len(self.buckets) + 3 if self.kind == "histogram" else 1)


class Exemplar(NamedTuple):
    trace_id: str
    value: float


@dataclass(slots=True)
class Scalar:
    """One series of a counter or a gauge."""

    value: float = 0.0

    def copy(self) -> "Scalar":
        return Scalar(self.value)


@dataclass(slots=True)
class BucketCounts:
    """One series of a histogram. `counts` has one more than there are bounds: what is beyond the last."""

    bounds: tuple[float, ...]
    counts: list[int]
    total: float = 0.0
    # By the bucket it fell into, the newest.
    exemplars: dict[int, Exemplar] = field(default_factory=dict[int, Exemplar])

    def observe(self, value: float) -> int:
        at = bisect_left(self.bounds, value)
        self.counts[at] += 1
        self.total += value
        return at

    def copy(self) -> "BucketCounts":
        return BucketCounts(self.bounds, self.counts.copy(), self.total, self.exemplars.copy())


Series = Scalar | BucketCounts
# A copy of everything, by metric and labels.
Snapshot = Mapping[str, Mapping[Labels, Series]]


def others(metric: Metric) -> Labels:
    return (OTHER,) * len(metric.labels)


def bounded(metric: Metric, values: Mapping[Labels, float]) -> dict[Labels, float]:
    """At most as many as are declared, the first by name; the rest together as "other"."""
    if len(values) <= metric.series_max:
        return dict(values)
    names = sorted(values)
    kept = {labels: values[labels] for labels in names[: metric.series_max]}
    rest = [values[labels] for labels in names[metric.series_max :]]
    whole = max(rest) if metric.rest == "max" else sum(rest)
    return {**kept, others(metric): whole / len(rest) if metric.rest == "mean" else whole}
