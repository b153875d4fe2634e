"""Metrics as text: Prometheus' own format, and OpenMetrics, which has exemplars."""

from collections.abc import Iterator, Mapping

from ares.adapters.telemetry.series import BucketCounts, Exemplar, Labels, Metric, Series, Snapshot

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def render(metrics: Mapping[str, Metric], snapshot: Snapshot, *, is_open: bool = False) -> bytes:
    """The whole page. Without the loop: a thread may do it."""
    lines: list[str] = []
    for name, metric in metrics.items():
        family = name.removesuffix("_total") if is_open and metric.kind == "counter" else name
        lines += (f"# HELP {family} {_escaped_help(metric.help)}", f"# TYPE {family} {metric.kind}")
        for labels, series in snapshot.get(name, {}).items():
            lines += _lines(name, metric, labels, series, is_open=is_open)
    if is_open:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode()


def _lines(name: str, metric: Metric, labels: Labels, series: Series, *, is_open: bool) -> Iterator[str]:
    named = ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in zip(metric.labels, labels, strict=True))
    if not isinstance(series, BucketCounts):
        yield f"{name}{{{named}}} {float(series.value)!r}" if named else f"{name} {float(series.value)!r}"
        return
    before, so_far = f"{named}," if named else "", 0
    for at, bound in enumerate((*series.bounds, float("inf"))):
        so_far += series.counts[at]
        le = "+Inf" if bound == float("inf") else repr(float(bound))
        told = _exemplar(series.exemplars.get(at)) if is_open else ""
        yield f'{name}_bucket{{{before}le="{le}"}} {float(so_far)!r}{told}'
    tail = f"{{{named}}}" if named else ""
    yield f"{name}_count{tail} {float(so_far)!r}"
    yield f"{name}_sum{tail} {float(series.total)!r}"


def _exemplar(exemplar: Exemplar | None) -> str:
    return "" if exemplar is None else f' # {{trace_id="{exemplar.trace_id}"}} {float(exemplar.value)!r}'


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
