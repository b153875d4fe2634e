"""Metrics and traces for a collector of OTLP, read by the published schema."""

import pytest

from ares.adapters.clocks import SystemRng
from ares.adapters.telemetry.metrics import METRICS
from ares.adapters.telemetry.otlp import OtlpCollector
from ares.adapters.telemetry.prometheus import PrometheusTelemetry
from ares.api.telemetry.traces import JobTrace, SpanLink, TraceSpan
from ares.core.trace.forms import otlp
from ares.ports.telemetry import NotTaken
from tests.collector import collecting

TRACE = JobTrace(
    job="j", name="n", tenant="t", phase="SUCCEEDED", trace_id="0af7651916cd43dd8448eb211c80319c", at=9.0,
    spans=(
        TraceSpan(name="job", span_id="b7ad6b7169203331", parent_id="", began_at=1.0, ended_at=2.5, status="ok"),
        TraceSpan(
            name="run", span_id="00f067aa0ba902b7", parent_id="b7ad6b7169203331", began_at=2.0, attempt=1, rank=0,
            attributes={"code": 0, "node": "a", "share": 0.5},
            links=(SpanLink("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "why"),),
        ),
    ),
)  # fmt: skip


async def test_metrics_are_counters_gauges_and_histograms_under_their_names() -> None:
    telemetry = PrometheusTelemetry(SystemRng())
    telemetry.count("ares_jobs_total", 3, "succeeded")
    telemetry.gauge("ares_queue_depth", 7)
    telemetry.observe_all("ares_start_latency_seconds", [0.02, 0.6], trace=TRACE.trace_id)
    with collecting() as (collector, url):
        sender = OtlpCollector(url, "", {"service.instance.id": "a"})
        await sender.take_metrics(METRICS, telemetry.snapshot(), 10.0, 20.0)
        await sender.close()
    jobs = collector.metrics["ares_jobs_total"].sum
    assert jobs.is_monotonic
    assert jobs.aggregation_temporality == 2
    by_state = {point.attributes[0].value.string_value: point.as_double for point in jobs.data_points}
    assert by_state["succeeded"] == 3.0
    assert {point.start_time_unix_nano for point in jobs.data_points} == {10_000_000_000}
    assert [point.as_double for point in collector.metrics["ares_queue_depth"].gauge.data_points] == [7.0]
    (starts,) = collector.metrics["ares_start_latency_seconds"].histogram.data_points
    assert (starts.count, round(starts.sum, 6)) == (2, 0.62)
    assert len(starts.bucket_counts) == len(starts.explicit_bounds) + 1
    assert [exemplar.trace_id.hex() for exemplar in starts.exemplars] == [TRACE.trace_id]


async def test_spans_keep_their_ids_and_times() -> None:
    with collecting() as (collector, url):
        sender = OtlpCollector(f"{url}/", "", {})
        await sender.take(otlp(TRACE))
        await sender.close()
    job, run = collector.spans
    assert (job.trace_id.hex(), job.span_id.hex(), job.parent_span_id) == (TRACE.trace_id, "b7ad6b7169203331", b"")
    assert (job.start_time_unix_nano, job.end_time_unix_nano) == (1_000_000_000, 2_500_000_000)
    assert run.parent_span_id.hex() == "b7ad6b7169203331"
    # It still lasts: it is told as far as it was seen.
    assert run.end_time_unix_nano == 9_000_000_000
    assert {fact.key: fact.value.WhichOneof("value") for fact in run.attributes} == {
        "ares.job": "string_value", "ares.attempt": "int_value", "ares.rank": "int_value",
        "ares.in_flight": "string_value", "ares.code": "int_value", "ares.node": "string_value",
        "ares.share": "double_value",
    }  # fmt: skip
    assert run.links[0].span_id.hex() == "b7ad6b7169203331"


async def test_requests_carry_the_headers_of_the_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("otlp") / "headers"
    file.write_text("Authorization: Bearer abc\n\nX-Scope: ares\n")
    with collecting() as (collector, url):
        sender = OtlpCollector(url, str(file), {})
        await sender.take(otlp(TRACE))
        file.write_text("no header")
        with pytest.raises(NotTaken, match="not of the form Name: value"):
            await sender.take(otlp(TRACE))
        await sender.close()
    assert [(said["authorization"], said["x-scope"]) for said in collector.headers] == [("Bearer abc", "ares")]


@pytest.mark.parametrize(("status", "final"), [(503, False), (429, False), (400, True), (404, True)])
async def test_a_refusal_says_whether_it_is_final(status: int, final: bool) -> None:
    with collecting() as (collector, url):
        collector.answers = status
        sender = OtlpCollector(url, "", {})
        with pytest.raises(NotTaken, match=str(status)) as refused:
            await sender.take(otlp(TRACE))
        await sender.close()
    assert refused.value.final is final


async def test_a_collector_that_is_not_there_is_asked_again_later() -> None:
    with collecting() as (_, url):
        pass
    sender = OtlpCollector(url, "", {})
    with pytest.raises(NotTaken) as refused:
        await sender.take(otlp(TRACE))
    await sender.close()
    assert refused.value.final is False
