"""Real Open MPI on three agents, without ssh: it starts, the rank that is struck is named, and nothing is left."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ares.model.job import Gang, JobSpec, Resources, RetryPolicy, RuntimeWish
from tests.platform import Platform, eventually, say
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


def test_mpirun_that_is_killed_is_named_and_not_the_daemons_that_end_with_it(three: Platform, gate: Path) -> None:
    job = begun(three, ask(gate))
    strike(three, job, "mpirun", 0, signal.SIGKILL)
    detail = three.client().wait(job, timeout=60)
    assert (detail.state.phase, "rank 0 on" in detail.state.reason) == ("FAILED", True), detail.state.reason
    none_left(three, job)


def test_a_frozen_helper_is_named_although_it_says_nothing(three: Platform, gate: Path) -> None:
    job = begun(three, ask(gate))
    strike(three, job, "ares.agent.helper.main", 2, signal.SIGSTOP)
    detail = three.client().wait(job, timeout=60)
    assert (detail.state.phase, "rank 2 on" in detail.state.reason) == ("FAILED", True), detail.state.reason
    none_left(three, job)


def strike(platform: Platform, job: str, name: str, rank: int, signum: signal.Signals) -> None:
    """At the agent of the rank, or at a process of the rank in its slot."""
    if name == "agent":
        node = platform.client().get(job).state.placements[rank].node
        os.kill(platform.agents[node].pid, signum)
    else:
        os.kill(processes(platform, job, name)[rank], signum)


STRIKES = [
    (name, rank, signum)
    for name, ranks in (
        ("orted", (1, 2)),
        ("ares.agent.helper.main", (0, 1, 2)),
        ("agent", (0, 1, 2)),
        ("mpirun", (0,)),
    )
    for rank in ranks
    for signum in (signal.SIGKILL, signal.SIGSTOP)
]


@pytest.mark.soak
def test_the_struck_rank_is_named_whatever_is_struck(three: Platform, tmp_path: Path) -> None:
    """ARES_STRIKES rounds of every part, killed and stopped."""
    rounds, named, missed = int(os.environ.get("ARES_STRIKES", "2")), list[bool](), list[str]()
    took, client = list[float](), three.client()
    for number, (name, rank, signum) in enumerate(STRIKES * rounds):
        job = begun(three, ask(tmp_path / f"never-{number}"))
        node, at = client.get(job).state.placements[rank].node, time.time()
        strike(three, job, name, rank, signum)
        detail = client.wait(job, timeout=90)
        events = client.job_events(job)
        took.append(next(event.at for event in events if event.kind == "failed") - at)
        named.append(f"rank {rank} on" in detail.state.reason or f"{node}" in detail.state.reason)
        if not named[-1]:
            missed.append(f"{name} of rank {rank} by {signum.name}: {detail.state.reason}")
        if name == "agent":
            if signum == signal.SIGSTOP:
                three.agents[node].resume()
            else:
                three.agents[node].start()
            eventually(lambda: sum(found.ready for found in client.nodes()) == len(NODES), "the node's return")
        none_left(three, job)
    say(f"{sum(named)} of {len(named)} named; the end came after {max(took):.1f} s at most; missed: {missed}")
    assert sum(named) >= 0.95 * len(named), missed


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
