"""Metrics are declared once, bounded, and apart for each instance; spans join the job's trace."""

import re

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ares.adapters.telemetry.prometheus import LABEL_VALUES_MAX, PrometheusTelemetry, UndeclaredMetric

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


class CountingRng:
    def __init__(self) -> None:
        self.drawn = 0

    def uniform(self) -> float:
        return 0.5

    def token(self, n_bytes: int) -> bytes:
        self.drawn += 1
        return self.drawn.to_bytes(n_bytes, "big")


class ZeroRng(CountingRng):
    def token(self, n_bytes: int) -> bytes:
        return bytes(n_bytes)


def test_renders_what_was_counted() -> None:
    telemetry = PrometheusTelemetry(CountingRng())
    telemetry.count("ares_jobs_total", label="SUCCEEDED")
    telemetry.count("ares_jobs_total", 2, "SUCCEEDED")
    telemetry.gauge("ares_queue_depth", 7)
    telemetry.observe("ares_store_latency_seconds", 0.002, "txn")
    text = telemetry.render().decode()
    assert 'ares_jobs_total{state="SUCCEEDED"} 3.0' in text
    assert "ares_queue_depth 7.0" in text
    assert 'ares_store_latency_seconds_bucket{le="0.0025",op="txn"} 1.0' in text
    assert 'ares_store_latency_seconds_bucket{le="0.001",op="txn"} 0.0' in text


def test_instances_share_nothing() -> None:
    one, two = PrometheusTelemetry(CountingRng()), PrometheusTelemetry(CountingRng())
    one.count("ares_log_bytes_total", 5)
    assert b"ares_log_bytes_total 0.0" in two.render()


def test_undeclared_use_is_an_error() -> None:
    telemetry = PrometheusTelemetry(CountingRng())
    with pytest.raises(UndeclaredMetric):
        telemetry.count("ares_nothing_total")
    with pytest.raises(UndeclaredMetric):
        telemetry.count("ares_queue_depth")
    with pytest.raises(UndeclaredMetric):
        telemetry.count("ares_jobs_total")
    with pytest.raises(UndeclaredMetric):
        telemetry.gauge("ares_queue_depth", 1, "unexpected")


def test_label_values_are_bounded() -> None:
    telemetry = PrometheusTelemetry(CountingRng())
    for n in range(LABEL_VALUES_MAX + 50):
        telemetry.count("ares_jobs_total", label=f"s{n}")
    text = telemetry.render().decode()
    assert 'ares_jobs_total{state="other"} 50.0' in text
    assert len(re.findall(r"^ares_jobs_total\{", text, re.M)) == LABEL_VALUES_MAX + 1


def test_trace_is_new_or_continues_the_callers() -> None:
    telemetry = PrometheusTelemetry(CountingRng())
    fresh = telemetry.new_trace()
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", fresh)
    assert telemetry.new_trace() != fresh
    assert telemetry.new_trace(PARENT) == PARENT


@pytest.mark.parametrize(
    "bad",
    ["x", PARENT + "\n", PARENT.upper(), "00-" + "0" * 32 + "-b7ad6b7169203331-01", "ff" + PARENT[2:],
     "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"],
)  # fmt: skip
def test_a_bad_parent_starts_a_new_trace(bad: str) -> None:
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", PrometheusTelemetry(CountingRng()).new_trace(bad))


def test_zeros_are_no_trace() -> None:
    assert "0" * 32 not in PrometheusTelemetry(ZeroRng()).new_trace()


def test_a_span_continues_the_stored_trace() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = PrometheusTelemetry(CountingRng(), provider.get_tracer("test"))
    trace = telemetry.new_trace()
    telemetry.span("job.queue", trace, 10.0, 12.5, {"job": "x"})
    telemetry.span("job.run", trace, 12.5, 13.0, {})
    queued, ran = exporter.get_finished_spans()
    for span in (queued, ran):
        assert span.parent is not None
        assert f"{span.parent.trace_id:032x}" == trace.split("-")[1]
        assert f"{span.parent.span_id:016x}" == trace.split("-")[2]
    assert dict(queued.attributes or {}) == {"job": "x"}
    assert (queued.start_time, queued.end_time) == (10_000_000_000, 12_500_000_000)


def test_without_a_tracer_spans_change_nothing() -> None:
    telemetry = PrometheusTelemetry(CountingRng())
    before = telemetry.render()
    telemetry.span("x", "", 1.0, 2.0, {})
    assert not telemetry.traced
    assert telemetry.render() == before
