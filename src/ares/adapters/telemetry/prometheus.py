"""The Telemetry port: series for Prometheus."""

import asyncio
from collections.abc import Iterable, Mapping

from ares.adapters.telemetry.exposition import render
from ares.adapters.telemetry.metrics import METRICS
from ares.adapters.telemetry.series import (
    BucketCounts,
    Exemplar,
    Kind,
    Labels,
    Metric,
    Scalar,
    Series,
    Snapshot,
    bounded,
    others,
)
from ares.core.trace.ids import new_traceparent
from ares.ports.clock import Rng
from ares.ports.telemetry import MetricReading


class UndeclaredMetric(Exception):
    """The name, kind or number of labels is not in `adapters.telemetry.metrics`: declare it there first."""


class PrometheusTelemetry:
    """Each instance has its own series, so many can live in one process."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._cells: dict[tuple[str, Labels], Scalar] = {}
        self._buckets: dict[tuple[str, Labels], BucketCounts] = {}
        self._series: dict[str, dict[Labels, Series]] = {name: {} for name in METRICS}
        for name, metric in METRICS.items():
            for labels in metric.begins if metric.labels else ((),) if metric.kind != "gauge" else ():
                self._bind(metric.kind, name, labels)

    # ---- counting

    def count(self, name: str, by: float = 1, *labels: str) -> None:
        (self._cells.get((name, labels)) or self._cell("counter", name, labels)).value += by

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        (self._buckets.get((name, labels)) or self._histogram(name, labels)).observe(seconds)

    def observe_all(self, name: str, seconds: Iterable[float], *labels: str, trace: str = "") -> None:
        series = self._buckets.get((name, labels)) or self._histogram(name, labels)
        most, at = -1.0, 0
        for value in seconds:
            bucket = series.observe(value)
            if value > most:
                most, at = value, bucket
        if trace and most >= 0.0:
            series.exemplars[at] = Exemplar(trace, most)

    def gauge(self, name: str, value: float) -> None:
        (self._cells.get((name, ())) or self._cell("gauge", name, ())).value = value

    def gauges(self, name: str, values: Mapping[Labels, float]) -> None:
        metric = METRICS.get(name)
        if metric is None or metric.kind != "gauge" or any(len(each) != len(metric.labels) for each in values):
            raise UndeclaredMetric(f"gauge {name!r} with these labels is not declared")
        for labels in self._series[name]:
            self._cells.pop((name, labels), None)
        self._series[name] = {labels: Scalar(value) for labels, value in bounded(metric, values).items()}

    def _cell(self, kind: Kind, name: str, labels: Labels) -> Scalar:
        series = self._bind(kind, name, labels)
        assert isinstance(series, Scalar)
        return series

    def _histogram(self, name: str, labels: Labels) -> BucketCounts:
        series = self._bind("histogram", name, labels)
        assert isinstance(series, BucketCounts)
        return series

    def _bind(self, kind: Kind, name: str, labels: Labels) -> Series:
        metric = METRICS.get(name)
        if metric is None or metric.kind != kind or len(labels) != len(metric.labels):
            raise UndeclaredMetric(f"{kind} {name!r} with the labels {labels!r} is not declared")
        family = self._series[name]
        if labels and labels not in family and len(family) >= metric.series_max:
            # A bug, or a client, must not use up the memory. Not kept under its own name either.
            return family.setdefault(others(metric), _empty(metric))
        series = family.setdefault(labels, _empty(metric))
        if isinstance(series, BucketCounts):
            self._buckets[name, labels] = series
        else:
            self._cells[name, labels] = series
        return series

    # ---- reading

    def snapshot(self) -> Snapshot:
        """A copy, to be rendered outside of the loop."""
        return {
            name: {labels: series.copy() for labels, series in family.items()} for name, family in self._series.items()
        }

    def apart(self) -> "PrometheusTelemetry":
        return PrometheusTelemetry(self._rng)

    def readings(self, names: Iterable[str]) -> list[MetricReading]:
        found: list[MetricReading] = []
        for name in names:
            for values, series in self._series[name].items():
                labels = tuple(zip(METRICS[name].labels, values, strict=True))
                if isinstance(series, Scalar):
                    found.append(MetricReading(name, labels, series.value))
                else:
                    counts = tuple(series.counts)
                    found.append(MetricReading(name, labels, sum(counts), series.bounds, counts))
        return found

    async def page(self, is_open: bool) -> bytes:
        """All metrics as text, written outside of the loop: thousands of lines must not hold up requests."""
        return await asyncio.to_thread(render, METRICS, self.snapshot(), is_open=is_open)

    def render(self, *, is_open: bool = False) -> bytes:
        """All metrics as text."""
        return render(METRICS, self._series, is_open=is_open)

    def new_trace(self, parent: str = "") -> str:
        return new_traceparent(self._rng.token(16), parent)


def _empty(metric: Metric) -> Series:
    return Scalar() if metric.kind != "histogram" else BucketCounts(metric.buckets, [0] * (len(metric.buckets) + 1))
