"""`ares chaos` against a real platform: passes, leaves nothing behind, disturbs nobody, and can fail."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ares.check.invariants.history import Fault, Healed, Settings, read
from ares.model.state import TERMINAL
from ares.sim.chaos.agents import job_processes
from tests.chaos.load import marked
from tests.platform import Platform, Server, StoreKind, environment, eventually, run_cli, say

Build = Callable[[StoreKind], Platform]
# A loss is decided in 4 s instead of 9, so that a short run sees some.
TIMING = {
    "ARES_TIMING__RENEW_EVERY_S": "0.8",
    "ARES_TIMING__SELF_FENCE_S": "2.4",
    "ARES_TIMING__KILL_S": "0.5",
    "ARES_TIMING__DEAD_AFTER_S": "4",
    "ARES_TIMING__SCAN_EVERY_S": "0.25",
}
# In nine seconds of it an agent is cut off, one is killed and one frozen.
VARIED = 134
# How long things take on a loaded machine says nothing: the bound is tested by the judge's own tests.
SHORT = ("--lease", "4s", "--bound", "60s", "--output", "json")


def against(server: Server) -> list[str]:
    return ["chaos", "--against", server.url, "--agents-at", server.agents, *SHORT]


def check_nothing_is_left(platform: Platform, temporary: Path, nodes: set[str]) -> None:
    client = platform.client()
    assert {node.name for node in client.nodes()} == nodes
    left = [token for token in client.tokens() if not token.revoked and "chaos" in f"{token.tenant}{token.node}"]
    assert not left
    assert not job_processes(temporary)
    assert list(temporary.iterdir()) == []
    assert not _agents(temporary), "an agent is left"


def _agents(temporary: Path) -> list[int]:
    """Processes whose home is in the directory."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and f"ARES_HOME={temporary}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def jobs_of(platform: Platform, seed: int) -> list[Any]:
    """What the tenant's jobs came to: an administrator makes a token for it."""
    token = platform.client().create_token(role="viewer", tenant=f"ares-chaos-{seed}", name="look")
    return list(platform.client(token=token.token).list(page=1000))


def run_chaos(server: Server, temporary: Path, *more: str, timeout_s: float = 300.0) -> tuple[int, dict[str, Any]]:
    temporary.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "ares", *against(server), *more],
        env={**environment(server.home), "TMPDIR": str(temporary)},
        capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def check_it_says_why_it_cannot_run(platform: Platform) -> None:
    server = platform.servers[0]
    token = platform.client().create_token(role="submitter", name="not an administrator")
    refused = subprocess.run(
        [sys.executable, "-m", "ares", *against(server)],
        env={**environment(server.home), "ARES_TOKEN": token.token},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "administrator" in refused.stderr
    unreachable = platform.cli("chaos", "--agents-at", "127.0.0.1:1")
    assert unreachable.code == 2, unreachable
    assert "--agents-at" in unreachable.err
    dry = platform.cli("chaos", "--agents-at", server.agents, "--dry-run", "--seed", "5", "--duration", "1m")
    assert dry.code == 0, dry
    assert "ares-chaos-5-3" in dry.out


@pytest.mark.timeout(240)
def test_short_run_passes_and_leaves_nothing(build: Build, tmp_path: Path) -> None:
    platform = build("sqlite")
    server = platform.server(env=TIMING)
    platform.agent("bystander")
    check_it_says_why_it_cannot_run(platform)
    client, marks = platform.client(), tmp_path / "marks"
    marks.mkdir()
    other = client.submit(marked(marks, beats=6000))
    eventually(lambda: client.get(other).state.phase == "RUNNING", "the start of somebody else's job")
    history = tmp_path / "history.jsonl"
    code, verdict = run_chaos(
        server, tmp_path / "t", "--duration", "9s", "--seed", str(VARIED), "--rate", "4", "--history", str(history)
    )
    say(json.dumps(verdict, indent=1))
    assert (code, verdict["passed"], verdict["violations"], verdict["notes"]) == (0, True, [], [])
    assert sum(verdict["jobs"].values()) >= 5
    assert {"cut", "freeze", "kill"} <= set(verdict["faults"])
    check_nothing_is_left(platform, tmp_path / "t", {"bystander"})
    assert all(state.phase in TERMINAL and not state.lingering for state in jobs_of(platform, VARIED))
    state = client.get(other).state
    assert (state.phase, state.attempt) == ("RUNNING", 1), "somebody else's job was disturbed"
    events = list(read(history))
    assert isinstance(events[0], Settings)
    assert any(isinstance(event, Healed) for event in events)
    assert any(isinstance(event, Fault) for event in events)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("store", ["sqlite", pytest.param("etcd", marks=pytest.mark.etcd)])
def test_long_runs_pass(build: Build, tmp_path: Path, seed: int, store: StoreKind, number: int) -> None:
    platform = build(store)
    server = platform.server(env=TIMING)
    code, verdict = run_chaos(server, tmp_path / "t", "--duration", "60s", "--seed", str((seed + number) % 10**6))
    say(json.dumps(verdict, indent=1))
    assert (code, verdict["notes"]) == (0, [])
    assert verdict["detection"]["count"] > 0, "nothing was lost: the run proved little"
    check_nothing_is_left(platform, tmp_path / "t", set())
    found = platform.cli("verify", f"--store={platform.store_url}", "--output", "json")
    assert found.code == 0, found


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_planted_violation_fails_the_verdict(build: Build, tmp_path: Path) -> None:
    """A mark that a job can make only when it is started a second time under one fence."""
    platform = build("sqlite")
    server = platform.server(env=TIMING)
    temporary = tmp_path / "t"
    temporary.mkdir()
    planted = threading.Event()

    def plant() -> None:
        while not planted.wait(0.1):
            for mark in temporary.glob("ares-chaos-*/marks/*.*"):
                (mark.parent / f"twice.{mark.name}").write_text("1.0\n")
                planted.set()

    planter = threading.Thread(target=plant, daemon=True)
    planter.start()
    code, verdict = run_chaos(server, temporary, "--duration", "8s", "--seed", "2")
    planted.set()
    planter.join()
    assert (code, verdict["passed"]) == (1, False)
    assert {one["rule"] for one in verdict["violations"]} == {"E18"}
    check_nothing_is_left(platform, temporary, set())


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_interrupted_twice_it_still_cleans_up(build: Build, tmp_path: Path) -> None:
    platform = build("sqlite")
    server = platform.server(env=TIMING)
    temporary = tmp_path / "t"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "ares", *against(server), "--duration", "10m", "--seed", "3"],
        env={**environment(server.home), "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        eventually(lambda: list(temporary.glob("ares-chaos-*/marks/*.*")), "the start of a canary")
        process.send_signal(signal.SIGINT)
        eventually(lambda: not _agents(temporary), "the end of its agents")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    check_nothing_is_left(platform, temporary, set())
    assert all(state.phase in TERMINAL for state in jobs_of(platform, 3))


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_killed_it_leaves_no_process(build: Build, tmp_path: Path) -> None:
    """kill -9 leaves records that another run with the seed names; its processes go with it."""
    platform = build("sqlite")
    server = platform.server(env=TIMING)
    temporary = tmp_path / "t"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "ares", *against(server), "--duration", "10m", "--seed", "4"],
        env={**environment(server.home), "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    eventually(lambda: list(temporary.glob("ares-chaos-*/marks/*.*")), "the start of a canary")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    eventually(lambda: not _agents(temporary) and not job_processes(temporary), "the end of its processes")
    again = run_cli(*against(server), "--seed", "4", home=server.home)
    assert again.code == 2
    assert "ares node rm ares-chaos-4-1" in again.err
