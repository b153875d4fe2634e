"""How tests are shared out among workers: long ones first, and none lost; and what happens when some fail."""

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.platform import eventually
from tests.running import Group, Kind, Queue, note_failed
from tests.tidy.source import ROOT
from tests.warm import can_begin


def group(*tests: int, kind: Kind) -> Group:
    return Group([*tests], kind)


def test_long_ones_begin_first() -> None:
    queue = Queue([group(0, 1, kind="quick"), group(2, kind="computes"), group(3, kind="waits")], 2, processors=1)
    assert [queue.next_for(1) for _ in range(4)] == [[3], [2], [0, 1], []]


def test_as_many_workers_as_processors_begin_with_those_that_compute() -> None:
    groups = [group(n, kind="computes") for n in range(4)] + [group(n, kind="waits") for n in range(4, 8)]
    queue = Queue(groups, 8, processors=2)
    assert [queue.next_for(worker) for worker in range(4)] == [[0], [1], [4], [5]]


def test_half_of_few_workers_begin_with_those_that_wait() -> None:
    groups = [group(0, kind="computes"), group(1, kind="computes"), group(2, kind="waits")]
    queue = Queue(groups, 2, processors=16)
    assert [queue.next_for(worker) for worker in range(2)] == [[0], [2]]


@given(st.lists(st.sampled_from(get_args(Kind))), st.integers(1, 6), st.data())
def test_none_is_lost_or_doubled(kinds: list[Kind], workers: int, data: st.DataObject) -> None:
    queue = Queue([group(2 * n, 2 * n + 1, kind=kind) for n, kind in enumerate(kinds)], workers)
    given_out: list[int] = []
    while got := queue.next_for(data.draw(st.integers(0, workers - 1))):
        given_out += got
    assert sorted(given_out) == [*range(2 * len(kinds))]


TELLS_GROUPS = """
from tests.running import groups_of
def pytest_collection_finish(session):
    told = [f"{session.items[tests[0]].path.stem} {len(tests)}" for tests, _ in groups_of(session.items)]
    (session.path / "groups").write_text("\\n".join(told))
"""
SHARED_BY_PARAMETER = """
import pytest
@pytest.fixture(scope="module", params=["a", "b"])
def shared(request): return request.param
def test_one(shared): pass
@pytest.mark.parametrize("number", [1, 2])
def test_two(shared, number): pass
"""
IN_WORKERS = """
import os, signal, warnings
import pytest
MARK = {mark!r}
@pytest.fixture(scope="module")
def shared():
    yield os.getpid()
    with open(MARK, "a") as mark:
        mark.write("ended\\n")
def test_one(shared, tmp_path): assert shared == os.getpid() and tmp_path.is_dir()
def test_two(shared, tmp_path):
    print("said before it failed")
    assert not shared
def test_three(shared): assert shared == os.getpid()
def test_warns(): warnings.warn("look here")
"""
ENDS_ITS_WORKER = """
import os, signal
def test_before(): pass
def test_ends_its_worker(): os.kill(os.getpid(), signal.SIGKILL)
def test_after(): pass
"""

SLEEPS = """
import subprocess
def test(): subprocess.run(["sh", "-c", "echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600"])
"""
FAILS_THEN = """
import os, time
def test():
    while not os.path.exists({pid!r}): time.sleep(0.01)
    assert False
"""


def run_in_workers(folder: Path, *arguments: str, before: str = "", **files: str) -> "subprocess.CompletedProcess[str]":
    own = "from tests.workers import pytest_addoption, pytest_runtestloop\n"
    (folder / "conftest.py").write_text(own + before)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(folder), "-p", "no:xdist", "-q"]
    options = ["-p", "no:randomly", "-p", "no:cacheprovider", "--import-mode=importlib", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([*command, *options, "."], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_what_shares_goes_together_and_what_may_take_longest_comes_first(tmp_path: Path) -> None:
    done = run_in_workers(
        tmp_path, "--collect-only", before=TELLS_GROUPS, alone="def test(): pass\n", shared=SHARED_BY_PARAMETER,
        long="import pytest\n@pytest.mark.timeout(900)\ndef test(): pass\n",
        many="".join(f"def test_{number}(): pass\n" for number in range(50)),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = (tmp_path / "groups").read_text().split()
    assert found == [
        "test_long",
        "1",
        "test_many",
        "40",
        "test_many",
        "10",
        *("test_shared", "3") * 2,
        "test_alone",
        "1",
    ]


def test_workers_share_what_a_file_sets_up_and_tell_what_happened(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    done = run_in_workers(tmp_path, "-n", "3", first=IN_WORKERS.format(mark=str(mark)), second="def test(): pass\n")
    assert "1 failed, 4 passed, 1 warning" in done.stdout, done.stdout + done.stderr
    assert "said before it failed" in done.stdout
    assert "look here" in done.stdout
    assert done.returncode == 1
    # Set up once, and ended.
    assert mark.read_text() == "ended\n"


def test_a_worker_that_ends_fails_its_test_and_loses_no_other(tmp_path: Path) -> None:
    done = run_in_workers(tmp_path, "-n", "2", first=ENDS_ITS_WORKER, second="def test(): pass\n")
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "ended with -9 in test_first.py::test_ends_its_worker" in done.stdout
    assert done.returncode == 1


def test_a_run_that_stops_at_the_first_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    slow, fails = SLEEPS.format(pid=str(pid)), FAILS_THEN.format(pid=str(pid))
    done = run_in_workers(tmp_path, "-n", "2", "-x", first=slow, second=fails)
    assert "stopping after 1 failures" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
    # It was told to end; that it has ended may come after the end of the run.
    eventually(lambda: not Path("/proc", pid.read_text().strip()).exists(), "the end of what the test started")


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
        (1, [f"test_some.py::test_{number}" for number in range(13)], 1, "more than 12: no second look"),
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


@pytest.mark.parametrize(
    ("name", "value", "warm"),
    [("MAKEFLAGS", "", True), ("PYTEST_CURRENT_TEST", "another", True), ("ARES_X", "1", True), ("TZ", "UTC+3", False)],
)
def test_servers_begin_with_their_modules_imported(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, *, warm: bool
) -> None:
    """Also below `make`, which leaves empty variables of its own. What Python reads as it begins needs a new one."""
    without = {name: value for name, value in os.environ.items() if value}
    monkeypatch.setenv(name, value)
    assert can_begin([sys.executable, "-m", "ares", "server"], without) is warm
