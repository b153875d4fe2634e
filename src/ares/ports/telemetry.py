"""Counters and histograms, without a telemetry library in the services; and where traces go."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol


class Telemetry(Protocol):
    """Metric names and labels are declared once, in `adapters.telemetry.metrics`."""

    def count(self, name: str, by: float = 1, *labels: str) -> None: ...

    def observe(self, name: str, seconds: float, *labels: str) -> None: ...

    def observe_all(self, name: str, seconds: Iterable[float], *labels: str, trace: str = "") -> None:
        """Many at once; `trace` is the id of the trace of the longest."""
        ...

    def gauge(self, name: str, value: float) -> None: ...

    def gauges(self, name: str, values: Mapping[tuple[str, ...], float]) -> None:
        """All series of a gauge, by the values of its labels: a series that is not among them is gone."""
        ...

    def new_trace(self, parent: str = "") -> str:
        """A traceparent for a new job, continuing `parent` when the caller sent one."""
        ...


class MetricReading(NamedTuple):
    """One series as it is. Of a histogram, `value` is how many were observed, and `counts` how many fell up to each of
    the `bounds`, and beyond the last."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()


class ReadableTelemetry(Telemetry, Protocol):
    def readings(self, names: Iterable[str]) -> list[MetricReading]:
        """All series of these metrics."""
        ...

    def apart(self) -> "ReadableTelemetry":
        """Another of its kind, with nothing in it."""
        ...


class NotTaken(Exception):
    """The collector did not take it, or that is not known. With `final` there is no use in sending it again."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class Collector(Protocol):
    """A program beside Ares that keeps traces of many systems."""

    async def take(self, spans: Mapping[str, Any]) -> None:
        """One `ExportTraceServiceRequest` of OTLP, in its JSON form. Returns when the collector has it; raises
        NotTaken."""
        ...
