"""`ares.job`: what a job's own code sees and says."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ares import job

FULL = {
    "ARES_JOB_ID": "0123456789abcdef_7", "ARES_ATTEMPT": "2", "ARES_FENCE": "1.3", "ARES_TENANT": "default",
    "ARES_NODE": "node-1", "ARES_WORKDIR": "/work", "RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "4",
    "ARES_ARRAY_ID": "0123456789abcdef", "ARES_ARRAY_INDEX": "7",
}  # fmt: skip
ALL = (
    "id",
    "attempt",
    "fence",
    "tenant",
    "node",
    "workdir",
    "rank",
    "local_rank",
    "world_size",
    "array_id",
    "array_index",
)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name, value in FULL.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ARES_RESULT_FILE", str(tmp_path / "result.json"))
    monkeypatch.setenv("ARES_PROGRESS_FILE", str(tmp_path / "progress.json"))
    return tmp_path


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*FULL, "ARES_RESULT_FILE", "ARES_PROGRESS_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("inside")
def test_who_am_i() -> None:
    assert job.in_job()
    assert [getattr(job, name) for name in ALL] == [
        "0123456789abcdef_7", 2, "1.3", "default", "node-1", "/work", 1, 0, 4, "0123456789abcdef", 7,
    ]  # fmt: skip


def test_a_job_without_an_array(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARES_ARRAY_ID")
    monkeypatch.delenv("ARES_ARRAY_INDEX")
    assert (job.array_id, job.array_index) == (None, None)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("name", ALL)
def test_outside_a_job_every_question_is_refused(name: str) -> None:
    assert not job.in_job()
    with pytest.raises(job.NotInJob, match="not started by Ares"):
        getattr(job, name)


@pytest.mark.usefixtures("outside")
def test_outside_a_job_nothing_is_written() -> None:
    with pytest.raises(job.NotInJob, match="ARES_PROGRESS_FILE"):
        job.progress(0.5)
    with pytest.raises(job.NotInJob, match="ARES_RESULT_FILE"):
        job.result(1)


def test_a_broken_environment_is_named(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_ATTEMPT", "two")
    with pytest.raises(job.NotInJob, match="ARES_ATTEMPT is 'two'"):
        _ = job.attempt


def test_unknown_names_are_plain_errors() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = job.nonsense


def test_progress_and_result_are_json_files(inside: Path) -> None:
    job.progress(0.4, "epoch 4")
    job.progress(1, "done")
    job.result({"loss": 0.1})
    job.result([1, "é", None])
    assert json.loads((inside / "progress.json").read_bytes()) == {"fraction": 1.0, "message": "done"}
    assert json.loads((inside / "result.json").read_bytes()) == [1, "é", None]
    assert sorted(path.name for path in inside.iterdir()) == ["progress.json", "result.json"]


def test_progress_of_unknown_extent(inside: Path) -> None:
    job.progress(None, "warming up")
    assert json.loads((inside / "progress.json").read_bytes()) == {"fraction": None, "message": "warming up"}


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), float("inf")])
def test_progress_has_bounds(inside: Path, fraction: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        job.progress(fraction)
    with pytest.raises(ValueError, match="1001 characters"):
        job.progress(0.5, "x" * 1001)
    assert list(inside.iterdir()) == []


def recursive() -> object:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [object(), float("nan"), {"x": {1, 2}}, recursive(), {(1, 2): 3}],
    ids=["object", "nan", "set", "recursive", "tuple-key"],
)
def test_results_are_json_values(inside: Path, value: object) -> None:
    with pytest.raises(ValueError, match="not a JSON value"):
        job.result(value)
    assert list(inside.iterdir()) == []


def test_results_have_a_size(inside: Path) -> None:
    fits = "x" * (job.RESULT_BYTES_MAX - 2)
    job.result(fits)
    with pytest.raises(ValueError, match="65537 bytes of JSON; at most 65536"):
        job.result(fits + "x")
    assert json.loads((inside / "result.json").read_bytes()) == fits


def test_a_failed_write_leaves_the_last_value(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job.result("old")

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        job.result("new")
    assert [path.name for path in inside.iterdir()] == ["result.json"]
    assert (inside / "result.json").read_text() == '"old"'


def test_readers_never_see_half_a_value(inside: Path) -> None:
    job.result("")

    def write(letter: str) -> None:
        for _ in range(200):
            job.result(letter * 50_000)

    writers = [threading.Thread(target=write, args=(letter,)) for letter in "ab"]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert len(set(json.loads((inside / "result.json").read_bytes()))) <= 1
    for writer in writers:
        writer.join()
    assert [path.name for path in inside.iterdir()] == ["result.json"]


WORLD = {
    "generation": 2, "rank": 1, "worldSize": 2, "masterAddr": "10.0.0.1", "masterPort": 29500,
    "peers": [{"rank": 0, "node": "a", "address": "10.0.0.1"}, {"rank": 2, "node": "b", "address": "10.0.0.2"}],
}  # fmt: skip


def test_the_world_is_what_the_file_says_now(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert job.world() == (0, 1, 4, "", 0, ()), "without a gang, by the variables"
    monkeypatch.setenv("ARES_WORLD_FILE", str(inside / "world.json"))
    (inside / "world.json").write_text(json.dumps(WORLD))
    seen = job.world()
    assert (seen.generation, seen.rank, seen.size) == (2, 1, 2)
    assert (seen.master_addr, seen.master_port) == ("10.0.0.1", 29500)
    assert [peer.id for peer in seen.peers] == [0, 2]


def test_a_resize_calls_back_with_the_new_world(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    monkeypatch.delenv("ARES_RESIZE_SIGNAL", raising=False)
    with pytest.raises(job.NotInJob, match=r"gang\.resizeSignal"):
        job.on_resize(print)
    monkeypatch.setenv("ARES_RESIZE_SIGNAL", "SIGUSR2")
    monkeypatch.setenv("ARES_WORLD_FILE", str(inside / "world.json"))
    (inside / "world.json").write_text(json.dumps(WORLD))
    seen: list[job.World] = []
    try:
        job.on_resize(seen.append)
        signal.raise_signal(signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert [world.size for world in seen] == [2]


@pytest.mark.usefixtures("outside")
def test_outside_a_job_there_is_no_world() -> None:
    with pytest.raises(job.NotInJob, match="not started by Ares"):
        job.world()


def test_needs_nothing_but_the_standard_library() -> None:
    """In a bare interpreter without site-packages."""
    source = Path(job.__file__).parents[1]
    code = f"import sys; sys.path.insert(0, {str(source)!r}); from ares import job; print(job.in_job())"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in {"True", "False"}


def test_inputs_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LookupError, match="--input data=ares://datasets/NAME"):
        job.input_dir("data")
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("ARES_INPUTS_DIR", str(tmp_path))
    assert job.input_dir("data") == str(tmp_path / "data")
    for wrong in ("other", "../data", "data/"):
        with pytest.raises(LookupError):
            job.input_dir(wrong)
