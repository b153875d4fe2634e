"""Counters, histograms and spans, without a library in the services' hands."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol


class Telemetry(Protocol):
    """Metric names and labels are declared once, in `adapters.telemetry`."""

    def count(self, name: str, by: float = 1, label: str = "") -> None: ...

    def observe(self, name: str, seconds: float, label: str = "") -> None: ...

    def gauge(self, name: str, value: float, label: str = "") -> None: ...

    def span(self, name: str, trace: str, attributes: Mapping[str, str | int | float] = ...) -> AbstractContextManager[None]:
        """A span on the job's trace; `trace` is a W3C traceparent kept in the job's record."""
        ...

    def new_trace(self, parent: str = "") -> str:
        """A traceparent for a new job, continuing `parent` when the caller sent one."""
        ...
