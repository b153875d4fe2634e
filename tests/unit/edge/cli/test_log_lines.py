"""Lines of several sources: whole, named, searched."""

import json

import pytest

from ares.edge.cli.render.log_lines import LineWriter, LogSource

A, B = LogSource("a" * 16, 0, "a"), LogSource("b" * 16, 1, "long")


def written(capfdbinary: pytest.CaptureFixture[bytes]) -> list[bytes]:
    return capfdbinary.readouterr().out.splitlines()


def test_lines_are_whole_however_they_come(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    writer = LineWriter([A, B])
    for source, chunk in ((A, b"one\ntw"), (B, b"eins\n"), (A, b"o\nthree"), (B, b"zwei")):
        writer.feed(source, chunk, "stdout")
    for source in (A, B):
        writer.end(source)
    assert written(capfdbinary) == [b"a    | one", b"long | eins", b"a    | two", b"a    | three", b"long | zwei"]


def test_only_lines_with_the_text(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    writer = LineWriter([A], grep="loss")
    writer.feed(A, b"epoch 1\nloss 0.5\nlo", "stdout")
    writer.feed(A, b"ss 0.4\nend", "stdout")
    writer.end(A)
    assert written(capfdbinary) == [b"a | loss 0.5", b"a | loss 0.4"]


def test_objects_for_programs(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    writer = LineWriter([A, B], as_json=True)
    writer.feed(B, b"\xff\x1b[2J\n", "stderr")
    assert [json.loads(line) for line in written(capfdbinary)] == [
        {"job": "b" * 16, "rank": 1, "stream": "stderr", "line": "\ufffd\x1b[2J"}
    ]


def test_a_line_without_an_end_is_shown_in_parts(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    writer = LineWriter([A])
    writer.feed(A, b"x" * 70_000, "stdout")
    assert len(written(capfdbinary)) == 1


def test_each_stream_has_lines_of_its_own(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    writer = LineWriter([A])
    writer.feed(A, b"half a ", "stdout")
    writer.feed(A, b"warning\nand ", "stderr")
    writer.feed(A, b"line\n", "stdout")
    writer.end(A)
    assert written(capfdbinary) == [b"a | warning", b"a | half a line", b"a | and "]
