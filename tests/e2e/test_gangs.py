"""Gangs from submission to result, on three agents: they meet, fail together and shrink."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ares import job as job_module
from ares.model.job import Gang, JobSpec, Resources, RetryPolicy
from tests.platform import Platform, eventually
from tests.programs import ALL_REDUCE

NODES = ("node-a", "node-b", "node-c")
SOURCE = str(Path(job_module.__file__).parents[1])
QUICK = RetryPolicy(base_s=0.1, max_s=0.2)

# Says the sum, and stays until the gate is open.
REDUCES = f"""{ALL_REDUCE}
print("sum", total, flush=True)
while not os.path.exists(os.environ["GATE"]):
    time.sleep(0.05)
"""

# Says who takes part, at first and after every change, until the gate is open.
WATCHES = """
import os, sys, time; sys.path.insert(0, os.environ["SOURCE"])
from ares import job
seen = lambda world: print("world", world.generation, world.rank, world.size, flush=True)
job.on_resize(seen)
seen(job.world())
while not os.path.exists(os.environ["GATE"]):
    time.sleep(0.05)
job.result(job.world().size)
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with Platform(tmp_path_factory.mktemp("gangs"), warm=True) as platform:
        platform.server()
        for name in NODES:
            platform.agent(name)
        yield platform


@pytest.fixture
def three(nodes: Platform) -> Platform:
    """Three nodes with nothing on them, whatever the test before did to one."""
    for name, agent in nodes.agents.items():
        if not agent.alive:
            nodes.agent(name)
    return nodes


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "go"


def ask(gate: Path, program: str, gang: Gang, cpu_milli: int = 500) -> JobSpec:
    return JobSpec(
        command=(sys.executable, "-I", "-S", "-c", program),
        env={"GATE": str(gate), "SOURCE": SOURCE},
        resources=Resources(cpu_milli=cpu_milli, memory_mib=64),
        retry=QUICK,
        gang=gang,
    )


def ranks(platform: Platform, job: str) -> dict[int, int]:
    """Process ids of the job's ranks, by rank."""
    found = dict[int, int]()
    for pid, who in platform.job_processes().items():
        try:
            raw = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        env = {name: value for name, _, value in (line.decode(errors="replace").partition("=") for line in raw)}
        if who.split()[0] == job:
            found[int(env["ARES_RANK_ID"])] = pid
    return found


def lines(platform: Platform, job: str, rank: int) -> list[str]:
    return b"".join(platform.client().logs(job, rank=rank)).decode().splitlines()


def test_three_ranks_on_three_nodes_reduce_a_sum(three: Platform, gate: Path) -> None:
    client = three.client()
    job = client.submit(ask(gate, REDUCES, Gang(ranks=3, per_node=1)))
    for rank in range(3):
        eventually(lambda rank=rank: lines(three, job.id, rank) == ["sum 6"], f"the sum in rank {rank}")
    assert {place.node for place in client.get(job).state.placements} == set(NODES)
    gate.touch()
    detail = client.wait(job, timeout=30)
    assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 1)
    assert detail.result is not None
    assert detail.result.value == {"sum": 6, "attempt": 1}


def test_one_rank_lost_restarts_the_whole_attempt(three: Platform, gate: Path) -> None:
    client = three.client()
    job = client.submit(ask(gate, REDUCES, Gang(ranks=3, per_node=1)))
    eventually(lambda: len(ranks(three, job.id)) == 3 and lines(three, job.id, 0) == ["sum 6"], "the gang's first sum")
    first = ranks(three, job.id)
    os.kill(first[1], signal.SIGKILL)
    eventually(lambda: client.get(job).state.attempt == 2 and len(ranks(three, job.id)) == 3, "the second attempt")
    assert not set(first.values()) & set(ranks(three, job.id).values()), "no rank of the first attempt is left"
    gate.touch()
    detail = client.wait(job, timeout=60)
    assert (detail.state.phase, detail.state.attempt, detail.state.retries) == ("SUCCEEDED", 2, {"signal": 1})
    assert detail.result is not None
    assert detail.result.value == {"sum": 6, "attempt": 2}


def test_an_elastic_gang_goes_on_without_a_dead_node(three: Platform, gate: Path) -> None:
    client = three.client()
    elastic = Gang(ranks=3, min_ranks=2, per_node=1, resize_signal="SIGUSR2")
    job = client.submit(ask(gate, WATCHES, elastic))
    eventually(lambda: client.get(job).state.phase == "RUNNING", "the start of all ranks")
    places = client.get(job).state.placements
    stay = [place.rank for place in places[:2]]
    three.agents[places[2].node].kill()
    for number, rank in enumerate(stay):
        eventually(
            lambda rank=rank, number=number: (
                lines(three, job.id, rank) == [f"world 0 {number} 3", f"world 1 {number} 2"]
            ),
            f"the smaller world in rank {rank}",
        )
    state = client.get(job).state
    assert (state.phase, state.attempt, state.generation, len(state.placements)) == ("RUNNING", 1, 1, 2)
    gate.touch()
    detail = client.wait(job, timeout=30)
    assert detail.result is not None
    assert detail.result.value == 2


def test_an_elastic_gang_grows_into_a_new_node(platform: Platform, gate: Path) -> None:
    platform.server()
    for name in NODES[:2]:
        platform.agent(name)
    client = platform.client()
    # Each fills its node, so that there is room for the third only when a third node comes.
    elastic = Gang(ranks=3, min_ranks=2, resize_signal="SIGUSR2")
    job = client.submit(ask(gate, WATCHES, elastic, client.nodes()[0].info.cpu_milli))
    for rank in range(2):
        eventually(
            lambda rank=rank: lines(platform, job.id, rank) == [f"world 0 {rank} 2"], f"the start of rank {rank}"
        )
    platform.agent(NODES[2])
    eventually(lambda: lines(platform, job.id, 2) == ["world 1 2 3"], "the start of the new rank")
    for rank in range(2):
        eventually(
            lambda rank=rank: lines(platform, job.id, rank) == [f"world 0 {rank} 2", f"world 1 {rank} 3"],
            f"the larger world in rank {rank}",
        )
    gate.touch()
    detail = client.wait(job, timeout=30)
    assert (detail.state.phase, detail.state.attempt, detail.state.generation) == ("SUCCEEDED", 1, 1)
    assert detail.result is not None
    assert detail.result.value == 3


def test_a_gang_that_does_not_fit_takes_nothing(three: Platform, gate: Path) -> None:
    """All or nothing: what is free for two of its ranks goes to others."""
    client = three.client()
    big = client.submit(ask(gate, REDUCES, Gang(ranks=4, per_node=1)))
    small = client.submit(ask(gate, REDUCES, Gang(ranks=3, per_node=1)))
    eventually(lambda: client.get(small).state.phase == "RUNNING", "the start of the gang that fits")
    assert (client.get(big).state.phase, client.get(big).state.placements) == ("PENDING", ())
    assert not ranks(three, big.id)
    gate.touch()
    assert client.wait(small, timeout=30).state.phase == "SUCCEEDED"
    client.cancel(big)
