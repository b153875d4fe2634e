"""The command line as a person uses it, against a platform that runs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform import Platform, Run, eventually, run_cli
from tests.ports import free_ports

SAMPLE_YAML = """\
name: from-file
command: [sh, -c, 'echo "$GREETING $ARES_ARRAY_INDEX"']
cpus: 100m
memory: 64M
env: {GREETING: hello}
retries: 0
"""


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 128 + 9), ("exec /nonexistent/tool", 127)],
)
def test_submit_wait_exits_as_the_job_did(shared: Platform, script: str, code: int) -> None:
    ran = shared.cli("submit", "--wait", "--retries", "0", "--cpus", "100m", "--", "sh", "-c", script)
    assert ran.code == code, ran


def test_command_that_does_not_exist_never_starts(shared: Platform) -> None:
    path = shared.directory / "job.yaml"
    path.write_text("command: [/nonexistent/tool]\nretry: {classLimits: {staging: 0}}\n")
    ran = shared.cli("submit", "--wait", "-f", str(path))
    assert ran.code == 125, ran
    assert "/nonexistent/tool" in ran.err


def test_job_file_follow_and_json(shared: Platform) -> None:
    path = shared.directory / "job.yaml"
    path.write_text(SAMPLE_YAML)
    ran = shared.cli("submit", "-f", str(path), "--follow")
    assert (ran.code, ran.out) == (0, "hello \n"), ran
    submitted = shared.cli("submit", "-f", str(path), "--array", "0-2", "--output", "json").json()
    assert isinstance(submitted, dict)
    assert submitted["tasks"] == 3
    assert shared.cli("wait", submitted["id"]).code == 0
    assert shared.cli("logs", f"{submitted['id']}_2").out == "hello 2\n"
    shown = shared.cli("show", submitted["id"], "--output", "json").json()
    assert isinstance(shown, dict)
    assert shown["arrayCounts"]["SUCCEEDED"] == 3
    home = shared.servers[0].home
    # An array is one line unless its tasks are asked for.
    assert [job["id"] for job in jobs(home) if job["id"].startswith(submitted["id"])] == [submitted["id"]]
    tasks = {job["id"] for job in jobs(home, "--array", submitted["id"])}
    assert tasks == {f"{submitted['id']}_{n}" for n in range(3)}


def test_cancel_and_events(shared: Platform) -> None:
    job = shared.cli("submit", "--output", "name", "--cpus", "100m", "--", "sleep", "600").out.strip()
    eventually(lambda: shared.client().get(job).state.phase == "RUNNING", "the start of the job")
    assert shared.cli("cancel", job).code == 0
    assert shared.cli("wait", job).code == 121
    assert shared.cli("cancel", job).code == 0
    assert "cancelled" in shared.cli("show", job).out


def test_wait_gives_up_in_time(shared: Platform) -> None:
    job = shared.cli("submit", "--output", "name", "--cpus", "100m", "--", "sleep", "600").out.strip()
    assert shared.cli("wait", job, "--timeout", "200ms").code == 123
    assert shared.cli("cancel", job).code == 0


def test_same_request_id_from_the_shell(shared: Platform) -> None:
    command = ("submit", "--request-id", "from-the-shell", "--output", "json", "--", "true")
    first, second = shared.cli(*command).json(), shared.cli(*command).json()
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert (second["id"], second["replayed"]) == (first["id"], True)
    other = shared.cli("submit", "--request-id", "from-the-shell", "--", "false")
    assert other.code == 1
    assert "different payload" in other.err


def test_without_a_server_the_error_says_what_to_do(tmp_path: Path) -> None:
    ran = run_cli("jobs", home=tmp_path)
    assert ran.code == 1
    assert "ares up" in ran.err


# ---- the whole platform by one command


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    run_cli("down", home=home)


def up(home: Path, ports: list[int]) -> Run:
    (home.parent / "given.toml").write_text(f"[agents]\nport = {ports[1]}\n[node]\nlabels = {{ from = 'a-file' }}\n")
    given = ("--config", str(home.parent / "given.toml"), "--set", "node.zone=by-flag")
    ran = run_cli("up", "--port", str(ports[0]), *given, home=home, timeout_s=90)
    assert ran.code == 0, ran
    return ran


def test_up_runs_a_sample_job_and_keeps_its_state(home: Path) -> None:
    ports = free_ports(2)
    first = up(home, ports)
    assert "its result: {'answer': 42}" in first.out
    assert (home / "client.json").stat().st_mode & 0o777 == 0o600
    (node,) = json.loads(run_cli("nodes", "--output", "json", home=home).out)["nodes"]
    assert (node["info"]["labels"], node["info"]["zone"]) == ({"from": "a-file"}, "by-flag")
    other = run_cli("up", "--set", "node.zone=elsewhere", home=home)
    assert (other.code, "node.zone is 'by-flag', not 'elsewhere'" in other.err) == (1, True), other
    again = up(home, ports)
    assert "its result" not in again.out
    assert len(jobs(home)) == 1
    assert run_cli("submit", "--wait", "--gpus", "1", "--", "true", home=home).code == 0
    assert "stopped" in run_cli("down", home=home).out
    down = run_cli("jobs", home=home)
    assert down.code == 1, down
    assert "nothing runs" in run_cli("down", home=home).out
    up(home, ports)
    assert [job["phase"] for job in jobs(home)] == ["SUCCEEDED", "SUCCEEDED"]


def jobs(home: Path, *options: str) -> list[dict[str, str]]:
    return json.loads(run_cli("jobs", "--output", "json", *options, home=home).out)["jobs"]
