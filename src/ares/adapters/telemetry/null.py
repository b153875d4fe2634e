"""Telemetry that keeps nothing, for tests and tools."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

_NO_SPAN: AbstractContextManager[None] = nullcontext()


class NullTelemetry:
    def count(self, name: str, by: float = 1, label: str = "") -> None:
        pass

    def observe(self, name: str, seconds: float, label: str = "") -> None:
        pass

    def gauge(self, name: str, value: float, label: str = "") -> None:
        pass

    def span(
        self, name: str, trace: str, attributes: Mapping[str, str | int | float] = {}
    ) -> AbstractContextManager[None]:
        return _NO_SPAN

    def new_trace(self, parent: str = "") -> str:
        return parent
