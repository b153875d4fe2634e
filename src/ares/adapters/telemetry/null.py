"""Telemetry that keeps nothing, for tests and tools."""

from collections.abc import Iterable, Mapping


class NullTelemetry:
    def count(self, name: str, by: float = 1, *labels: str) -> None:
        pass

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        pass

    def observe_all(self, name: str, seconds: Iterable[float], *labels: str, trace: str = "") -> None:
        pass

    def gauge(self, name: str, value: float) -> None:
        pass

    def gauges(self, name: str, values: Mapping[tuple[str, ...], float]) -> None:
        pass

    def new_trace(self, parent: str = "") -> str:
        return parent
