"""The Telemetry port on prometheus-client and the OpenTelemetry API.

Each instance has its own registry, so many can live in one process. Without a tracer spans cost
nothing; with one they join the trace named by the job's stored traceparent, also after a restart.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.trace import Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from ares.adapters.telemetry.metrics import METRICS, Kind, Metric
from ares.ports.clock import Rng

# ---- W3C trace context, version 00: the text kept in a job's record.


_FORMAT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def new_traceparent(rng: Rng, parent: str = "") -> str:
    """`parent` itself when it is valid, so that the job's spans become its children; else a new, sampled trace."""
    if _FORMAT.fullmatch(parent):
        return parent
    return f"00-{_nonzero(rng, 16)}-{_nonzero(rng, 8)}-01"


def _nonzero(rng: Rng, n_bytes: int) -> str:
    """All zeros means "invalid" in the format."""
    drawn = rng.token(n_bytes)
    return drawn.hex() if any(drawn) else "1".zfill(2 * n_bytes)


# Further values of a label are counted as "other": a bug must not use up the memory.
LABEL_VALUES_MAX = 100

_PROPAGATOR = TraceContextTextMapPropagator()


class UndeclaredMetric(Exception):
    """The name, kind or label is not in `adapters.telemetry.metrics`: declare it there first."""


class PrometheusTelemetry:
    def __init__(self, rng: Rng, tracer: Tracer | None = None) -> None:
        self._rng = rng
        self._tracer = tracer
        self._registry = CollectorRegistry(auto_describe=False)
        self._families = {name: _family(name, metric, self._registry) for name, metric in METRICS.items()}
        self._bound: dict[tuple[Kind, str, str], Callable[[float], None]] = {}
        self._values: dict[str, int] = dict.fromkeys(METRICS, 0)

    def count(self, name: str, by: float = 1, label: str = "") -> None:
        (self._bound.get(("counter", name, label)) or self._bind("counter", name, label))(by)

    def observe(self, name: str, seconds: float, label: str = "") -> None:
        (self._bound.get(("histogram", name, label)) or self._bind("histogram", name, label))(seconds)

    def gauge(self, name: str, value: float, label: str = "") -> None:
        (self._bound.get(("gauge", name, label)) or self._bind("gauge", name, label))(value)

    @property
    def traced(self) -> bool:
        return self._tracer is not None

    def span(
        self, name: str, trace: str, began: float, ended: float, attributes: Mapping[str, str | int | float]
    ) -> None:
        if self._tracer is None:
            return
        context = _PROPAGATOR.extract({"traceparent": trace})
        span = self._tracer.start_span(name, context, attributes=attributes, start_time=_nanoseconds(began))
        span.end(_nanoseconds(ended))

    def new_trace(self, parent: str = "") -> str:
        return new_traceparent(self._rng, parent)

    def render(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def _bind(self, kind: Kind, name: str, label: str) -> Callable[[float], None]:
        metric = METRICS.get(name)
        if metric is None or metric.kind != kind or bool(label) != bool(metric.label):
            raise UndeclaredMetric(f"{kind} {name!r} with label value {label!r} is not declared")
        family = self._families[name]
        if not metric.label:
            child = family
        elif self._values[name] >= LABEL_VALUES_MAX:
            # Not cached under its own name, so that the cache stays bounded too.
            return _SETTERS[kind](family.labels("other"))
        else:
            self._values[name] += 1
            child = family.labels(label)
        setter = self._bound[kind, name, label] = _SETTERS[kind](child)
        return setter


_SETTERS: dict[Kind, Callable[[Any], Callable[[float], None]]] = {
    "counter": lambda child: child.inc,
    "histogram": lambda child: child.observe,
    "gauge": lambda child: child.set,
}


def _family(name: str, metric: Metric, registry: CollectorRegistry) -> Any:
    labels = (metric.label,) if metric.label else ()
    if metric.kind == "histogram":
        return Histogram(name, metric.help, labels, registry=registry, buckets=metric.buckets)
    return (Counter if metric.kind == "counter" else Gauge)(name, metric.help, labels, registry=registry)


def _nanoseconds(wall_s: float) -> int:
    return int(wall_s * 1e9)
