"""The agent service with real processes, against a control plane played by the test."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ares.adapters.executors.process import AttemptProcess
from ares.agent import agent as agent_module
from ares.agent.settings import AgentSettings
from ares.model.job import Warn
from ares.model.link import AttemptRef, Exited, Fenced, Hello, LogChunk, Progress, Renewed, Started, Stop
from ares.model.state import Fence
from ares.ports.link import LinkRefused
from tests import needs
from tests.integration.agent.conftest import Running
from tests.integration.agent.scripted import ScriptedPlane


async def gone(path: Path) -> None:
    async with asyncio.timeout(20):
        while os.access(path, os.F_OK):
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


async def test_a_job_runs_to_its_report_and_leaves_nothing(running: Running, plane: ScriptedPlane) -> None:
    script = 'echo hello; printf \'{"loss": 0.5}\' > "$ARES_RESULT_FILE"'
    plane.say(plane.start("j1", "sh", "-c", script))
    await plane.first(Started, "j1")
    exited = await plane.first(Exited, "j1")
    assert exited.exit.code == 0
    assert exited.exit.failure is None
    assert json.loads(exited.value) == {"loss": 0.5}
    assert plane.logs[(exited.ref, 0)] == b"hello\n"
    assert plane.said.index(plane.all(LogChunk)[0]) < plane.said.index(exited)
    await gone(running.state_dir / "attempts" / "j1.1.1.0")


async def test_the_environment_says_who_the_job_is_and_hides_the_agents(
    running: Running, plane: ScriptedPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "x")
    plane.say(plane.start("j1", "sh", "-c", "env; pwd", env={"MINE": "1", "ARES_JOB_ID": "forged", "RANK": "9"}))
    exited = await plane.first(Exited, "j1")
    lines = plane.logs[(exited.ref, 0)].decode().splitlines()
    seen = dict(line.split("=", 1) for line in lines if "=" in line)
    work = str(running.state_dir / "attempts" / "j1.1.1.0" / "work")
    assert seen["ARES_JOB_ID"] == "j1"
    assert seen["ARES_FENCE"] == "1.1"
    assert seen["RANK"] == "0"
    assert seen["MINE"] == "1"
    assert seen["CUDA_VISIBLE_DEVICES"] == ""
    assert seen["HOME"] == seen["TMPDIR"] == lines[-1] == work
    assert "SECRET_OF_THE_AGENT" not in seen


@pytest.mark.parametrize(
    ("command", "code", "signal", "failure"),
    [
        (("sh", "-c", "exit 7"), 7, None, "exit"),
        (("sh", "-c", "kill -SEGV $$"), None, "SIGSEGV", "signal"),
        (("no-such-command",), None, None, "staging"),
    ],
)
async def test_failures_are_told_apart(
    running: Running, plane: ScriptedPlane, command: tuple[str, ...], code: int | None, signal: str | None, failure: str
) -> None:
    plane.say(plane.start("j1", *command))
    exited = await plane.first(Exited, "j1")
    assert (exited.exit.code, exited.exit.signal, exited.exit.failure) == (code, signal, failure)
    assert command[0] in exited.exit.message or exited.exit.failure != "staging"


async def test_a_missing_working_directory_is_a_staging_failure(running: Running, plane: ScriptedPlane) -> None:
    plane.say(plane.start("j1", "true", workdir="/no/such/place"))
    exited = await plane.first(Exited, "j1")
    assert exited.exit.failure == "staging"
    assert "/no/such/place" in exited.exit.message


async def test_a_repeated_start_runs_once_and_an_older_fence_never(running: Running, plane: ScriptedPlane) -> None:
    plane.acks = False
    start = plane.start("j1", "sh", "-c", "echo once", counter=5)
    plane.say(start, start)
    await plane.first(Exited, "j1")
    plane.say(start)
    again = await plane.first(Exited, "j1", nth=1)
    assert again == plane.all(Exited)[0], "the same report, not a second run"
    plane.say(plane.start("j1", "sh", "-c", "echo older", counter=4))
    fenced = await plane.first(Fenced, "j1")
    assert fenced.ref.fence == Fence(counter=4)
    assert len(plane.all(Started)) == 1


async def test_a_start_of_what_ended_and_was_acknowledged_is_answered(running: Running, plane: ScriptedPlane) -> None:
    """A control plane restored from a backup does not know the end any more: silence would keep it waiting."""
    start = plane.start("j1", "sh", "-c", "echo once")
    plane.say(start)
    await plane.first(Exited, "j1")
    await gone(running.state_dir / "attempts" / "j1.1.1.0")
    plane.say(start)
    fenced = await plane.first(Fenced, "j1")
    assert fenced.ref == start.ref
    assert len(plane.all(Started)) == 1


async def test_a_start_after_its_stop_never_runs(running: Running, plane: ScriptedPlane) -> None:
    start = plane.start("j1", "true")
    plane.say(Stop(ref=start.ref, grace_s=0, reason="cancelled"))
    await plane.first(Fenced, "j1")
    plane.say(start)
    await plane.first(Fenced, "j1", nth=1)
    assert not plane.all(Started)


async def test_stop_gives_grace_then_kills_what_ignores_it(running: Running, plane: ScriptedPlane) -> None:
    start = plane.start("j1", "sh", "-c", "trap '' TERM; (setsid sleep 1000 &) ; echo up; while :; do sleep 1; done")
    plane.say(start)
    started = await plane.first(Started, "j1")
    await plane.until(lambda: plane.log(start.ref) == b"up\n")
    plane.say(Stop(ref=start.ref, grace_s=0.2, reason="cancelled by a person"))
    fenced = await plane.first(Fenced, "j1")
    assert fenced.reason == "cancelled by a person"
    assert not alive(started.pid)
    assert not plane.all(Exited)


async def test_a_stopped_process_can_still_be_stopped(running: Running, plane: ScriptedPlane) -> None:
    start = plane.start("j1", "sh", "-c", "trap 'echo bye; exit 0' TERM; kill -STOP $$; sleep 1000")
    plane.say(start)
    await plane.first(Started, "j1")
    plane.say(Stop(ref=start.ref, grace_s=1000, reason="cancelled"))
    assert (await plane.first(Fenced, "j1")).reason == "cancelled"
    assert plane.logs[(start.ref, 0)] == b"bye\n"


@pytest.mark.parametrize(
    ("qos", "mib", "failure"), [("guaranteed", 400, "oom"), ("burstable", 400, None), ("burstable", 600, "oom")]
)
async def test_memory_beyond_what_was_asked_for_depends_on_the_class(
    running: Running, plane: ScriptedPlane, qos: str, mib: int, failure: str | None
) -> None:
    """All of them ask for 256 MiB."""
    if not any(kind.startswith("cgroup") for kind in plane.all(Hello)[0].info.isolation):
        pytest.skip(needs.CGROUPS)
    plane.say(plane.start("j1", sys.executable, "-I", "-S", "-c", f"bytearray({mib} << 20)", qos=qos))
    assert (await plane.first(Exited, "j1")).exit.failure == failure


async def test_the_time_limit_warns_then_ends(running: Running, plane: ScriptedPlane) -> None:
    script = "trap 'echo warned' USR1; trap '' TERM; while :; do sleep 0.05; done"
    plane.say(
        plane.start("j1", "sh", "-c", script, time_limit_s=5.0, warn=Warn(signal="SIGUSR1", before_s=2.0), grace_s=0.1)
    )
    exited = await plane.first(Exited, "j1")
    assert exited.exit.failure == "time-limit"
    assert exited.exit.signal == "SIGKILL"
    assert b"warned\n" in plane.logs[(exited.ref, 0)]


async def test_a_late_warning_leaves_the_job_all_of_its_time(
    running: Running, plane: ScriptedPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent is held up beyond the time limit, so that warning and end are both due when it goes on."""
    told: list[tuple[signal.Signals, float]] = []

    for way in ("signal", "tell"):
        send = getattr(AttemptProcess, way)

        def noting(process: AttemptProcess, number: signal.Signals, send: Any = send) -> None:
            told.append((number, asyncio.get_running_loop().time()))
            send(process, number)

        monkeypatch.setattr(AttemptProcess, way, noting)
    script = "trap 'echo warned' USR1; trap '' TERM; echo armed; while :; do sleep 0.05; done"
    start = plane.start(
        "j1", "sh", "-c", script, time_limit_s=3.0, warn=Warn(signal="SIGUSR1", before_s=1.0), grace_s=0.1
    )
    plane.say(start)
    await plane.until(lambda: plane.log(start.ref) == b"armed\n")
    time.sleep(4.0)  # noqa: ASYNC251 - the agent being held up is what this is about
    exited = await plane.first(Exited, "j1")
    assert exited.exit.failure == "time-limit"
    assert b"warned\n" in plane.logs[(exited.ref, 0)]
    at = dict(reversed(told))
    assert at[signal.SIGTERM] - at[signal.SIGUSR1] >= 1.0


async def test_output_beyond_the_cap_is_dropped_with_a_note(running: Running, plane: ScriptedPlane) -> None:
    plane.say(plane.start("j1", "sh", "-c", "head -c 100000000 /dev/zero"))
    exited = await plane.first(Exited, "j1")
    log = bytes(plane.logs[(exited.ref, 0)])
    assert exited.exit.code == 0
    assert log[:200_000] == bytes(200_000)
    note = rb"\n\[ares: output beyond 200000 bytes was dropped\]\n\[ares: [0-9,]{9,} bytes of it in all\]\n"
    assert re.fullmatch(note, log[200_000:])


async def test_a_job_that_fills_the_disk_is_ended_and_told_why(
    running: Running, plane: ScriptedPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is said to have 10 MiB left once the big job has written 20."""
    plane.say(
        plane.start("small", "sh", "-c", "head -c 1000 /dev/zero > x; sleep 1000"),
        plane.start("big", "sh", "-c", "head -c 20971520 /dev/zero > x; echo full; sleep 1000"),
    )
    big = plane.start("big", "true").ref
    await plane.until(lambda: plane.log(big) == b"full\n")
    monkeypatch.setattr(agent_module, "free_bytes", lambda _: 10 << 20)
    exited = await plane.first(Exited)
    assert exited.ref == big
    assert "disk is nearly full: 10 MiB" in exited.exit.message
    assert exited.exit.signal == "SIGKILL"


async def test_progress_is_reported_while_it_runs(running: Running, plane: ScriptedPlane) -> None:
    script = """
        printf '{"fraction": 0.25, "message": "warming up"}' > p && mv p "$ARES_PROGRESS_FILE"
        while [ ! -e go ]; do sleep 0.02; done
    """
    plane.say(plane.start("j1", "sh", "-c", script))
    progress = await plane.first(Progress, "j1")
    assert (progress.fraction, progress.message) == (0.25, "warming up")
    (running.state_dir / "attempts" / "j1.1.1.0" / "work" / "go").touch()
    await plane.first(Exited, "j1")


async def test_a_result_that_is_a_link_or_no_json_fails_the_attempt(running: Running, plane: ScriptedPlane) -> None:
    plane.say(
        plane.start("j1", "sh", "-c", 'ln -s /etc/passwd "$ARES_RESULT_FILE"'),
        plane.start("j2", "sh", "-c", 'echo "{" > "$ARES_RESULT_FILE"'),
        plane.start("j3", "sh", "-c", 'mkfifo "$ARES_RESULT_FILE"'),
    )
    for job in ("j1", "j2", "j3"):
        exited = await plane.first(Exited, job)
        assert exited.value == b""
        assert exited.exit.failure == "exit"
        assert "result cannot be kept" in exited.exit.message


async def test_jobs_survive_a_cut_and_reports_are_repeated(running: Running, plane: ScriptedPlane) -> None:
    plane.acks = plane.log_acks = False
    start = plane.start("j1", "sh", "-c", "echo before; while [ ! -e go ]; do sleep 0.02; done; echo after")
    plane.say(start)
    await plane.first(Started, "j1")
    plane.cut()
    (running.state_dir / "attempts" / "j1.1.1.0" / "work" / "go").touch()
    hello = await plane.first(Hello, nth=1)
    assert hello.incarnation == 1
    assert hello.alive == (start.ref,)
    exited = await plane.first(Exited, "j1")
    assert plane.logs[(start.ref, 0)] == b"before\nafter\n"
    plane.acks = plane.log_acks = True
    plane.cut()
    repeated = await plane.first(Exited, "j1", nth=1)
    assert repeated == exited
    await gone(running.state_dir / "attempts" / "j1.1.1.0")
    assert len(plane.all(Started)) >= 2


async def test_what_is_not_granted_after_a_cut_is_killed(running: Running, plane: ScriptedPlane) -> None:
    start = plane.start("j1", "sleep", "1000")
    plane.say(start)
    started = await plane.first(Started, "j1")
    plane.keep = lambda alive: ()
    plane.cut()
    await plane.first(Fenced, "j1")
    assert not alive(started.pid)


async def test_a_superseded_agent_ends_everything_and_registers_anew(running: Running, plane: ScriptedPlane) -> None:
    plane.say(plane.start("j1", "sleep", "1000"))
    started = await plane.first(Started, "j1")
    plane.refused_incarnations = {1}
    plane.cut()
    await plane.until(lambda: plane.incarnation == 2)
    assert not alive(started.pid)


async def test_a_refused_newcomer_gives_up(running: Running, plane: ScriptedPlane) -> None:
    plane.refused_incarnations = {0, 1}
    plane.cut()
    with pytest.raises(LinkRefused):
        await asyncio.wait_for(running.task, 30)


async def test_without_renewals_the_right_ends_and_the_job_dies(tmp_path: Path, settings: AgentSettings) -> None:
    plane = ScriptedPlane(self_fence_ratio=0.1)
    running = Running(tmp_path, plane, settings)
    try:
        await plane.until(lambda: plane.incarnation > 0)
        plane.say(plane.start("j1", "sleep", "1000"))
        started = await plane.first(Started, "j1")
        plane.renewals = False
        # Neither an old renewal nor one that was never sent extends anything.
        plane.say(Renewed(nonce=1), Renewed(nonce=10_000))
        fenced = await plane.first(Fenced, "j1")
        assert "right to run ended" in fenced.reason
        assert not alive(started.pid)
        # Nothing may start without the right either; the next renewal brings it back.
        plane.say(plane.start("j2", "true"))
        plane.renewals = True
        await plane.first(Exited, "j2")
    finally:
        running.agent.stop()
        await running.task


async def test_stopping_the_agent_ends_its_jobs_and_says_so(running: Running, plane: ScriptedPlane) -> None:
    plane.say(plane.start("j1", "sh", "-c", "trap '' TERM; while :; do sleep 1; done"))
    started = await plane.first(Started, "j1")
    running.agent.stop()
    await asyncio.wait_for(running.task, 30)
    assert not alive(started.pid)
    assert plane.all(Fenced)[0].reason == "the agent is shutting down"
    assert os.listdir(running.state_dir / "attempts") == []


async def test_an_unknown_attempt_is_confirmed_gone(running: Running, plane: ScriptedPlane) -> None:
    plane.say(Stop(ref=AttemptRef(job="ghost", tenant="t", fence=Fence(counter=3)), grace_s=1, reason="x"))
    fenced = await plane.first(Fenced, "ghost")
    assert fenced.reason == "not running here"
