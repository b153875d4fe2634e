"""Jobs and requests that mean no good: each gets a clear state or error, and a normal job right after still works."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ares.api.jobs import JobDetail
from ares.model.isolation import shortfall
from ares.model.job import JobSpec, Resources, RetryPolicy
from tests import needs
from tests.platform import Platform, eventually

ONE_TRY = RetryPolicy(limit=0, class_limits={"staging": 0})
LOG_BYTES_MAX = 64 * 1024 * 1024


@pytest.fixture(autouse=True)
def unharmed(shared: Platform) -> Iterator[None]:
    """After each test: nothing is left of it, and the node works."""
    yield
    client = shared.client()
    after = client.wait(client.submit(command=["echo", "fine"]), timeout=60)
    assert after.state.phase == "SUCCEEDED"
    assert b"".join(client.logs(after)) == b"fine\n"
    assert not shared.job_processes()
    eventually(lambda: not folders(shared), "the removal of the attempts' directories")
    (node,) = client.nodes()
    assert (node.ready, node.running, node.gpus_free) == (True, 0, 4)


def folders(platform: Platform) -> list[Path]:
    """Directories of attempts on the node, without the empty ones kept for reuse."""
    root = platform.directory / "nodes" / "agents" / "node-a" / "attempts"
    return [path for path in root.iterdir() if not path.name.startswith("spare.")]


def run(platform: Platform, script: str, *, memory_mib: int = 64, **more: object) -> JobDetail:
    spec = JobSpec(
        command=("sh", "-c", script), resources=Resources(cpu_milli=500, memory_mib=memory_mib), retry=ONE_TRY,
        **more,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    client = platform.client()
    return client.wait(client.submit(spec), timeout=100)


# ---- jobs


@pytest.mark.parametrize(
    ("command", "says"), [("/nonexistent/tool", "no such file"), ("/etc/hostname", "not a program"), ("/etc", "")]
)
def test_command_that_cannot_be_run(shared: Platform, command: str, says: str) -> None:
    client = shared.client()
    detail = client.wait(client.submit(JobSpec(command=(command,), retry=ONE_TRY)), timeout=30)
    assert detail.state.phase == "FAILED"
    assert detail.state.exit is not None
    assert detail.state.exit.failure == "staging"
    assert says in detail.state.reason


def test_working_directory_that_is_not_there(shared: Platform) -> None:
    detail = run(shared, "true", workdir="/nonexistent/place")
    assert detail.state.exit is not None
    assert (detail.state.phase, detail.state.exit.failure) == ("FAILED", "staging")
    assert "/nonexistent/place" in detail.state.reason


def test_processes_that_fork_away_end_with_the_job(shared: Platform) -> None:
    script = "setsid sh -c 'setsid sleep 1000 & exec sleep 1000' & nohup sleep 1000 >/dev/null 2>&1 & sleep 0.2; exit 0"
    detail = run(shared, script)
    assert detail.state.phase == "SUCCEEDED"
    assert not shared.job_processes()


def test_output_is_bounded_and_others_are_unharmed(shared: Platform) -> None:
    client = shared.client()
    noisy = client.submit(
        JobSpec(command=("sh", "-c", "head -c 100000000 /dev/zero"), resources=Resources(cpu_milli=500), retry=ONE_TRY)
    )
    quiet = client.wait(client.submit(command=["echo", "heard"], cpus="500m"), timeout=60)
    assert b"".join(client.logs(quiet)) == b"heard\n"
    assert client.wait(noisy, timeout=100).state.phase == "SUCCEEDED"
    kept = sum(path.stat().st_size for path in (shared.directory / "logs").rglob("*.log") if noisy.id in str(path))
    assert LOG_BYTES_MAX <= kept <= LOG_BYTES_MAX + 200
    assert b"output beyond 67108864 bytes was dropped" in b"".join(client.logs(noisy, tail=2))


def test_files_left_in_the_directory_are_removed(shared: Platform) -> None:
    script = "dd if=/dev/zero of=big bs=1M count=200 2>/dev/null; mkdir -p a/b/c; touch a/b/c/x; chmod 000 a; ls"
    assert run(shared, script).state.phase == "SUCCEEDED"
    # That they are gone is looked at after each test.
    assert run(shared, "ls -A").state.phase == "SUCCEEDED"


def test_fork_bomb_is_bounded(shared: Platform) -> None:
    script = "mkfifo f; exec 3<>f; n=0; while [ $n -lt 6000 ]; do (read x <&3) & n=$((n+1)); done; echo unbounded"
    detail = run(shared, script, memory_mib=4096)
    assert detail.state.phase == "FAILED"
    output = b"".join(shared.client().logs(detail))
    assert b"fork" in output
    assert b"unbounded" not in output


def test_memory_hog_is_killed_for_memory(shared: Platform) -> None:
    (node,) = shared.client().nodes()
    if node.info.isolation[-1] == "none":
        pytest.skip(needs.CGROUPS)
    detail = run(shared, "tail /dev/zero", memory_mib=32)
    assert detail.state.phase == "FAILED"
    assert detail.state.exit is not None
    assert detail.state.exit.failure == "oom"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("head -c 200000 /dev/zero | tr '\\0' 1 > $ARES_RESULT_FILE", "bytes"),
        ("echo '{not json' > $ARES_RESULT_FILE", "JSON"),
        ("ln -s /etc/passwd $ARES_RESULT_FILE", "symbolic link"),
        ("mkdir $ARES_RESULT_FILE", "regular file"),
        ("mkfifo $ARES_RESULT_FILE", "regular file"),
    ],
)
def test_result_that_cannot_be_kept(shared: Platform, script: str, says: str) -> None:
    detail = run(shared, script)
    assert detail.state.phase == "FAILED"
    assert detail.result is not None
    assert detail.result.value is None
    assert says in detail.result.exit.message


def test_job_that_kills_everything_it_can(shared: Platform) -> None:
    (node,) = shared.client().nodes()
    if node.info.isolation[0] != "pid-namespace":
        pytest.skip(needs.PID_NAMESPACES)
    detail = run(shared, "kill -9 -1; kill -9 1; kill -9 $PPID; exit 5")
    assert detail.state.phase == "FAILED"


def test_job_that_looks_for_the_agents_credential_from_a_sandbox(shared: Platform) -> None:
    """N28: of the agent's directory there is only the way to its own, its tenant's cache, and `ares.job` for Python.
    N47: and no network but a loopback."""
    shown = shared.cli("node", "show", "node-a").out
    if "Isolation:     sandbox\n" not in shown:
        pytest.skip(needs.SANDBOX)
    assert "Kept apart by: pid-namespace, " in shown
    agent = shared.directory / "nodes" / "agents" / "node-a"
    script = f"ls {agent}; ls {agent}/cache/*; cat /proc/net/dev | wc -l; grep Seccomp: /proc/self/status"
    ran = shared.cli("submit", "--isolation", "sandbox", "--network", "none", "--follow", "--", "sh", "-c", script)
    # Two lines of header, and the loopback.
    assert (ran.code, ran.out.split()) == (0, ["attempts", "cache", "python", "own", "3", "Seccomp:", "2"]), ran
    assert {"attempts", "executor"} <= {path.name for path in agent.iterdir()}


def test_job_that_looks_for_keys_without_asking_for_a_sandbox(shared: Platform) -> None:
    """N28: on the server's machine, at the level that every job gets."""
    (node,) = shared.client().nodes()
    if shortfall(node.info.sandbox):
        pytest.skip(needs.SANDBOX)
    home = shared.servers[0].home
    agent = shared.directory / "nodes" / "agents" / "node-a"
    script = f"cat {home}/client.json {home}/keys/* {agent}/* && echo read; ls {agent}; id -u"
    detail = run(shared, script)
    output = b"".join(shared.client().logs(detail)).decode()
    assert "token" not in output
    assert "read\n" not in output
    *there, uid = b"".join(shared.client().logs(detail, stream="stdout")).decode().splitlines()
    assert there == ["attempts", "cache", "python"]
    assert (uid == "0") == (os.geteuid() == 0 and "uid-per-tenant" not in node.info.sandbox)


# As many processes as it gets, all busy. The least of priorities: other tests on the machine are not its victims.
BOMB = """
import os, signal
os.nice(19)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


def test_fork_bomb_ends_at_its_time_limit_and_its_neighbour_goes_on(shared: Platform) -> None:
    client, some = shared.client(), Resources(cpu_milli=500, memory_mib=2048)
    near = client.submit(JobSpec(command=("sleep", "600"), resources=Resources(cpu_milli=500), retry=ONE_TRY))
    eventually(lambda: client.get(near).state.phase == "RUNNING", "the start of the neighbour")
    command = ("/usr/bin/python3", "-I", "-S", "-c", BOMB)
    bomb = JobSpec(command=command, resources=some, retry=ONE_TRY, time_limit_s=3, grace_s=1)
    detail = client.wait(client.submit(bomb), timeout=90)
    assert detail.state.exit is not None
    assert (detail.state.phase, detail.state.exit.failure) == ("FAILED", "time-limit")
    after = client.get(near).state
    assert (after.phase, after.attempt) == ("RUNNING", 1)
    client.cancel(near)
    client.wait(near, timeout=60)


def test_log_file_that_is_taken_away(shared: Platform) -> None:
    detail = run(shared, "echo one; rm -f ../log; echo two; : > ../log; mkdir ../other; echo three")
    assert detail.state.phase == "SUCCEEDED"


# ---- requests

GOOD: dict[str, Any] = {"command": ["true"]}
BAD: dict[str, dict[str, Any]] = {
    "long name": {**GOOD, "name": "x" * 10_000},
    "newline in name": {**GOOD, "name": "a\nb"},
    "newline at the end of name": {**GOOD, "name": "a\n"},
    "escape in name": {**GOOD, "name": "\x1b[31mred"},
    "empty name": {**GOOD, "name": ""},
    "path in name": {**GOOD, "name": "../../etc/passwd"},
    "number as name": {**GOOD, "name": 7},
    "no command": {"name": "x"},
    "empty command": {"command": []},
    "empty program": {"command": [""]},
    "text as command": {"command": "true"},
    "nul in command": {"command": ["a\x00b"]},
    "huge argument": {"command": ["x" * 200_000]},
    "negative cpus": {**GOOD, "resources": {"cpuMilli": -1}},
    "huge cpus": {**GOOD, "resources": {"cpuMilli": 10**30}},
    "fraction of a gpu": {**GOOD, "resources": {"gpus": 0.5}},
    "truth as number": {**GOOD, "resources": {"gpus": True}},
    "negative limit": {**GOOD, "timeLimitS": -5},
    "limit beyond floats": {**GOOD, "timeLimitS": 1e308},
    "short lease": {**GOOD, "leaseS": 0.001},
    "unknown field": {**GOOD, "nmae": "typo"},
    "reserved variable": {**GOOD, "env": {"A=B": "x"}},
    "relative directory": {**GOOD, "workdir": "here"},
    "array backwards": {**GOOD, "array": "9-1"},
    "array too long": {**GOOD, "array": "0-99999999"},
    "more than any node has": {**GOOD, "resources": {"gpus": 2000}},
}


@pytest.mark.parametrize("what", BAD)
def test_bad_request_is_refused_with_a_reason(shared: Platform, what: str) -> None:
    headers = {"authorization": f"Bearer {shared.servers[0].token()}", "content-type": "application/json"}
    body = json.dumps(BAD[what])
    answer = httpx2.post(f"{shared.servers[0].url}/v1/jobs", headers=headers, content=body, trust_env=False)
    problem = answer.json()
    assert answer.status_code == 422, problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["code"] in ("invalid", "unknown-field") or problem["status"] == 422
    assert problem["detail"]
    assert problem["fix"]
    assert len(answer.content) < 4096, "an answer should not repeat what was wrong at length"
