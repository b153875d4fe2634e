"""Serving goes on whatever happens to the planning process: it hangs, it is killed, again and again."""

import os
import signal
import urllib.request
from pathlib import Path

import psutil

from ares.edge.client.calls import operator
from ares.model.job import JobSpec, Resources
from tests.platform import Platform, Server, eventually


def plans(process: psutil.Process) -> bool:
    try:
        return "ares.app.planner" in process.cmdline()
    except psutil.Error:
        # It ended meanwhile.
        return False


def planner_of(server: Server) -> int:
    """The planning process of a server."""

    def look() -> list[int]:
        return [one.pid for one in psutil.Process(server.pid).children() if plans(one)]

    return eventually(look, "the planning process")[0]


def healthy(server: Server) -> bool:
    with urllib.request.urlopen(f"{server.url}/healthz", timeout=10) as answer:
        return answer.status == 200


def until(gate: Path) -> JobSpec:
    script = f"until [ -e {gate} ]; do sleep 0.05; done"
    return JobSpec(command=("sh", "-c", script), resources=Resources(cpu_milli=100, memory_mib=64))


def test_a_planner_that_hangs_is_replaced_and_nobody_else_notices(platform: Platform) -> None:
    server = platform.server()
    platform.agent("node-a")
    client, gate = platform.client(), platform.directory / "go"
    running = client.submit(until(gate))
    eventually(lambda: client.get(running).state.phase == "RUNNING", "the start of the job")
    stopped = planner_of(server)
    os.kill(stopped, signal.SIGSTOP)
    waiting = client.submit(JobSpec(command=("true",), resources=Resources(cpu_milli=100, memory_mib=64)))
    renewed_at = platform.lease_renewed_at("node-a")
    # As long as it takes until the planner is given up: everything else goes on.
    eventually(lambda: healthy(server) and not psutil.pid_exists(stopped), "the end of the planner that hangs")
    eventually(lambda: platform.lease_renewed_at("node-a") > renewed_at, "another renewal")
    assert client.wait(waiting, timeout=60).state.phase == "SUCCEEDED"
    gate.touch()
    ended = client.wait(running, timeout=60).state
    assert (ended.phase, ended.attempt) == ("SUCCEEDED", 1)
    assert planner_of(server) != stopped


def test_jobs_go_on_while_planners_are_killed(platform: Platform) -> None:
    server = platform.server()
    platform.agent("node-a")
    client, gate = platform.client(), platform.directory / "go"
    running = client.submit(until(gate))
    eventually(lambda: client.get(running).state.phase == "RUNNING", "the start of the job")
    jobs: list[str] = []
    for _ in range(3):
        pid = planner_of(server)
        jobs += [client.submit(JobSpec(command=("true",))).id for _ in range(3)]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: planner_of(server) != pid, "another planning process")
    assert {client.wait(job, timeout=60).state.phase for job in jobs} == {"SUCCEEDED"}
    gate.touch()
    ended = client.wait(running, timeout=60).state
    assert (ended.phase, ended.attempt) == ("SUCCEEDED", 1)
    lost = [line for line in platform.metrics() if line.startswith("ares_planners_lost_total")]
    assert float(lost[0].split()[-1]) >= 1.0


def test_the_planning_process_ends_with_its_server(platform: Platform) -> None:
    server = platform.server()
    pid = planner_of(server)
    server.kill()
    eventually(lambda: not psutil.pid_exists(pid), "the end of the planning process")


PLUGINS = """
import time
import numpy as np
from ares.core.capacity.rule import Filter
from ares.api.reasons import Reason

def asleep(rows):
    time.sleep(3600.0)
    return np.ones(len(rows))

def raises(rows):
    raise ValueError("not today")

def rubbish(rows):
    return np.ones(len(rows) + 1, np.bool_)

def explain(miss):
    return Reason(code="REFUSED_BY_PLUGIN", message="no")

RUBBISH = Filter(rubbish, explain, ("profile changes",))
"""


def install(site: Path) -> None:
    info = site / "wild-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "wild.py").write_text(PLUGINS)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wild\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ares.scorers]\nasleep = wild:asleep\nraises = wild:raises\n[ares.filters]\nrubbish = wild:RUBBISH\n"
    )


def test_plugins_that_hang_raise_or_answer_rubbish_are_cut_off_by_name(platform: Platform, tmp_path: Path) -> None:
    install(tmp_path / "site")
    server = platform.server(env={"PYTHONPATH": str(tmp_path / "site")})
    # A scorer is only asked where there is a choice.
    platform.agent("node-a")
    platform.agent("node-b")
    client, gate = platform.client(), platform.directory / "go"
    running = client.submit(until(gate))
    eventually(lambda: client.get(running).state.phase == "RUNNING", "the start of the job")
    client.send(operator.set_profile({"weight.asleep": "1", "weight.raises": "1"}, "", None))
    # Placed without them: the one that hangs costs the planner its life, the one that raises only its say.
    assert client.wait(client.submit(JobSpec(command=("true",))), timeout=100).state.phase == "SUCCEEDED"
    assert healthy(server)

    def cut() -> dict[str, str]:
        return {one.name: one.cut_off for one in client.send(operator.plugins()).plugins if one.cut_off}

    found = eventually(lambda: found if len(found := cut()) == 2 else None, "both plugins cut off")
    assert "no answer within" in found["asleep"]
    assert found["raises"] == "ValueError: not today"
    assert server.checks()["plugins"] == "cut off: scorer asleep, scorer raises"
    assert "cut off: scorer raises of wild 1.0: ValueError: not today" in platform.cli("plugins").err

    # What a filter was to keep out must not come in: nothing is placed, and the reason says why.
    client.send(operator.set_profile({"weight.asleep": "0", "weight.raises": "0", "filters": "+rubbish"}, "", None))
    kept_out = client.submit(JobSpec(command=("true",)))

    def told() -> str:
        reason = client.get(kept_out).waiting
        return reason.message if reason is not None and "cut off" in reason.message else ""

    message = eventually(told, "the words of the filter that was cut off")
    assert message.startswith("the filter 'rubbish' was cut off: Unusable: it answered with shape")
    alerts = {one.subject for one in client.alerts(platform=True) if one.kind == "plugin-cut-off"}
    assert alerts == {"scorer asleep", "scorer raises", "filter rubbish"}
    client.send(operator.revert_profile(0, ""))
    assert client.wait(kept_out, timeout=60).state.phase == "SUCCEEDED"
    gate.touch()
    ended = client.wait(running, timeout=60).state
    assert (ended.phase, ended.attempt) == ("SUCCEEDED", 1)
