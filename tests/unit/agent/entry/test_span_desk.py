"""The way of a program's spans into the node: by a real exporter, by hostile requests, and within bounds."""

import asyncio
import gzip
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
from msgspec.structs import replace as changed
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ares.adapters.clocks import SystemRng
from ares.adapters.span_door import SpanDoor
from ares.agent.entry.span_desk import BODY_BYTES_MAX, SpanDesk
from ares.model.base import AttemptRef
from ares.model.job import JobSpec
from ares.model.link import Start
from ares.model.state import Fence, Placement
from ares.model.telemetry.program_span import PROGRAM_SPANS_MAX, ProgramSpans

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
START = Start(
    ref=AttemptRef(job="j", tenant="t", fence=Fence(1, 1)), attempt=2, trace=TRACEPARENT,
    spec=JobSpec(command=("true",)), placement=Placement(node="n", incarnation=1, rank=3, cpu_milli=100, memory_mib=64),
)  # fmt: skip


class Node:
    def __init__(self) -> None:
        self.desk = SpanDesk(SystemRng())
        self.sent: list[ProgramSpans] = []
        self.desk.send = self.sent.append

    @property
    def names(self) -> list[str]:
        return [span.name for told in self.sent for span in told.spans]


@asynccontextmanager
async def node() -> AsyncGenerator[Node]:
    made = Node()
    door = SpanDoor(made.desk.take, BODY_BYTES_MAX)
    made.desk.origin = await door.open()
    try:
        yield made
    finally:
        door.close()


def record(endpoint: str, traceparent: str, *names: str) -> None:
    """As a program does: with the SDK."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    here = TraceContextTextMapPropagator().extract({"traceparent": traceparent})
    for name in names:
        provider.get_tracer("test").start_span(name, here, attributes={"loss": 0.5}).end()
    provider.shutdown()


async def test_a_real_exporter_tells_its_spans() -> None:
    async with node() as here:
        endpoint = here.desk.variables(START)[ENDPOINT]
        await asyncio.to_thread(record, endpoint, TRACEPARENT, "load", "epoch")
        other = TRACEPARENT.replace("0af7", "0bf7")
        await asyncio.to_thread(record, endpoint, other, "of another trace")
    assert here.names == ["load", "epoch"]
    first = here.sent[0]
    assert (first.ref, first.rank, first.attempt) == (START.ref, 3, 2)
    assert (first.spans[0].parent_id, first.spans[0].attributes) == ("b7ad6b7169203331", {"loss": 0.5})


async def test_after_the_most_spans_no_more_are_taken() -> None:
    async with node() as here:
        endpoint = here.desk.variables(START)[ENDPOINT]
        span = {"traceId": TRACEPARENT[3:35], "spanId": "00f067aa0ba902b7", "parentSpanId": "b7ad6b7169203331"}
        told = {"resourceSpans": [{"scopeSpans": [{"spans": [{**span, "name": "x"}] * 600}]}]}
        async with httpx2.AsyncClient() as client:
            answers = [(await client.post(endpoint, json=told)).status_code for _ in range(3)]
    assert answers == [200, 200, 413]
    assert len(here.names) == PROGRAM_SPANS_MAX


async def test_hostile_requests_are_refused_and_others_go_on() -> None:
    async with node() as here:
        endpoint = here.desk.variables(START)[ENDPOINT]
        bomb = gzip.compress(bytes(BODY_BYTES_MAX * 20))
        broken = gzip.compress(b"a")[:10] + b"\xff" * 20
        packed = {"content-encoding": "gzip"}
        async with httpx2.AsyncClient() as client:
            said = [
                (await client.post(endpoint, content=b"\xff" * 50)).status_code,
                (await client.post(endpoint, content=bytes(BODY_BYTES_MAX + 1))).status_code,
                (await client.post(endpoint, content=bomb, headers=packed)).status_code,
                (await client.post(endpoint, content=b"no gzip", headers=packed)).status_code,
                (await client.post(endpoint, content=broken, headers=packed)).status_code,
                (await client.post(f"{here.desk.origin}/{'0' * 32}/v1/traces", content=b"")).status_code,
                (await client.get(endpoint)).status_code,
            ]
        host, port = here.desk.origin.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"x" * 100_000)
        await writer.drain()
        await asyncio.to_thread(record, endpoint, TRACEPARENT, "goes on")
        writer.close()
    assert said == [400, 413, 413, 413, 413, 404, 411]
    assert here.names == ["goes on"]


async def test_jobs_with_a_collector_of_their_own_are_left_alone() -> None:
    async with node() as here:
        for spec in (
            changed(START.spec, env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://mine:4318"}),
            changed(START.spec, network="none"),
        ):
            assert here.desk.variables(changed(START, spec=spec)) == {}
        assert here.desk.variables(changed(START, trace="")) == {}
    assert SpanDesk(SystemRng()).variables(START) == {}
