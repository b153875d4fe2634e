"""Spans as programs send them: OTLP over HTTP, in protobuf or JSON. Only what belongs to one trace is read, and no more
than is asked for. Whatever is not well formed raises ValueError."""

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, cast

import msgspec

from ares.model.telemetry.program_span import ATTRIBUTES_MAX, NUMBER_MAX, TEXT_MAX, ProgramSpan

Fields = dict[int, list[bytes | int]]
_STATUS: Final[dict[int, Literal["unset", "ok", "error"]]] = {1: "ok", 2: "error"}
_VARINT_BYTES_MAX: Final = 10
_FIELDS_MAX: Final = 10_000
_NANO: Final = 1e-9
_INT_MAX: Final = 1 << 53


def spans_of(body: bytes, *, is_json: bool, trace_id: str, most: int) -> list[ProgramSpan]:
    """Spans of that trace, at most so many."""
    found: list[ProgramSpan] = []
    try:
        for told in _from_json(body) if is_json else _from_protobuf(body):
            if len(found) >= most:
                break
            if told["trace_id"] == trace_id and told["parent_id"]:
                found.append(_checked(told))
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"a span cannot be read: {error}") from error
    return found


def _checked(told: Mapping[str, Any]) -> ProgramSpan:
    ended_at = max(told["began_at"], told["ended_at"])
    # Converted, not constructed: this is where the bounds are checked.
    names = zip(ProgramSpan.__struct_encode_fields__, ProgramSpan.__struct_fields__, strict=True)
    return msgspec.convert(
        {shown: ended_at if name == "ended_at" else told[name] for shown, name in names}, ProgramSpan
    )


def _text(value: object) -> str:
    return str(value)[:TEXT_MAX]


# ---- JSON


def _from_json(body: bytes) -> Iterator[dict[str, Any]]:
    said = msgspec.json.decode(body, type=dict[str, Any])
    for resource in _dicts(said.get("resourceSpans")):
        for scope in _dicts(resource.get("scopeSpans")):
            for span in _dicts(scope.get("spans")):
                status = _dict(span.get("status"))
                yield {
                    "trace_id": str(span.get("traceId", "")).lower(),
                    "span_id": str(span.get("spanId", "")).lower(),
                    "parent_id": str(span.get("parentSpanId", "")).lower(),
                    "name": _text(span.get("name", "")),
                    "began_at": int(span.get("startTimeUnixNano", 0)) * _NANO,
                    "ended_at": int(span.get("endTimeUnixNano", 0)) * _NANO,
                    "status": _STATUS.get(int(status.get("code", 0)), "unset"),
                    "message": _text(status.get("message", "")),
                    "attributes": dict(_json_facts(span)),
                }


def _json_facts(span: Mapping[str, Any]) -> Iterator[tuple[str, str | int | float]]:
    for pair in _dicts(span.get("attributes"))[:ATTRIBUTES_MAX]:
        value = _dict(pair.get("value"))
        for kind, told in value.items():
            if kind == "intValue":
                yield _text(pair.get("key", "")), _whole(int(told))
            elif kind == "doubleValue":
                yield _text(pair.get("key", "")), _real(float(told))
            elif kind in ("stringValue", "boolValue"):
                yield _text(pair.get("key", "")), _text(told)


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [_dict(each) for each in cast("list[Any]", value)] if isinstance(value, list) else []


# ---- protobuf


def _from_protobuf(body: bytes) -> Iterator[dict[str, Any]]:
    for resource in _messages(_fields(body), 1):
        for scope in _messages(_fields(resource), 2):
            for raw in _messages(_fields(scope), 2):
                span = _fields(raw)
                status = _fields(_bytes(span, 15))
                yield {
                    "trace_id": _bytes(span, 1).hex(),
                    "span_id": _bytes(span, 2).hex(),
                    "parent_id": _bytes(span, 4).hex(),
                    "name": _text(_bytes(span, 5).decode()),
                    "began_at": _number(span, 7) * _NANO,
                    "ended_at": _number(span, 8) * _NANO,
                    "status": _STATUS.get(_number(status, 3), "unset"),
                    "message": _text(_bytes(status, 2).decode()),
                    "attributes": dict(_facts(span)),
                }


def _facts(span: Fields) -> Iterator[tuple[str, str | int | float]]:
    for raw in _messages(span, 9)[:ATTRIBUTES_MAX]:
        pair = _fields(raw)
        key, value = _text(_bytes(pair, 1).decode()), _fields(_bytes(pair, 2))
        if 1 in value:
            yield key, _text(_bytes(value, 1).decode())
        elif 2 in value:
            yield key, str(bool(_number(value, 2)))
        elif 3 in value:
            number = _number(value, 3)
            yield key, _whole(number - (1 << 64) if number >= 1 << 63 else number)
        elif 4 in value:
            yield key, _real(struct.unpack("<d", struct.pack("<Q", _number(value, 4)))[0])


def _whole(number: int) -> int | str:
    # Beyond that a number of JSON is not exact for every reader.
    return number if abs(number) <= _INT_MAX else str(number)


def _real(number: float) -> float | str:
    # Beyond that, and for what is no number, text.
    return number if abs(number) <= NUMBER_MAX else str(number)


def _messages(fields: Fields, number: int) -> list[bytes]:
    return [value for value in fields.get(number, ()) if isinstance(value, bytes)]


def _bytes(fields: Fields, number: int) -> bytes:
    found = _messages(fields, number)
    return found[-1] if found else b""


def _number(fields: Fields, number: int) -> int:
    found = [value for value in fields.get(number, ()) if isinstance(value, int)]
    return found[-1] if found else 0


def _fields(data: bytes) -> Fields:
    """By number, in their order. Fields of kinds that OTLP does not use are an error."""
    found: Fields = {}
    at = seen = 0
    while at < len(data):
        seen += 1
        if seen > _FIELDS_MAX:
            raise ValueError(f"a message has more than {_FIELDS_MAX:,} fields")
        tag, at = _varint(data, at)
        kind = tag & 7
        value: bytes | int
        if kind == 0:
            value, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = int.from_bytes(_part(data, at, size), "little"), at + size
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = _part(data, at, size), at + size
        else:
            raise ValueError(f"a field of kind {kind} is not of OTLP")
        found.setdefault(tag >> 3, []).append(value)
    return found


def _part(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("a message is cut off")
    return data[at : at + size]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        if at >= len(data):
            raise ValueError("a message is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
    raise ValueError("a number has too many bytes")
