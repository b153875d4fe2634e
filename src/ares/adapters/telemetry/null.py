"""Telemetry that keeps nothing, for tests and tools."""

from collections.abc import Mapping


class NullTelemetry:
    def count(self, name: str, by: float = 1, label: str = "") -> None:
        pass

    def observe(self, name: str, seconds: float, label: str = "") -> None:
        pass

    def gauge(self, name: str, value: float, label: str = "") -> None:
        pass

    @property
    def traced(self) -> bool:
        return False

    def span(
        self, name: str, trace: str, began: float, ended: float, attributes: Mapping[str, str | int | float]
    ) -> None:
        pass

    def new_trace(self, parent: str = "") -> str:
        return parent
