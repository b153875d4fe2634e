"""Into running jobs, by the command line as processes: exec, terminals, reconnecting, and what is left of it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.platform import Platform, environment, eventually
from tests.terminal import Terminal


def running(platform: Platform, *command: str, flags: tuple[str, ...] = ()) -> str:
    asked = ("submit", "--output", "name", "--cpus", "100m", *flags, "--", *(command or ("sleep", "600")))
    job = platform.cli(*asked).out.strip()
    eventually(lambda: platform.client().get(job).state.phase == "RUNNING", "the start of the job")
    return job


@pytest.fixture(scope="module")
def job(shared: Platform) -> str:
    return running(shared)


def test_output_and_exit_code_are_the_commands_own(shared: Platform, job: str) -> None:
    ran = shared.cli("exec", job, "--", "sh", "-c", "echo $ARES_JOB_ID; echo trouble >&2; exit 7")
    assert (ran.code, ran.out, ran.err) == (7, f"{job}\n", "trouble\n"), ran
    assert shared.cli("exec", job, "--", "sh", "-c", "kill -9 $$").code == 137
    missing = shared.cli("exec", job, "--", "no-such-tool")
    assert missing.code != 0
    assert "command not found: no-such-tool" in missing.err
    assert "no-such-tool" not in shared.cli("exec", job, "--", "cat").out


def test_input_goes_in_and_megabytes_come_back(shared: Platform, job: str) -> None:
    text = "".join(f"line {number}\n" for number in range(300_000))
    ran = shared.cli("exec", "-i", job, "--", "cat", text=text)
    assert ran.code == 0, ran.err
    assert ran.out == text


def test_session_is_in_the_jobs_own_directory_and_cage(shared: Platform, job: str) -> None:
    script = "pwd; ls /proc | grep -c '^[0-9]'; echo from-exec > note; id -u"
    ran = shared.cli("exec", job, "--", "sh", "-c", script)
    assert ran.code == 0, ran
    where, processes, _ = ran.out.split()
    assert where.endswith("/work")
    # Its own namespace: the slot, the job, the keeper, and these.
    assert int(processes) < 12
    assert shared.cli("exec", job, "--", "cat", "note").out == "from-exec\n"


def test_terminal_takes_keys_and_follows_its_size(shared: Platform, job: str) -> None:
    with Terminal(["exec", "-it", job, "--", "sh"], shared.servers[0].home, rows=31, cols=97) as terminal:
        terminal.type("stty size; echo TERM is $TERM\r")
        terminal.until("31 97")
        terminal.until("TERM is xterm")
        terminal.resize(41, 123)
        terminal.signal_size()
        terminal.type("while [ \"$(stty size)\" != '41 123' ]; do sleep 0.05; done; echo re'sized'\r")
        terminal.until("resized")
        terminal.type("sleep 500; echo aft'er'\r")
        terminal.until("sleep 500")
        time.sleep(0.2)
        terminal.type("\x03")
        terminal.type("echo interr'upted'\r")
        terminal.until("interrupted")
        terminal.type("exit 5\r")
        assert terminal.end() == 5


def test_end_of_input_ends_a_shell(shared: Platform, job: str) -> None:
    with Terminal(["exec", "-it", job, "--", "sh"], shared.servers[0].home) as terminal:
        terminal.type("echo re'ady'\r")
        terminal.until("ready")
        terminal.type("\x04")
        assert terminal.end() == 0


def test_detached_session_goes_on_and_is_attached_to_again(shared: Platform, job: str) -> None:
    home = shared.servers[0].home
    with Terminal(["exec", "-it", job, "--", "sh"], home) as terminal:
        terminal.type("echo my shell is $$; kept=treasure\r")
        terminal.until("my shell is ")
        terminal.until("my shell is ")
        terminal.type("\x10\x11")
        terminal.until("detached")
        assert terminal.end() == 0
    with Terminal(["attach", job], home) as terminal:
        # What was shown before, then what is typed now.
        terminal.until("my shell is ")
        terminal.type("echo kept $kept\r")
        terminal.until("kept treasure")
        terminal.type("exit\r")
        assert terminal.end() == 0
    refused = shared.cli("attach", job)
    assert refused.code == 2
    assert f"ares exec -it {job} -- bash" in refused.err


def test_refusals_say_what_to_do(shared: Platform) -> None:
    done = shared.cli("submit", "--output", "name", "--cpus", "100m", "--wait", "--", "true").out.strip()
    ended = shared.cli("exec", done, "--", "true")
    assert ended.code == 1
    assert "SUCCEEDED" in ended.err
    assert shared.cli("exec", "0" * 16, "--", "true").code == 1
    waiting = shared.cli("submit", "--output", "name", "--gpus", "9", "--", "true").out.strip()
    pending = shared.cli("exec", waiting, "--", "true")
    assert "PENDING" in pending.err
    assert "ares explain" in pending.err
    shared.cli("cancel", waiting)
    rank = shared.cli("exec", "--rank", "3", running(shared), "--", "true")
    assert "no rank 3" in rank.err


def test_openings_are_in_the_audit_log(shared: Platform, job: str) -> None:
    assert shared.cli("exec", job, "--", "true").code == 0
    entries = json.loads(shared.cli("audit", "search", "--output", "json", "--limit", "200").out)
    found = [(entry["operation"], entry["object"]) for entry in entries["entries"]]
    assert ("openSession", f"jobs/{job}") in found or ("openSession", f"sessions/{job}") in found, found
    assert ("attachSession", f"jobs/{job}") in found


def test_session_of_a_killed_client_is_found_and_ended(shared: Platform, job: str) -> None:
    """Ended by hand: that it ends by itself after a minute is shown in tests/unit/agent/test_job_session.py."""
    before = set(shared.job_processes())
    command = [sys.executable, "-m", "ares", "exec", job, "--", "sleep", "987"]
    client = subprocess.Popen(command, env=environment(shared.servers[0].home))
    eventually(lambda: set(shared.job_processes()) - before, "the start of the command")
    client.kill()
    client.wait()
    session = eventually(lambda: shared.client().sessions(job), "the session")[-1]
    shared.client().end_session(job, session)
    eventually(lambda: not set(shared.job_processes()) - before, "the end of the command")
    assert session not in shared.client().sessions(job)


def test_session_goes_on_after_the_server_was_killed(platform: Platform) -> None:
    # Jobs go on for as long as a busy machine may take to start a server.
    server = platform.server(settings=("timing.restart_s=120",))
    platform.agent("node-a")
    job = running(platform)
    with Terminal(["exec", "-it", job, "--", "sh"], server.home) as terminal:
        terminal.type("count=0; next() { count=$((count + 1)); echo count is $count; }; next\r")
        terminal.until("count is 1")
        server.kill()
        # Typed while there is no server: applied once.
        terminal.type("next\r")
        terminal.until("connection lost")
        platform.server()
        terminal.until("count is 2")
        terminal.type("next; exit 9\r")
        terminal.until("count is 3")
        assert terminal.end() == 9


def test_killed_agent_leaves_nothing_of_a_session(platform: Platform) -> None:
    server = platform.server()
    agent = platform.agent("node-a")
    job = running(platform)
    with Terminal(["exec", "-it", job, "--", "sh", "-c", "trap '' HUP; echo up; sleep 986"], server.home) as terminal:
        terminal.until("up")
        agent.kill()
        eventually(lambda: not platform.job_processes(), "the end of every process")


@pytest.mark.etcd
def test_session_finds_the_replica_of_its_node_and_follows_it(tmp_path: Path) -> None:
    """A replica without the node's stream says so; a client that knows all of them goes on with another."""
    with Platform(tmp_path, "etcd", warm=True) as platform:
        platform.server(0)
        platform.server(1)
        platform.agent("node-a", servers=[platform.servers[0].agents, platform.servers[1].agents])
        job = running(platform)
        home, urls = platform.servers[0].home, [platform.servers[number].url for number in (0, 1)]
        token = {"ARES_TOKEN": platform.admin_token}
        answers = [_exec_by(url, job, home, token) for url in urls]
        assert sorted(answer.returncode for answer in answers) == [0, 1], answers
        holder = next(number for number, answer in enumerate(answers) if answer.returncode == 0)
        assert "connected to another replica" in answers[1 - holder].stderr or "replica-" in answers[1 - holder].stderr
        both = ",".join((urls[1 - holder], urls[holder]))
        assert _exec_by(both, job, home, token).stdout == "inside\n"
        with Terminal(["exec", "-it", job, "--", "sh"], home, url=both, env=token) as terminal:
            terminal.type("said=once; echo be'fore'\r")
            terminal.until("before")
            platform.servers[holder].kill()
            terminal.type("echo $said mo're'\r")
            terminal.until("once more")
            terminal.type("exit 6\r")
            assert terminal.end() == 6


def _exec_by(url: str, job: str, home: Path, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "ares", "--url", url, "exec", job, "--", "echo", "inside"],
        env={**environment(home), **env}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
