"""Metrics are declared once, bounded, and apart for each instance; other programs read them; spans join the trace."""

import re

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from ares.adapters.telemetry.exposition import render
from ares.adapters.telemetry.metrics import METRICS
from ares.adapters.telemetry.prometheus import PrometheusTelemetry, UndeclaredMetric
from ares.edge.rest.handlers.platform import accepts_open

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
    telemetry.count("ares_jobs_total", 1, "succeeded")
    telemetry.count("ares_jobs_total", 2, "succeeded")
    telemetry.gauge("ares_queue_depth", 7)
    telemetry.observe("ares_store_latency_seconds", 0.002, "txn")
    text = telemetry.render().decode()
    assert 'ares_jobs_total{state="succeeded"} 3.0' in text
    assert 'ares_jobs_total{state="failed"} 0.0' in text
    assert "ares_queue_depth 7.0" in text
    assert 'ares_store_latency_seconds_bucket{op="txn",le="0.0025"} 1.0' in text
    assert 'ares_store_latency_seconds_bucket{op="txn",le="0.001"} 0.0' in text


def test_a_bound_belongs_to_its_bucket() -> None:
    telemetry = PrometheusTelemetry(CountingRng())
    telemetry.observe_all("ares_cycle_seconds", [0.001, 0.0011, 11.0])
    text = telemetry.render().decode()
    for line in ('le="0.001"} 1.0', 'le="0.0025"} 2.0', 'le="10.0"} 2.0', 'le="+Inf"} 3.0'):
        assert f"ares_cycle_seconds_bucket{{{line}" in text
    assert "ares_cycle_seconds_sum 11.0021" in text


def _filled() -> PrometheusTelemetry:
    """Something in every metric, with labels that need escapes."""
    telemetry = PrometheusTelemetry(CountingRng())
    for name, metric in METRICS.items():
        labels = tuple('a "b"\\c\nd' for _ in metric.labels)
        if metric.kind == "counter":
            telemetry.count(name, 2, *labels)
        elif metric.kind == "gauge":
            telemetry.gauges(name, {labels: 1.5})
        else:
            telemetry.observe_all(name, [0.2, 3.0], *labels, trace="0af7651916cd43dd8448eb211c80319c")
    return telemetry


def test_other_programs_read_both_formats_alike() -> None:
    telemetry = _filled()
    plain = {family.name: family for family in text_families(telemetry.render().decode())}
    openly = {family.name: family for family in open_families(telemetry.render(is_open=True).decode())}
    assert set(openly) == {name.removesuffix("_total") for name in METRICS}
    assert set(plain) == set(openly)

    def samples(family: Metric) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in family.samples}

    for name, family in plain.items():
        assert samples(family) == samples(openly[name])
    told = [sample for sample in openly["ares_start_latency_seconds"].samples if sample.exemplar is not None]
    assert [(sample.labels["le"], sample.exemplar.value) for sample in told if sample.exemplar] == [("5.0", 3.0)]
    assert told[0].exemplar is not None
    assert told[0].exemplar.labels == {"trace_id": "0af7651916cd43dd8448eb211c80319c"}


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [("", False), ("*/*", False), ("text/plain;version=0.0.4", False),
     ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain", True),
     ("application/openmetrics-text; q=0, text/plain", False)],
)  # fmt: skip
def test_the_format_is_what_the_client_reads(accept: str, is_open: bool) -> None:
    assert accepts_open(accept) == is_open


def test_instances_share_nothing() -> None:
    one, two = PrometheusTelemetry(CountingRng()), PrometheusTelemetry(CountingRng())
    one.count("ares_log_bytes_total", 5)
    assert b"ares_log_bytes_total 0.0" in two.render()


def test_a_copy_stays_as_it_was() -> None:
    telemetry = PrometheusTelemetry(CountingRng())
    telemetry.observe("ares_cycle_seconds", 1.0)
    copy = telemetry.snapshot()
    before = render(METRICS, copy)
    telemetry.observe("ares_cycle_seconds", 1.0)
    telemetry.count("ares_log_bytes_total", 5)
    assert render(METRICS, copy) == before != telemetry.render()


def test_undeclared_use_is_an_error() -> None:
    telemetry = PrometheusTelemetry(CountingRng())
    with pytest.raises(UndeclaredMetric):
        telemetry.count("ares_nothing_total")
    with pytest.raises(UndeclaredMetric):
        telemetry.count("ares_queue_depth")
    with pytest.raises(UndeclaredMetric):
        telemetry.count("ares_jobs_total")
    with pytest.raises(UndeclaredMetric):
        telemetry.gauges("ares_queue_depth", {("unexpected",): 1})
    with pytest.raises(UndeclaredMetric):
        telemetry.observe("ares_http_request_duration_seconds", 1.0, "a", "b")


def test_series_are_bounded_by_the_product_of_labels() -> None:
    telemetry, metric = PrometheusTelemetry(CountingRng()), METRICS["ares_gpu_seconds_total"]
    for n in range(metric.series_max + 50):
        telemetry.count("ares_gpu_seconds_total", 1, f"pool-{n}", "idle")
    text = telemetry.render().decode()
    assert 'ares_gpu_seconds_total{pool="other",use="other"} 50.0' in text
    assert len(re.findall(r"^ares_gpu_seconds_total\{", text, re.M)) == metric.series_max + 1


def test_gauges_beyond_the_bound_add_up() -> None:
    telemetry, metric = PrometheusTelemetry(CountingRng()), METRICS["ares_jobs_running"]
    telemetry.gauges("ares_jobs_running", {(f"pool-{n:03}",): 2.0 for n in range(metric.series_max + 3)})
    text = telemetry.render().decode()
    assert 'ares_jobs_running{pool="other"} 6.0' in text
    assert 'ares_jobs_running{pool="pool-000"} 2.0' in text


def test_a_gauge_that_is_no_longer_told_is_gone() -> None:
    telemetry = PrometheusTelemetry(CountingRng())
    telemetry.gauges("ares_jobs_running", {("a",): 1.0, ("b",): 2.0})
    telemetry.gauge("ares_queue_depth", 7)
    telemetry.gauges("ares_jobs_running", {("b",): 3.0})
    telemetry.gauges("ares_queue_depth", {})
    text = telemetry.render().decode()
    assert 'pool="a"' not in text
    assert 'ares_jobs_running{pool="b"} 3.0' in text
    assert "\nares_queue_depth " not in text
    telemetry.gauge("ares_queue_depth", 2)
    assert "\nares_queue_depth 2.0" in telemetry.render().decode()


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
