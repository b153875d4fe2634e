"""The quick part of `make oracles`: what programs and people go by is as recorded, and an old store opens."""

from pathlib import Path

import pytest

from oracles.__main__ import ORACLES, main
from oracles.platform import STORE
from oracles.recording import RECORDED, NotComparable, Part, compare, record


@pytest.mark.parametrize("name", ["openapi", "help", "store"])
def test_what_is_recorded_is_so(name: str) -> None:
    found = compare(name, ORACLES[name](None))
    assert found.parts, f"nothing is recorded in recorded/{name}.txt"
    assert not found.differences, "\n".join(found.differences)


def test_every_oracle_is_recorded() -> None:
    assert {file.name for file in RECORDED.iterdir()} == {*(f"{name}.txt" for name in ORACLES), STORE.name}


def test_a_difference_is_told_in_words(tmp_path: Path) -> None:
    record("x", [Part("same", "a\n"), Part("other", "1\n2\n3\n"), Part("gone", "a\n")], tmp_path)
    found = compare("x", [Part("same", "a\n"), Part("other", "1\ntwo\n3\n"), Part("new", "")], tmp_path)
    assert found.parts == 4
    other, gone, new = found.differences
    assert other.split("\n") == [
        "other: 1 of 3 lines differ, the first is line 2:", "    recorded: 2", "    now:      two",
    ]  # fmt: skip
    assert gone == "gone: is recorded, and is not there any more"
    assert new == "new: is new"


def test_of_long_lines_the_part_that_differs_is_shown(tmp_path: Path) -> None:
    record("x", [Part("long", "a" * 500 + "b" + "c" * 500 + "\n")], tmp_path)
    (difference,) = compare("x", [Part("long", "a" * 500 + "B" + "c" * 500 + "\n")], tmp_path).differences
    assert "aaab" in difference
    assert "aaaB" in difference
    assert max(map(len, difference.split("\n"))) < 200


def test_without_its_trace_an_oracle_is_not_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("oracles.recording.DATA", tmp_path)
    monkeypatch.setattr("sys.argv", ["oracles", "--only", "replays"])
    assert main() == 1
    said = capsys.readouterr()
    assert "NOT COMPARED: the trace easy/KTH-SP2.csv.gz is not there; put it beside the project" in said.out
    assert "not as recorded: replays" in said.err


def test_without_its_record_nothing_is_equal(tmp_path: Path) -> None:
    with pytest.raises(NotComparable, match=r"recorded/x\.txt is missing"):
        compare("x", [], tmp_path)
