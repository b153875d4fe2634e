"""Real Open MPI on three agents, without ssh: it starts, the rank that is struck is named, and nothing is left."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ares.model.job import Gang, JobSpec, Resources, RetryPolicy, RuntimeWish
from tests.platform import Platform, eventually
from tests.runtimes import WITHIN_S, open_mpi

pytestmark = pytest.mark.timeout(WITHIN_S)
NODES = ("node-a", "node-b", "node-c")
ONCE = RetryPolicy(limit=0, class_limits={"node-lost": 0, "staging": 0})
# Says who it is, by Open MPI and by the variables of other frameworks, and stays until the gate is open.
PROGRAM = (
    "echo mpi $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, torch $RANK of $WORLD_SIZE node $NODE_RANK, "
    'jax $JAX_PROCESS_ID, at $ARES_NODE; while [ ! -e "$GATE" ]; do sleep 0.1; done; [ $RANK != "$FAILS" ] || exit 3'
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    open_mpi()
    with Platform(tmp_path_factory.mktemp("mpi"), warm=True) as platform:
        platform.server()
        for name in NODES:
            platform.agent(name)
        yield platform


@pytest.fixture
def three(nodes: Platform) -> Platform:
    for name, agent in nodes.agents.items():
        if not agent.alive:
            nodes.agent(name)
    return nodes


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "go"


def ask(gate: Path, fails: str = "", procs: int = 1) -> JobSpec:
    return JobSpec(
        command=("sh", "-c", PROGRAM),
        env={"GATE": str(gate), "FAILS": fails},
        resources=Resources(cpu_milli=200, memory_mib=128),
        retry=ONCE,
        gang=Gang(ranks=3, per_node=1),
        runtime=RuntimeWish(kind="mpi", procs=procs),
    )


def said(platform: Platform, job: str, rank: int) -> list[str]:
    return b"".join(platform.client().logs(job, rank=rank)).decode().splitlines()


def begun(platform: Platform, spec: JobSpec) -> str:
    """A job all of whose ranks have spoken."""
    job = platform.client().submit(spec).id
    for rank in range(3):
        eventually(lambda rank=rank: said(platform, job, rank), f"output of rank {rank}")
    return job


def processes(platform: Platform, job: str, name: str) -> dict[int, int]:
    """Process ids of the job by rank: of those whose command line has the name."""
    found = dict[int, int]()
    for pid, who in platform.job_processes().items():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            env = dict(line.split(b"=", 1) for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if line)
        except OSError:
            continue
        if who.split()[0] == job and name.encode() in words:
            found.setdefault(int(env[b"ARES_RANK_ID"]), pid)
    return found


def none_left(platform: Platform, job: str) -> None:
    eventually(
        lambda: not [who for who in platform.job_processes().values() if who.split()[0] == job],
        "the end of all processes",
    )


def test_ranks_are_places_and_each_has_its_own_output(three: Platform, gate: Path) -> None:
    job = begun(three, ask(gate, procs=2))
    client = three.client()
    places = client.get(job).state.placements
    for rank, place in enumerate(places):
        eventually(lambda rank=rank: len(said(three, job, rank)) == 2, f"two processes of rank {rank}")
        assert sorted(said(three, job, rank)) == [
            f"mpi {n} of 6, torch {n} of 6 node {rank}, jax {n}, at {place.node}" for n in (2 * rank, 2 * rank + 1)
        ]
    gate.touch()
    assert client.wait(job, timeout=60).state.phase == "SUCCEEDED"
    none_left(three, job)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_rank_that_fails_is_named(three: Platform, gate: Path, rank: int) -> None:
    job = begun(three, ask(gate, fails=str(rank)))
    gate.touch()
    detail = three.client().wait(job, timeout=60)
    assert detail.state.exit is not None
    assert (detail.state.phase, detail.state.exit.code) == ("FAILED", 3)
    assert f"rank {rank} on {detail.state.placements[rank].node}: process {rank} " in detail.state.reason
    failed = next(event for event in three.client().job_events(job) if event.kind == "failed")
    assert failed.data["rank"] == rank
    none_left(three, job)


@pytest.mark.parametrize("name", ["orted", "ares.agent.helper.main"])
def test_a_daemon_or_helper_that_is_killed_is_named(three: Platform, gate: Path, name: str) -> None:
    job = begun(three, ask(gate))
    os.kill(processes(three, job, name)[2], signal.SIGKILL)
    detail = three.client().wait(job, timeout=60)
    assert (detail.state.phase, "rank 2 on" in detail.state.reason) == ("FAILED", True), detail.state.reason
    none_left(three, job)


def test_a_frozen_daemon_ends_the_gang_by_our_own_watch(three: Platform, gate: Path) -> None:
    """Open MPI itself would wait for it for ever."""
    job = begun(three, ask(gate))
    os.kill(processes(three, job, "orted")[1], signal.SIGSTOP)
    detail = three.client().wait(job, timeout=60)
    assert (detail.state.phase, "rank 1 on" in detail.state.reason) == ("FAILED", True), detail.state.reason
    assert "has been stopped" in detail.state.reason
    none_left(three, job)


def test_a_dead_agent_is_the_reason_although_others_fail_at_once(three: Platform, gate: Path) -> None:
    job = begun(three, ask(gate))
    client = three.client()
    node = client.get(job).state.placements[1].node
    three.agents[node].kill()
    detail = client.wait(job, timeout=90)
    assert detail.state.exit is not None
    assert (detail.state.phase, detail.state.exit.failure) == ("FAILED", "node-lost"), detail.state.reason
    assert node in detail.state.reason
    none_left(three, job)
