"""A trace as other programs read it: OTLP's JSON, and the trace events of Chrome and Perfetto."""

from collections.abc import Mapping
from typing import Any

from ares.api.telemetry.traces import JobTrace, SpanStatus, TraceSpan

_SERVICE = "ares"
# OTLP's numbers.
_STATUS: dict[SpanStatus, int] = {"unset": 0, "ok": 1, "error": 2}
_INTERNAL = 1


def otlp(*traces: JobTrace) -> dict[str, Any]:
    """One `ExportTraceServiceRequest`. What still lasts ends when it was looked at, and says so: OTLP has only spans
    that ended. Sent again later, the same ids are the same spans."""
    return {"resourceSpans": [_of_resource(trace) for trace in traces]}


def _of_resource(trace: JobTrace) -> dict[str, Any]:
    resource = {"attributes": otlp_attributes({"service.name": _SERVICE, "ares.tenant": trace.tenant})}
    spans = [_otlp_span(trace, span) for span in trace.spans]
    return {"resource": resource, "scopeSpans": [{"scope": {"name": _SERVICE}, "spans": spans}]}


def _otlp_span(trace: JobTrace, span: TraceSpan) -> dict[str, Any]:
    facts: dict[str, str | int | float] = {"ares.job": trace.job}
    facts |= {"ares.attempt": span.attempt} if span.attempt else {}
    facts |= {"ares.rank": span.rank} if span.rank is not None else {}
    facts |= {} if span.ended_at is not None else {"ares.in_flight": "true"}
    # What a program says keeps its own names.
    facts |= {name if span.label else f"ares.{name}": fact for name, fact in span.attributes.items()}
    return {
        "traceId": trace.trace_id,
        "spanId": span.span_id,
        **({"parentSpanId": span.parent_id} if span.parent_id else {}),
        "name": span.label or span.name,
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(span.began_at),
        "endTimeUnixNano": _nanoseconds(max(span.began_at, trace.at) if span.ended_at is None else span.ended_at),
        "attributes": otlp_attributes(facts),
        "links": [
            {"traceId": link.trace_id, "spanId": link.span_id, "attributes": otlp_attributes({"ares.why": link.why})}
            for link in span.links
        ],
        "status": {"code": _STATUS[span.status], **({"message": span.message} if span.message else {})},
    }


def otlp_attributes(facts: Mapping[str, str | int | float]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(fact)} for key, fact in facts.items()]


def _value(fact: str | int | float) -> dict[str, str | float]:
    # Whole numbers are text in OTLP's JSON: 64 bits do not fit into a number of JavaScript.
    if isinstance(fact, int):
        return {"intValue": str(fact)}
    return {"doubleValue": fact} if isinstance(fact, float) else {"stringValue": fact}


def _nanoseconds(wall_s: float) -> str:
    # Through microseconds: a float has no more digits at this size.
    return str(round(wall_s * 1e6) * 1000)


def chrome(trace: JobTrace) -> dict[str, Any]:
    """For chrome://tracing and ui.perfetto.dev: the job's way on one line, each rank on its own."""
    lines = {span.rank + 1 if span.rank is not None else 0 for span in trace.spans}
    named = [_name(0, "process_name", f"{trace.name} {trace.job}")]
    named += [_name(line, "thread_name", "job" if line == 0 else f"rank {line - 1}") for line in sorted(lines)]
    return {"displayTimeUnit": "ms", "traceEvents": [*named, *(_event(trace, span) for span in trace.spans)]}


def _name(line: int, what: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": 1, "tid": line, "name": what, "args": {"name": name}}


def _event(trace: JobTrace, span: TraceSpan) -> dict[str, Any]:
    ended = max(span.began_at, trace.at) if span.ended_at is None else span.ended_at
    facts = {"status": span.status if span.ended_at is not None else "in flight", "attempt": span.attempt}
    return {
        "ph": "X",
        "pid": 1,
        "tid": span.rank + 1 if span.rank is not None else 0,
        "ts": round(span.began_at * 1e6),
        "dur": round((ended - span.began_at) * 1e6),
        "name": span.label or span.name,
        "cat": _SERVICE,
        "args": {**facts, **span.attributes, **({"message": span.message} if span.message else {})},
    }
