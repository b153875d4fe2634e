"""The only server is stopped in order: what runs goes on until it is back, for longer than any lease it had before."""

from pathlib import Path

from ares.model.job import Gang, JobSpec, Resources
from ares.model.timing import DEFAULT
from tests.platform import Platform, eventually

# The gap is held until the jobs have gone on for this many of their own seconds: more than the longest right to run
# that an agent has without being told (7 s).
TICKS = round(DEFAULT.self_fence_s) + 2
# A busy machine may take its time to stop and to start: the default is proven on virtual time, by the directed case
# stopped-server.
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
    assert server.terminate() == 0
    before = [_count(file) for file in files]
    for agent in platform.agents.values():
        assert "agent.extended" in agent.log.read_text()
    eventually(
        lambda: all(_count(file) >= count + TICKS for file, count in zip(files, before, strict=True)),
        "jobs that go on while nobody leads",
    )
    platform.server()
    gate.touch()
    for job in (single, gang):
        detail = client.wait(job, timeout=60)
        assert (detail.state.phase, detail.state.attempt, detail.state.retries) == ("SUCCEEDED", 1, {})
    assert {line.split()[0] for file in files for line in file.read_text().splitlines()} == {"1.1"}
