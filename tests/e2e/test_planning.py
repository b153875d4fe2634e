"""Serving goes on whatever happens to the planning process: it hangs, it is killed, again and again."""

import os
import signal
import urllib.request
from pathlib import Path

import psutil

from ares.model.job import JobSpec, Resources
from tests.platform import Platform, Server, eventually


def planner_of(server: Server) -> int:
    """The planning process of a server."""

    def look() -> list[int]:
        children = psutil.Process(server.pid).children()
        return [one.pid for one in children if "ares.app.planning" in one.cmdline()]

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
