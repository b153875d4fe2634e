"""A collector that speaks OTLP over HTTP, in its JSON form: traces of jobs, and the metrics of this replica."""

import asyncio
import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import msgspec

from ares.adapters.telemetry.series import BucketCounts, Kind, Labels, Metric, Series, Snapshot
from ares.core.trace.forms import otlp_attributes
from ares.ports.telemetry import NotTaken

_TIMEOUT_S: Final = 10.0
_HEADERS_MAX: Final = 64
# The same request may be taken later.
_WORTH_REPEATING: Final = frozenset({408, 425, 429})
# No proxy from the environment for an address of this machine.
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# Counts since the process began.
_CUMULATIVE: Final = 2


class OtlpCollector:
    """Implements `ports.telemetry.Collector`. `facts` name this replica."""

    def __init__(self, endpoint: str, headers_file: str, facts: Mapping[str, str]) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._headers_file = headers_file
        self._resource = {"attributes": otlp_attributes({"service.name": "ares", **facts})}
        local = urlsplit(endpoint).hostname in _LOOPBACK
        options: dict[str, Any] = {"timeout": _TIMEOUT_S, "follow_redirects": False, "trust_env": not local}
        self._http = httpx2.AsyncClient(**options)

    async def take(self, spans: Mapping[str, Any]) -> None:
        await self._send("/v1/traces", await asyncio.to_thread(_packed, spans))

    async def take_metrics(self, metrics: Mapping[str, Metric], snapshot: Snapshot, began: float, now: float) -> None:
        """Raises NotTaken."""
        packed = await asyncio.to_thread(_packed_metrics, self._resource, metrics, snapshot, began, now)
        await self._send("/v1/metrics", packed)

    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, path: str, body: bytes) -> None:
        url = self._endpoint + path
        try:
            # Read anew each time: a token is changed without a restart.
            given = await asyncio.to_thread(_headers, self._headers_file)
            headers = {**given, "content-type": "application/json", "content-encoding": "gzip"}
            async with (
                asyncio.timeout(2 * _TIMEOUT_S),
                self._http.stream("POST", url, content=body, headers=headers) as got,
            ):
                status = got.status_code
        except (OSError, ValueError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise NotTaken(f"{url}: {str(error) or type(error).__name__}") from error
        if not 200 <= status < 300:
            raise NotTaken(f"{url} answered {status}", final=status < 500 and status not in _WORTH_REPEATING)


def _headers(file: str) -> dict[str, str]:
    if not file:
        return {}
    lines = [line for line in Path(file).read_text().splitlines() if line.strip()][:_HEADERS_MAX]
    pairs = [line.partition(":") for line in lines]
    if any(not name.strip() or not colon for name, colon, _ in pairs):
        raise ValueError(f"{file} has a line that is not of the form Name: value")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _packed(request: Mapping[str, Any]) -> bytes:
    return gzip.compress(msgspec.json.encode(request), compresslevel=3)


def _packed_metrics(
    resource: Mapping[str, Any], metrics: Mapping[str, Metric], snapshot: Snapshot, began: float, now: float
) -> bytes:
    return _packed(metrics_request(resource, metrics, snapshot, began, now))


def metrics_request(
    resource: Mapping[str, Any], metrics: Mapping[str, Metric], snapshot: Snapshot, began: float, now: float
) -> dict[str, Any]:
    """One `ExportMetricsServiceRequest`. Metrics keep their names; those without a series are left out."""
    times = {"startTimeUnixNano": str(round(began * 1e9)), "timeUnixNano": str(round(now * 1e9))}
    told: list[dict[str, Any]] = []
    for name, metric in metrics.items():
        points = [_point(metric, labels, series, times) for labels, series in snapshot.get(name, {}).items()]
        if points:
            told.append({"name": name, "description": metric.help, **_family(metric.kind, points)})
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": {"name": "ares"}, "metrics": told}]}]}


def _family(kind: Kind, points: list[dict[str, Any]]) -> dict[str, Any]:
    if kind == "gauge":
        return {"gauge": {"dataPoints": points}}
    if kind == "counter":
        return {"sum": {"dataPoints": points, "aggregationTemporality": _CUMULATIVE, "isMonotonic": True}}
    return {"histogram": {"dataPoints": points, "aggregationTemporality": _CUMULATIVE}}


def _point(metric: Metric, labels: Labels, series: Series, times: Mapping[str, str]) -> dict[str, Any]:
    named = {"attributes": otlp_attributes(dict(zip(metric.labels, labels, strict=True))), **times}
    if not isinstance(series, BucketCounts):
        return {**named, "asDouble": float(series.value)}
    return {
        **named,
        "count": str(sum(series.counts)),
        "sum": float(series.total),
        "explicitBounds": list(series.bounds),
        "bucketCounts": [str(count) for count in series.counts],
        "exemplars": [
            {"timeUnixNano": times["timeUnixNano"], "asDouble": float(each.value), "traceId": each.trace_id}
            for each in series.exemplars.values()
        ],
    }
