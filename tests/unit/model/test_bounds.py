"""What a machine may send is bounded in every field, however deep: a field that is added without a bound fails here."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from ares.control.execution.enrolment import SessionRefused
from ares.edge.grpc.frames import read_frame
from ares.model.job_session import ClientFrame, SideMessage
from ares.model.link import AgentFrame, CertifyRequest, Hello, JoinRequest
from ares.model.node import NodeInfo, NodeRecord


def _unbounded(kind: Any, where: str, seen: frozenset[type]) -> Iterator[str]:
    match kind:
        case inspect.IntType():
            if kind.ge is None or kind.le is None or kind.le > 2**63 - 1:
                yield where
        case inspect.FloatType():
            if kind.ge is None or kind.le is None or not math.isfinite(kind.le):
                yield where
        case inspect.StrType() | inspect.BytesType():
            if kind.max_length is None:
                yield where
        case inspect.VarTupleType() | inspect.ListType():
            if kind.max_length is None:
                yield where
            yield from _unbounded(kind.item_type, f"{where}[]", seen)
        case inspect.TupleType():
            for place, item in enumerate(kind.item_types):
                yield from _unbounded(item, f"{where}[{place}]", seen)
        case inspect.DictType():
            if kind.max_length is None:
                yield where
            yield from _unbounded(kind.key_type, f"{where}{{key}}", seen)
            yield from _unbounded(kind.value_type, f"{where}{{}}", seen)
        case inspect.UnionType():
            for one in kind.types:
                yield from _unbounded(one, where, seen)
        case inspect.StructType():
            if kind.cls not in seen:
                for field in kind.fields:
                    name = f"{kind.cls.__name__}.{field.name}"
                    yield from _unbounded(field.type, name, seen | {kind.cls})
        case inspect.NoneType() | inspect.BoolType() | inspect.LiteralType():
            pass
        case _:
            yield f"{where}: {kind}"


@pytest.mark.parametrize("kind", [AgentFrame, JoinRequest, CertifyRequest, NodeInfo, SideMessage, ClientFrame])
def test_every_field_that_a_machine_sends_is_bounded(kind: type) -> None:
    assert list(_unbounded(inspect.type_info(kind), str(kind), frozenset())) == []


INFO: dict[str, Any] = {"name": "n1", "cpuMilli": 1000, "memoryMib": 1024}
REF: dict[str, Any] = {"job": "j", "tenant": "t", "fence": {"epoch": 1, "counter": 1}}
GPU: dict[str, Any] = {"index": 0, "uuid": "u", "model": "m", "memoryMib": 1}


@pytest.mark.parametrize(
    "message",
    [
        {"type": "hello", "info": {**INFO, "cpuMilli": 2**63}},
        {"type": "hello", "info": {**INFO, "cpuMilli": 2**63 - 1}},
        {"type": "hello", "info": {**INFO, "cpuMilli": -1}},
        {"type": "hello", "info": {**INFO, "memoryMib": 2**62}},
        {"type": "hello", "info": {**INFO, "networkGbps": math.nan}},
        {"type": "hello", "info": {**INFO, "networkGbps": math.inf}},
        {"type": "hello", "info": {**INFO, "name": "../n1"}},
        {"type": "hello", "info": {**INFO, "labels": {f"k{n}": "" for n in range(257)}}},
        {"type": "hello", "info": {**INFO, "labels": {"k": "v" * 257}}},
        {"type": "hello", "info": {**INFO, "gpus": [{**GPU, "index": n} for n in range(1025)]}},
        {"type": "hello", "info": {**INFO, "gpus": [{**GPU, "index": -1}]}},
        {"type": "hello", "info": {**INFO, "gpus": [{**GPU, "index": 2**63}]}},
        {"type": "hello", "info": {**INFO, "gpuLinks": [["X"]] * 129}},
        {"type": "hello", "info": {**INFO, "kernel": "\x1b[2J"}},
        {"type": "hello", "info": INFO, "boot": 2**63},
        {"type": "hello", "info": INFO, "alive": [REF] * 20_001},
        {"type": "renew", "nonce": -1},
        {"type": "started", "number": 1, "ref": REF, "rank": 0, "pid": 1, "at": math.nan},
        {"type": "started", "number": 1, "ref": REF, "rank": 0, "pid": 1, "at": math.inf},
        {"type": "started", "number": 1, "ref": REF, "rank": 2**40, "pid": 1, "at": 1.0},
        {"type": "exited", "number": 1, "ref": REF, "rank": 0, "exit": {"cpuS": math.nan}, "at": 1.0},
        {"type": "exited", "number": 1, "ref": REF, "rank": 0, "exit": {"message": "x" * 70_000}, "at": 1.0},
        {"type": "exited", "number": 1, "ref": REF, "rank": 0, "exit": {}, "at": 1.0, "value": b"x" * (4 << 20) + b"x"},
        {"type": "log", "ref": REF, "rank": 0, "attempt": 1, "offset": -1, "data": b""},
        {"type": "log", "ref": REF, "rank": 0, "attempt": 2**31, "offset": 0, "data": b""},
        {"type": "log", "ref": {**REF, "job": "j" * 300}, "rank": 0, "attempt": 1, "offset": 0, "data": b""},
        {"type": "progress", "ref": REF, "rank": 0, "fraction": math.nan},
        {"type": "progress", "ref": REF, "rank": 0, "fraction": 2.0},
        {"type": "nothing"},
    ],
    ids=lambda message: f"{message['type']}",
)
def test_what_is_out_of_bounds_is_refused_where_it_is_read(message: dict[str, Any]) -> None:
    with pytest.raises(SessionRefused) as refused:
        read_frame(msgspec.msgpack.encode({"messages": [message]}))
    assert refused.value.reason == "malformed"
    assert len(str(refused.value)) < 500


def test_a_frame_of_millions_of_messages_is_refused_before_they_are_made() -> None:
    with pytest.raises(SessionRefused):
        read_frame(msgspec.msgpack.encode({"messages": [{"type": "leave"}] * 100_000}))


def test_what_an_honest_agent_says_is_within_the_bounds() -> None:
    links = [["NV18"] * 16] * 16
    info = {**INFO, "gpus": [{**GPU, "index": n} for n in range(16)], "gpuLinks": links, "labels": {"zone.io/a": "b c"}}
    frame = read_frame(msgspec.msgpack.encode({"messages": [{"type": "hello", "info": info}]}))
    assert isinstance(frame.messages[0], Hello)


def test_a_record_of_the_version_before_is_still_read() -> None:
    stored = (
        b'{"info":{"name":"n1","cpuMilli":4000,"memoryMib":4096,"labels":{"a":"b"}},"incarnation":1,"registeredAt":1.0}'
    )
    assert msgspec.json.decode(stored, type=NodeRecord).info.labels == {"a": "b"}
