"""Proto files and statuses: as the records and the problems of the API are, with numbers that never change."""

from pathlib import Path
from typing import Any

import pytest

from ares.edge.rest.direct import DirectRefusal
from ares.edge.rest.http.problems import KINDS
from ares.edge.rpc.messages import PARTS_MAX, BadMessage, fill, message_class, plain, read
from ares.edge.rpc.statuses import status_of
from scripts.proto import API, DESCRIPTORS, PROTO, Numbers, descriptors, written

JOB = {"spec": {"command": ["a", "b"], "env": {"A": "1"}, "resources": {"cpuMilli": 5}, "finally": True}}


def test_the_proto_file_is_what_the_records_make_of_it() -> None:
    text = (PROTO / API).read_text()
    assert written(text) == text, "a record has changed: run scripts/proto.py (make fmt does)"
    assert DESCRIPTORS.read_bytes() == descriptors(text), "run scripts/proto.py (make fmt does)"


def test_a_field_keeps_its_number_and_a_number_is_never_given_out_again() -> None:
    numbers = Numbers("message A {\n  string x = 1;\n  optional int64 y = 4;\n}\n")
    assert numbers.of("A", ["new", "y", "x"]) == ({"new": 5, "y": 4, "x": 1}, {})
    assert numbers.of("A", ["y"]) == ({"y": 4}, {"x": 1})
    later = Numbers('message A {\n  optional int64 y = 4;\n  reserved 9; reserved "x";\n}\n')
    assert later.of("A", ["y", "z"]) == ({"y": 4, "z": 10}, {"x": 9})
    assert later.of("A", ["y", "x"]) == ({"y": 4, "x": 9}, {})


def test_every_problem_has_a_status() -> None:
    for code, kind in KINDS.items():
        assert status_of(DirectRefusal(code, kind.status, kind.title)).value[0] > 0


def test_a_message_is_the_json_of_the_api() -> None:
    kind = message_class("ares.v1.SubmitJobRequest")
    message = kind()
    fill(message, {**JOB, "nobodyKnows": 1, "priority": 2, "tenantId": None})
    assert plain(read(kind, message.SerializeToString())) == {**JOB, "priority": 2}


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x7f", b"\xfa\x3f\x01x", b"\x0a\x04\xfa\x3f\x01x"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(BadMessage):
        read(message_class("ares.v1.SubmitJobRequest"), data)


def test_a_message_of_very_many_is_refused_before_they_are_looked_at() -> None:
    """A megabyte holds half a million empty ones: to walk through them would hold up all other requests."""
    kind = message_class("ares.v1.SubmitJobRequest")
    message: Any = kind()
    for _ in range(PARTS_MAX):
        message.spec.tolerations.add()
    with pytest.raises(BadMessage, match="4,096 messages") as caught:
        read(kind, message.SerializeToString())
    assert caught.value.path.startswith("$.spec.tolerations[")
    large: Any = kind()
    for _ in range(40_000):
        large.priority.list_value.values.add()
    with pytest.raises(BadMessage, match="65,536 bytes"):
        plain(read(kind, large.SerializeToString()))


def test_the_descriptors_are_part_of_the_package() -> None:
    assert DESCRIPTORS.is_relative_to(Path(__file__).parents[4] / "src" / "ares")
