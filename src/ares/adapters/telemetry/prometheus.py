"""The Telemetry port on prometheus-client and the OpenTelemetry API, and every metric Ares exports, declared once."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from opentelemetry.trace import Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from ares.ports.clock import Rng

# ---- every metric


Kind = Literal["counter", "histogram", "gauge"]

_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 8.0, 10.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """`label` is the name of its one label, empty for none: a job or tenant is never a label."""

    kind: Kind
    help: str
    label: str = ""
    buckets: tuple[float, ...] = _FAST


METRICS: dict[str, Metric] = {
    "ares_jobs_total": Metric("counter", "Jobs that entered a state.", "state"),
    "ares_submissions_total": Metric("counter", "Submissions by outcome.", "outcome"),
    "ares_attempts_total": Metric("counter", "Attempts that ended, by outcome.", "outcome"),
    "ares_lease_acquisitions_total": Metric("counter", "Grants of an attempt to a node."),
    "ares_lease_losses_total": Metric("counter", "Attempts taken away from a silent or restarted node."),
    "ares_stale_reports_total": Metric(
        "counter", "Reports of attempts that had been taken away: refused, by what they said.", "report"
    ),
    "ares_preemptions_total": Metric("counter", "Attempts taken away for others or to be moved, by rule.", "rule"),
    "ares_reservations_total": Metric("counter", "Changes of reservations, by the state they entered.", "state"),
    "ares_reserved_gpus": Metric("gauge", "GPUs booked by reservations, by their state.", "state"),
    "ares_deadlines_met_total": Metric("counter", "Jobs that met their deadline, by class of service.", "sla"),
    "ares_deadlines_missed_total": Metric("counter", "Jobs that missed their deadline, by class of service.", "sla"),
    "ares_quota_refusals_total": Metric("counter", "Jobs that did not fit into a quota, by code.", "code"),
    "ares_quota_drift_total": Metric("counter", "Recounts of a tenant's use that differed by more than a tenth."),
    "ares_alerts_total": Metric("counter", "Alerts raised, by kind.", "kind"),
    "ares_alert_deliveries_total": Metric("counter", "Notices sent to channels, by outcome.", "outcome"),
    "ares_decisions_dropped_total": Metric("counter", "Decisions that could not be kept on disk."),
    "ares_log_bytes_total": Metric("counter", "Bytes of job output kept."),
    "ares_log_unkept_total": Metric("counter", "Pieces of job output that could not be kept when they came."),
    "ares_log_lost_bytes_total": Metric("counter", "Bytes of job output that were given up: their logs say so."),
    "ares_output_bytes_total": Metric("counter", "Bytes of files that jobs handed over."),
    "ares_project_bytes_total": Metric("counter", "Bytes of files that clients shipped for their jobs."),
    "ares_staged_bytes_total": Metric("counter", "Bytes of shipped files that nodes fetched."),
    "ares_uploads_refused_total": Metric("counter", "Pieces of files of attempts that had been taken away: refused."),
    "ares_http_requests_total": Metric("counter", "HTTP answers by status.", "status"),
    "ares_auth_denials_total": Metric("counter", "Requests denied, by reason.", "reason"),
    "ares_audit_entries_total": Metric("counter", "Entries written to the audit chain."),
    "ares_audit_lost_total": Metric("counter", "Audit entries lost while the disk took none."),
    "ares_limited_total": Metric("counter", "Requests refused for being too many or too large, by reason.", "reason"),
    "ares_eta_total": Metric(
        "counter", "Jobs that had to wait, by whether they started when they were told.", "within"
    ),
    "ares_scheduling_latency_seconds": Metric("histogram", "From queued to bound.", buckets=_SLOW),
    "ares_cycle_seconds": Metric("histogram", "One scheduling cycle."),
    "ares_jobs_unreached": Metric("gauge", "Waiting jobs that the latest cycle had no time for."),
    "ares_plans_dropped_total": Metric("counter", "Parts of plans that did not hold when the leader verified them."),
    "ares_plan_parts_total": Metric("counter", "Parts of plans, by planner, where there are several.", "planner"),
    "ares_plan_conflicts_total": Metric(
        "counter", "Parts of plans, by planner, that collided with what other planners got.", "planner"
    ),
    "ares_planners_lost_total": Metric("counter", "Planning processes that died, or did not answer in time."),
    "ares_store_latency_seconds": Metric("histogram", "Calls to the store of record, by operation.", "op"),
    "ares_recovery_seconds": Metric("histogram", "From a node's last sign of life to the decision.", buckets=_SLOW),
    "ares_queue_depth": Metric("gauge", "Jobs waiting for a place."),
    "ares_pending_jobs": Metric("gauge", "Jobs waiting for a place, by the reason.", "reason"),
    "ares_pool_power_watts": Metric("gauge", "Power that a pool draws by the model.", "pool"),
    "ares_profile_version": Metric("gauge", "Version of the profile that scheduling goes by."),
    "ares_agents_connected": Metric("gauge", "Agents with an open stream to this replica."),
    "ares_streams_open": Metric("gauge", "Event and log streams open on this replica."),
    "ares_nodes": Metric("gauge", "Machines, by whether their agent renews and is reached.", "health"),
    "ares_lease_age_seconds": Metric("gauge", "Age of the oldest lease of a machine that is ready."),
    "ares_store_age_seconds": Metric("gauge", "Since this replica last heard of the store."),
    "ares_leader_age_seconds": Metric("gauge", "Since the leader was elected; 0 when nobody leads."),
    "ares_leader": Metric("gauge", "1 on the replica that leads scheduling."),
}


# ---- the port
# Each instance has its own registry, so many can live in one process. Without a tracer spans cost
# nothing; with one they join the trace named by the job's stored traceparent, also after a restart.


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
