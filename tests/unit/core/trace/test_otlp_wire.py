"""Spans of programs, as a real exporter writes them: read within bounds, whatever comes instead."""

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from ares.core.trace.otlp_wire import spans_of
from ares.model.telemetry.program_span import ATTRIBUTES_MAX, TEXT_MAX, ProgramSpan

TRACE, OTHER = bytes(range(16)), bytes(range(1, 17))
RUN = bytes(range(8))
FAILED = Status(code=Status.STATUS_CODE_ERROR, message="out of memory")


def span(number: int = 1, trace: bytes = TRACE, parent: bytes = RUN, **more: object) -> Span:
    given: dict[str, object] = {"name": f"step {number}", "start_time_unix_nano": 2_500_000_000, **more}
    return Span(trace_id=trace, span_id=number.to_bytes(8, "big"), parent_span_id=parent, **given)  # type: ignore[arg-type]


def request(*spans: Span) -> bytes:
    scope = ScopeSpans(spans=spans)
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[scope])]).SerializeToString()


def as_json(body: bytes) -> bytes:
    """As the JavaScript exporter does: ids in hexadecimal."""
    said = MessageToDict(ExportTraceServiceRequest.FromString(body))
    (scope,) = said["resourceSpans"][0]["scopeSpans"]
    for told, plain in zip(
        scope["spans"], ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans, strict=True
    ):
        told |= {
            "traceId": plain.trace_id.hex(), "spanId": plain.span_id.hex(), "parentSpanId": plain.parent_span_id.hex(),
            "status": {"code": plain.status.code, "message": plain.status.message},
        }  # fmt: skip
    return msgspec.json.encode(said)


def read(body: bytes, *, is_json: bool = False, most: int = 10) -> list[ProgramSpan]:
    return spans_of(body, is_json=is_json, trace_id=TRACE.hex(), most=most)


@pytest.mark.parametrize("is_json", [False, True])
def test_a_span_is_read_as_it_was_recorded(is_json: bool) -> None:
    attributes = [
        KeyValue(key="loss", value=AnyValue(double_value=0.25)), KeyValue(key="step", value=AnyValue(int_value=-3)),
        KeyValue(key="name", value=AnyValue(string_value="a")), KeyValue(key="warm", value=AnyValue(bool_value=True)),
        KeyValue(key="huge", value=AnyValue(int_value=1 << 62)),
        KeyValue(key="bad", value=AnyValue(double_value=float("nan"))),
    ]  # fmt: skip
    body = request(
        span(end_time_unix_nano=4_000_000_000, attributes=attributes, status=FAILED),
    )  # fmt: skip
    (found,) = read(as_json(body) if is_json else body, is_json=is_json)
    assert (found.span_id, found.parent_id, found.name) == ("0000000000000001", RUN.hex(), "step 1")
    assert (found.began_at, found.ended_at) == (2.5, 4.0)
    assert (found.status, found.message) == ("error", "out of memory")
    assert found.attributes == {
        "loss": 0.25,
        "step": -3,
        "name": "a",
        "warm": "True",
        "huge": str(1 << 62),
        "bad": "nan",
    }


@pytest.mark.parametrize("is_json", [False, True])
def test_only_what_belongs_to_the_trace_and_hangs_below_it(is_json: bool) -> None:
    body = request(span(1, OTHER), span(2, parent=b""), span(3))
    assert [found.name for found in read(as_json(body) if is_json else body, is_json=is_json)] == ["step 3"]


def test_everything_is_bounded() -> None:
    many = [KeyValue(key=f"k{number}", value=AnyValue(string_value="x" * 9000)) for number in range(100)]
    found = read(request(*(span(number, name="n" * 9000, attributes=many) for number in range(1, 50))), most=7)
    assert len(found) == 7
    assert {len(each.name) for each in found} == {TEXT_MAX}
    assert {len(each.attributes) for each in found} == {ATTRIBUTES_MAX}
    assert {len(str(value)) for each in found for value in each.attributes.values()} == {TEXT_MAX}
    # It says that it ended before it began.
    assert {(each.began_at, each.ended_at) for each in found} == {(2.5, 2.5)}


@pytest.mark.parametrize(
    "body",
    [b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0b", b"\x0a\x7f",
     request(span(1, name="x"))[:-3], b"\x08\x01" * 20_000],
)  # fmt: skip
def test_what_is_no_message_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"cut off|too many bytes|not of OTLP|more than"):
        read(body)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null"])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read(body, is_json=True)


@pytest.mark.parametrize("body", [b"{}", b'{"resourceSpans": 3}', b'{"resourceSpans": [{"scopeSpans": [null]}]}'])
def test_json_without_spans_has_none(body: bytes) -> None:
    assert read(body, is_json=True) == []


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_spans_or_refused(body: bytes, is_json: bool) -> None:
    try:
        assert all(isinstance(found, ProgramSpan) for found in read(body, is_json=is_json))
    except ValueError:
        return


@given(st.data())
def test_damage_is_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(request(span(1, attributes=[KeyValue(key="k", value=AnyValue(int_value=7))]), span(2)))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert len(read(bytes(whole))) <= 2
    except ValueError:
        return
