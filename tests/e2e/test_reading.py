"""Reading as a person does: lists, logs of many, waiting, and stopping a platform that has work."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.platform import Platform, environment, eventually, run_cli
from tests.ports import free_ports
from tests.terminal import Terminal

SPEAK = 'for n in 1 2 3; do echo "task ${ARES_ARRAY_INDEX:-$RANK} line $n"; done'


@contextmanager
def follow(platform: Platform, *arguments: str) -> Generator["subprocess.Popen[str]"]:
    """A command that goes on until the test ends it, or fails."""
    with subprocess.Popen(
        [sys.executable, "-m", "ares", *arguments], env=environment(platform.servers[0].home), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def test_an_arrays_output_with_prefixes(shared: Platform) -> None:
    submitted = shared.cli("submit", "--array", "0-3", "--wait", "--name", "spoken", "--", "sh", "-c", SPEAK)
    assert submitted.code == 0, submitted
    array = shared.cli("jobs", "--name", "spoken", "-o", "name").out.strip()
    lines = shared.cli("logs", array).out.splitlines()
    assert sorted(lines) == sorted(f"_{task} | task {task} line {n}" for task in range(4) for n in (1, 2, 3))
    assert sorted(shared.cli("logs", "-f", array).out.splitlines()) == sorted(lines)
    assert shared.cli("logs", array, "--grep", "line 2").out.splitlines() == [
        f"_{n} | task {n} line 2" for n in range(4)
    ]
    found = [
        json.loads(line) for line in shared.cli("logs", array, "--grep", "2 line 1", "-o", "json").out.splitlines()
    ]
    assert found == [{"job": f"{array}_2", "rank": 0, "stream": "stdout", "line": "task 2 line 1"}]
    two = shared.cli("logs", f"{array}_0", f"{array}_1", "--tail", "1").out.splitlines()
    assert two == [f"{array}_0 | task 0 line 3", f"{array}_1 | task 1 line 3"]
    assert shared.cli("logs", f"{array}_3", "--since", "1h").out.splitlines()[0] == "task 3 line 1"
    for pair in (("--since", "1h", "--tail", "1"), ("--stdout", "--stderr")):
        refused = shared.cli("logs", array, *pair)
        assert (refused.code, "exclude each other" in refused.err) == (2, True)


def test_stdout_and_stderr_are_told_apart(shared: Platform) -> None:
    """Each alone and both, by the command line and the client. Of writes at once it is not sure which comes first."""
    script = "for n in 1 2 3; do echo out $n; echo err $n >&2; done"
    job = shared.cli("submit", "--name", "apart", "-o", "name", "--wait", "--", "sh", "-c", script).out.split()[0]
    both = [f"{stream} {n}" for n in (1, 2, 3) for stream in ("out", "err")]
    assert sorted(shared.cli("logs", job).out.splitlines()) == sorted(both)
    for flag, name in (("--stdout", "out"), ("--stderr", "err")):
        assert shared.cli("logs", job, flag).out.splitlines() == [f"{name} {n}" for n in (1, 2, 3)]
        assert shared.cli("logs", "-f", job, flag, "--tail", "2").out.splitlines() == [f"{name} 2", f"{name} 3"]
        assert shared.cli("logs", job, flag, "--grep", "2").out.splitlines() == [f"{name} 2"]
        assert b"".join(shared.client().logs(job, stream=flag[2:])).decode().split("\n")[0] == f"{name} 1"
    lines = [json.loads(line) for line in shared.cli("logs", job, "-o", "json").out.splitlines()]
    assert sorted((line["stream"], line["line"]) for line in lines) == sorted((f"std{text[:3]}", text) for text in both)
    with Terminal(["logs", job], shared.servers[0].home) as terminal:
        assert "\x1b[31merr 1" in terminal.until("err 3")


def test_stderr_of_a_job_with_secrets_is_masked_and_told_apart(shared: Platform) -> None:
    client = shared.client()
    client.set_secret("apart", b"s3cret-value")
    script = "echo out $KEY; echo err $KEY >&2"
    job = shared.cli("submit", "--secret", "apart:KEY", "-o", "name", "--wait", "--", "sh", "-c", script).out.split()[0]
    assert sorted(shared.cli("logs", job).out.splitlines()) == ["err ***", "out ***"]
    assert shared.cli("logs", job, "--stderr").out == "err ***\n"
    assert shared.cli("logs", job, "--stdout").out == "out ***\n"


def test_all_ranks_of_a_gang(shared: Platform) -> None:
    done = shared.cli("submit", "--ranks", "2", "--cpus", "100m", "--wait", "--name", "gang", "--", "sh", "-c", SPEAK)
    assert done.code == 0, done
    job = shared.cli("jobs", "--name", "gang", "-o", "name").out.strip()
    lines = shared.cli("logs", job, "--rank", "all").out.splitlines()
    assert lines == [f"rank {rank} | task {rank} line {n}" for rank in (0, 1) for n in (1, 2, 3)]
    assert shared.cli("logs", job, "--rank", "1").out.splitlines()[0] == "task 1 line 1"


def _waits_for(platform: Platform, job: str) -> str:
    shown = json.loads(platform.cli("show", job, "-o", "json").out)
    return str(shown["waiting"]["message"])


def test_following_a_job_that_waits_says_for_what(shared: Platform) -> None:
    holder = shared.cli("submit", "--gpus", "4", "--", "sleep", "600").out.split()[1]
    waiting = shared.cli("submit", "--gpus", "1", "--", "echo", "my turn").out.split()[1]
    # Until the leader has looked at it, it waits for no more than that.
    eventually(lambda: "GPU" in _waits_for(shared, waiting) or None, "it is known what it waits for")
    with follow(shared, "logs", "-f", waiting) as following:
        assert following.stderr is not None
        said = following.stderr.readline()
        assert (waiting in said, "GPU" in said, "waits" in said) == (True, True, True), said
        shared.cli("cancel", holder)
        out, _ = following.communicate(timeout=60)
        assert (following.returncode, out) == (0, "my turn\n")


def test_a_watched_list_is_drawn_anew_when_a_job_changes(shared: Platform) -> None:
    with follow(shared, "jobs", "--watch", "--name", "watched", "-o", "name") as watching:
        assert watching.stdout is not None
        job = shared.cli("submit", "--name", "watched", "--", "true").out.split()[1]
        lines = iter(watching.stdout.readline, "")
        assert next(line for line in lines if line.strip() == job)
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=30)
        assert watching.returncode == 130


def test_lists_by_user_and_time(shared: Platform) -> None:
    job = shared.cli("submit", "--name", "mine", "--wait", "--", "true")
    assert job.code == 0
    mine = shared.cli("jobs", "--me", "--since", "10m", "--name", "mine", "-o", "name").out.split()
    assert len(mine) == 1
    assert shared.cli("jobs", "--until", "1h", "--name", "mine", "-o", "name").out == ""
    assert shared.cli("jobs", "--user", "stranger", "-o", "name").out == ""


# ---- the whole platform by one command


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    run_cli("down", "--yes", home=home)


def test_up_doctor_and_down_say_what_is_not_real_and_what_runs(home: Path) -> None:
    ports = free_ports(2)
    first = run_cli(
        "up", "--no-sample", "--port", str(ports[0]), "--set", f"agents.port={ports[1]}", home=home, timeout_s=90
    )
    assert first.code == 0, first
    assert "GPUs are mock" in first.err
    well = run_cli("doctor", "-o", "json", home=home)
    found = {one["check"]: one for one in json.loads(well.out)["findings"]}
    assert (well.code, found["server"]["status"], found["mock-gpus"]["status"]) == (0, "ok", "note"), well
    assert "4/4 mock" in run_cli("nodes", home=home).out
    assert "4 x mock NVIDIA" in run_cli("pools", home=home).out
    job = run_cli("submit", "--gpus", "1", "--name", "long", "--", "sleep", "600", home=home).out.split()[1]
    eventually(lambda: "RUNNING" in run_cli("jobs", home=home).out, "the job's start")
    assert "mock GPU 0" in run_cli("show", job, home=home).out
    stopped = run_cli("down", home=home, timeout_s=120)
    assert (stopped.code, stopped.out) == (0, "stopped\n"), stopped
    assert ("1 job runs" in stopped.err, job in stopped.err) == (True, True), stopped
    gone = run_cli("doctor", home=home)
    assert (gone.code, "no platform runs" in gone.out) == (1, True), gone


def test_down_asks_at_a_terminal_and_heeds_no(home: Path) -> None:
    import pty

    ports = free_ports(2)
    flags = ("--no-sample", "--port", str(ports[0]), "--set", f"agents.port={ports[1]}")
    assert run_cli("up", *flags, home=home, timeout_s=90).code == 0
    run_cli("submit", "--", "sleep", "600", home=home)
    eventually(lambda: "RUNNING" in run_cli("jobs", home=home).out, "the job's start")
    terminal, end = pty.openpty()
    asking = subprocess.Popen(
        [sys.executable, "-m", "ares", "down"], env=environment(home), stdin=end, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    os.write(terminal, b"n\n")
    out, _ = asking.communicate(timeout=60)
    os.close(terminal)
    os.close(end)
    assert (asking.returncode, "Stop Ares now?" in out, "nothing was stopped" in out) == (1, True, True), out
    assert run_cli("jobs", home=home).code == 0


def test_efficiency_of_a_job_and_of_an_array(shared: Platform) -> None:
    done = shared.cli("submit", "--name", "used", "--wait", "--array", "0-1", "--memory", "1G", "--", "true")
    assert done.code == 0, done
    array = shared.cli("jobs", "--name", "used", "-o", "name").out.strip()
    (found,) = json.loads(shared.cli("eff", array, "-o", "json").out)["jobs"]
    assert (found["tasks"], found["measured"], found["memory"]["askedMib"]) == (2, 2, 1024)
    said = shared.cli("eff", f"{array}_0")
    assert (said.code, "RESOURCE" in said.out, "memory" in said.out) == (0, True, True), said
    missing = shared.cli("eff", "0" * 16)
    assert (missing.code, "no such thing" in missing.err) == (1, True), missing


def test_merged_output_goes_on_after_the_server_was_killed(platform: Platform) -> None:
    """No line is lost, and none comes twice, though every stream was cut."""
    server = platform.server()
    platform.agent("node-a")
    lines = "n=0; while [ $n -lt 80 ]; do echo line $n; n=$((n+1)); sleep 0.1; done"
    array = platform.cli(
        "submit", "--array", "0-2", "--cpus", "100m", "-o", "name", "--", "sh", "-c", lines
    ).out.strip()
    with follow(platform, "logs", "-f", array) as following:
        assert following.stdout is not None
        first = [following.stdout.readline() for _ in range(10)]
        assert all(first), "it ended early"
        server.kill()
        platform.server()
        # Not by `communicate`, which leaves out what the file object had read ahead.
        shown = [line.rstrip("\n") for line in (*first, *following.stdout)]
        assert following.wait() == 0
    kept = platform.cli("logs", array).out.splitlines()
    assert sorted(shown) == sorted(kept), "what was followed is what was kept"
    assert sorted(shown) == sorted(f"_{task} | line {n}" for task in range(3) for n in range(80))
    for task in range(3):
        own = [line for line in shown if line.startswith(f"_{task} ")]
        assert own == [f"_{task} | line {n}" for n in range(80)], "in their order"
