"""How tests are shared out among workers: long ones first, and none lost; and what happens when some fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.running import note_failed, spread
from tests.tidy.source import ROOT


def test_each_part_begins_with_its_share_of_the_long_ones() -> None:
    assert spread(list("abcdefghi"), [["d"], ["g", "h"], ["i"]], [], 3) == list("dabghcief")


def test_half_of_the_workers_begin_with_those_that_compute() -> None:
    assert spread(list("abcdefgh"), [["c", "d"], ["e"]], ["g", "h"], 2) == list("cdgahebf")


def test_a_single_worker_begins_with_all_of_them() -> None:
    assert spread(list("abcd"), [["c"]], ["d"], 1) == list("cdab")


@given(st.sets(st.integers()), st.data(), st.integers(1, 6))
def test_none_is_lost_or_doubled(items: set[int], data: st.DataObject, workers: int) -> None:
    long = data.draw(st.lists(st.sampled_from(sorted(items)), unique=True)) if items else []
    working, waiting = long[::2], long[1::2]
    groups = [waiting[at : at + 3] for at in range(0, len(waiting), 3)]
    assert sorted(spread(sorted(items), groups, working, workers)) == sorted(items)


FAILS_ONCE = """
from pathlib import Path
def test_fails_once():
    mark = Path(__file__).with_name("mark")
    seen = mark.exists()
    mark.touch()
    assert seen
def test_fails_always():
    assert False
"""


def second_look(folder: Path, status: int, names: list[str]) -> "subprocess.CompletedProcess[str]":
    """Of tests in a checkout of their own, which has the script and an interpreter."""
    (folder / "scripts").mkdir()
    (folder / "scripts" / "second-look").symlink_to(ROOT / "scripts" / "second-look")
    (folder / ".venv" / "bin").mkdir(parents=True)
    pytest_here = folder / ".venv" / "bin" / "pytest"
    pytest_here.write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest -c /dev/null --rootdir "$PWD" "$@"\n')
    pytest_here.chmod(0o755)
    (folder / "test_some.py").write_text(FAILS_ONCE)
    note_failed(folder / "failed", names)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ARES_"))}
    # The script finds its checkout by its own path, so that it is called by the one in the folder.
    return subprocess.run(
        [folder / "scripts" / "second-look", str(status), str(folder / "failed")],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "names", "code", "says"),
    [
        (1, ["test_some.py::test_fails_always"], 1, "second look: 1 of all tests failed"),
        (1, [f"test_some.py::test_{number}" for number in range(4)], 1, "more than 3: no second look"),
        (2, ["test_some.py::test_fails_once"], 2, ""),
        (1, [], 1, ""),
    ],
)
def test_what_fails_again_fails_the_run(tmp_path: Path, status: int, names: list[str], code: int, says: str) -> None:
    done = second_look(tmp_path, status, names)
    assert done.returncode == code, done.stdout + done.stderr
    assert says in done.stderr
    assert "UNSTEADY" not in done.stderr


def test_what_passes_alone_is_named_as_unsteady(tmp_path: Path) -> None:
    (tmp_path / "mark").touch()
    done = second_look(tmp_path, 1, ["test_some.py::test_fails_once"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "UNSTEADY" in done.stderr
    assert "  test_some.py::test_fails_once" in done.stderr
