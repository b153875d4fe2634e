"""A collector of OTLP for tests: takes requests over HTTP, and reads them by the published schema."""

import base64
import gzip
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_IDS = ("traceId", "spanId", "parentSpanId")


def as_protobuf_reads(value: Any) -> Any:
    """OTLP writes ids in hexadecimal where JSON of protobuf has base64. Nothing else differs."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {
            key: base64.b64encode(bytes.fromhex(inner)).decode() if key in _IDS else as_protobuf_reads(inner)
            for key, inner in named.items()
        }
    return [as_protobuf_reads(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value


class TestCollector:
    """What came, in the order in which it did. `answers` is the status that requests get."""

    __test__ = False

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.metrics: dict[str, Metric] = {}
        self.headers: list[dict[str, str]] = []
        self.answers = 200

    def take(self, path: str, body: bytes) -> None:
        said = as_protobuf_reads(json.loads(body))
        if path.endswith("/v1/traces"):
            # An unknown field is an error.
            traces = ParseDict(said, ExportTraceServiceRequest())
            self.spans += [span for part in traces.resource_spans for scope in part.scope_spans for span in scope.spans]
        else:
            metrics = ParseDict(said, ExportMetricsServiceRequest())
            for part in metrics.resource_metrics:
                self.metrics |= {metric.name: metric for scope in part.scope_metrics for metric in scope.metrics}

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]


@contextmanager
def collecting(port: int = 0) -> Generator[tuple[TestCollector, str]]:
    """And its address."""
    collector = TestCollector()

    class Desk(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
            status = collector.answers
            collector.headers.append({name.lower(): value for name, value in self.headers.items()})
            if status == 200:
                collector.take(self.path, body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Desk)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
