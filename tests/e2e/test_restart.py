"""The only server is killed, then stopped in order: what runs goes on until it is back, each time for longer than the
right to run that agents have from it."""

from pathlib import Path

from ares.model.job import Gang, JobSpec, Resources
from ares.model.timing import DEFAULT
from tests.platform import Platform, Process, eventually

# The gap is held until the jobs have gone on for this many of their own seconds: more than the longest right to run
# that an agent has without being told (7 s).
TICKS = round(DEFAULT.self_fence_s) + 2
# A busy machine may take its time to stop and to start: the default is proven on virtual time, by the directed case
# killed-beside and stopped-server.
PATIENT = {"ARES_TIMING__RESTART_S": "120"}


def ticking(gate: Path, ticks: Path, **more: object) -> JobSpec:
    """Says every second that it is alive, until the gate file is there."""
    script = f'until [ -e {gate} ]; do echo "$ARES_FENCE $ARES_RANK" >> {ticks}; sleep 1; done'
    return JobSpec(
        command=("sh", "-c", script), resources=Resources(cpu_milli=100, memory_mib=64),
        **more,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip


def _count(ticks: Path) -> int:
    return len(ticks.read_text().splitlines()) if ticks.exists() else 0


def _go_on(files: list[Path]) -> None:
    """The jobs say that they are alive, for longer than agents let them run who know nothing."""
    before = [_count(file) for file in files]
    eventually(
        lambda: all(_count(file) >= count + TICKS for file, count in zip(files, before, strict=True)),
        "jobs that go on while nobody leads",
    )


def _told(agent: Process, what: str) -> int:
    return agent.log.read_text().count(what)


def test_what_runs_outlives_a_restart_of_the_only_server(platform: Platform) -> None:
    server = platform.server(env=PATIENT)
    for name in ("node-a", "node-b"):
        platform.agent(name)
    client, gate = platform.client(), platform.directory / "go"
    files = [platform.directory / name for name in ("single", "gang")]
    single = client.submit(ticking(gate, files[0]))
    gang = client.submit(ticking(gate, files[1], gang=Gang(ranks=2)))
    for job in (single, gang):
        eventually(lambda job=job: client.get(job).state.phase == "RUNNING", "the start of the jobs")
    eventually(lambda: all(map(_count, files)), "the first signs of life")
    agents = platform.agents.values()
    # Nobody announces this: the agents see that the store is in nobody's hands.
    server.kill()
    _go_on(files)
    assert any(_told(agent, "agent.nobody_decides") for agent in agents), "no job ran beside the store"
    planners = _told(server, "planning.started")
    platform.server()
    # What is stopped is a server that works, not one that is still starting its planner.
    eventually(lambda: _told(server, "planning.started") > planners, "the planner of the next server")
    eventually(lambda: all(_told(agent, "agent.connected") >= 2 for agent in agents), "agents that are back")
    assert server.terminate() == 0
    assert all(_told(agent, "agent.extended") for agent in agents)
    _go_on(files)
    platform.server()
    gate.touch()
    for job in (single, gang):
        detail = client.wait(job, timeout=60)
        assert (detail.state.phase, detail.state.attempt, detail.state.retries) == ("SUCCEEDED", 1, {})
    assert {line.split()[0] for file in files for line in file.read_text().splitlines()} == {"1.1"}
