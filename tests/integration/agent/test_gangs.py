"""Ranks of one attempt on several agents: they find each other, are resized, pinned and ended one by one."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ares import job as job_module
from ares.agent.settings import AgentSettings
from ares.model.job import Gang
from ares.model.link import Exited, Fenced, GangPeer, Resize, Started, Stop, WorldInfo
from ares.model.node import NumaNode
from tests.integration.agent.conftest import Running
from tests.integration.agent.scripted import ScriptedPlane
from tests.ports import free_ports
from tests.programs import ALL_REDUCE

PYTHON = (sys.executable, "-I", "-S", "-c")
CPUS = tuple(sorted(os.sched_getaffinity(0)))

# Says its place and the sum.
REDUCES = f"""{ALL_REDUCE}
print(rank, os.environ["ARES_LOCAL_RANK"], os.environ["ARES_LOCAL_SIZE"], os.environ["NODE_RANK"], total)
"""

# Elastic: says what it sees, at first and after every change.
WATCHES = """
import sys; sys.path.insert(0, {source!r})
import signal
from ares import job
seen = lambda world: print(world.generation, world.rank, world.size, flush=True)
job.on_resize(seen)
seen(job.world())
while True:
    signal.pause()
"""


class Cluster:
    """Agents, each on a control plane of its own."""

    def __init__(self, folder: Path, settings: AgentSettings, names: tuple[str, ...], **info: object) -> None:
        self.planes = {name: ScriptedPlane() for name in names}
        self.agents = [
            Running(folder / name, plane, settings, **{**info, "name": name}) for name, plane in self.planes.items()
        ]

    async def ready(self) -> None:
        for plane in self.planes.values():
            await plane.until(lambda plane=plane: plane.incarnation > 0)

    def start(self, world: WorldInfo, *command: str, **spec: Any) -> None:
        for peer in world.peers:
            plane = self.planes[peer.node]
            plane.say(plane.start("gang", *command, rank=peer.rank, world=world, **spec))

    async def close(self) -> None:
        for running in self.agents:
            running.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running.task


@pytest.fixture
async def cluster(tmp_path: Path, settings: AgentSettings) -> AsyncIterator[Cluster]:
    for name in "abc":
        (tmp_path / name).mkdir()
    cluster = Cluster(tmp_path, settings, ("a", "b", "c"), numa=(NumaNode(index=0, cpus=CPUS[:1], memory_mib=1024),))
    await cluster.ready()
    yield cluster
    await cluster.close()


def world(nodes: str, generation: int = 0, ranks: tuple[int, ...] = ()) -> WorldInfo:
    peers = tuple(
        GangPeer(rank=rank, node=node, address="127.0.0.1")
        for rank, node in zip(ranks or range(len(nodes)), nodes, strict=True)
    )
    return WorldInfo(generation=generation, peers=peers, master_port=free_ports(1)[0])


def lines(plane: ScriptedPlane, rank: int) -> list[str]:
    return next((log.decode().splitlines() for (_, r), log in plane.logs.items() if r == rank), [])


async def ends(plane: ScriptedPlane, count: int) -> dict[int, Exited]:
    await plane.until(lambda: len(plane.all(Exited)) >= count)
    return {exited.rank: exited for exited in plane.all(Exited)}


async def test_ranks_on_three_nodes_meet_and_reduce(cluster: Cluster) -> None:
    """Two of them share a node, each with its own directory, log and place."""
    cluster.start(world("abbc"), *PYTHON, REDUCES, gang=Gang(ranks=4))
    done = {
        **await ends(cluster.planes["a"], 1),
        **await ends(cluster.planes["b"], 2),
        **await ends(cluster.planes["c"], 1),
    }
    assert [done[rank].exit.code for rank in range(4)] == [0] * 4
    assert [done[rank].value for rank in range(4)] == [b'{"sum": 10, "attempt": 1}', b"", b"", b""]
    assert lines(cluster.planes["a"], 0) == ["0 0 1 0 10"]
    assert lines(cluster.planes["b"], 1) == ["1 0 2 1 10"]
    assert lines(cluster.planes["b"], 2) == ["2 1 2 2 10"]
    assert lines(cluster.planes["c"], 3) == ["3 0 1 3 10"]


async def test_a_gang_shrinks_under_way_and_only_the_rank_that_leaves_ends(cluster: Cluster) -> None:
    program = WATCHES.format(source=str(Path(job_module.__file__).parents[1]))
    gang = Gang(ranks=3, min_ranks=2, resize_signal="SIGUSR2")
    cluster.start(world("abb"), *PYTHON, program, gang=gang)
    a, b = cluster.planes["a"], cluster.planes["b"]
    await a.until(lambda: lines(a, 0) == ["0 0 3"])
    await b.until(lambda: lines(b, 1) == ["0 1 3"] and lines(b, 2) == ["0 2 3"])
    ref = b.all(Started)[0].ref
    b.say(Stop(ref=ref, grace_s=0, reason="the gang shrinks", ranks=(1,)))
    assert (await b.first(Fenced, "gang")).rank == 1
    for plane in (a, b):
        plane.say(Resize(ref=ref, world=world("ab", generation=1, ranks=(0, 2))))
    await a.until(lambda: lines(a, 0) == ["0 0 3", "1 0 2"])
    await b.until(lambda: lines(b, 2) == ["0 2 3", "1 1 2"])
    for plane, gone in ((a, {0}), (b, {1, 2})):
        plane.say(Stop(ref=ref, grace_s=0, reason="cancelled"))
        await plane.until(lambda plane=plane, gone=gone: {fenced.rank for fenced in plane.all(Fenced)} == gone)


async def test_a_preempted_rank_saves_its_work_before_it_goes(cluster: Cluster) -> None:
    plane = cluster.planes["a"]
    script = "trap 'echo saved; exit 0' USR1; trap 'echo terminated' TERM; echo up; while :; do sleep 0.05; done"
    cluster.start(world("a"), "sh", "-c", script)
    await plane.until(lambda: lines(plane, 0) == ["up"])
    ref = plane.all(Started)[0].ref
    plane.say(Stop(ref=ref, grace_s=1000, reason="preempted by x", checkpoint_signal="SIGUSR1", wait_s=1000))
    assert (await plane.first(Fenced, "gang")).reason == "preempted by x"
    assert lines(plane, 0)[-1] == "saved"
    assert "terminated" not in lines(plane, 0)
    assert not plane.all(Exited)


async def test_a_rank_runs_on_the_cpus_of_its_numa_node(cluster: Cluster) -> None:
    plane = cluster.planes["a"]
    look = "import os, json; print(json.dumps(sorted(os.sched_getaffinity(0))))"
    plane.say(plane.start("pinned", *PYTHON, look, numa="required", on_numa=0))
    assert (await plane.first(Exited, "pinned")).exit.code == 0
    assert json.loads(lines(plane, 0)[0]) == list(CPUS[:1])
    plane.say(plane.start("lost", *PYTHON, look, numa="required", on_numa=5))
    ended = (await plane.first(Exited, "lost")).exit
    assert ended.failure == "staging"
    assert "NUMA node 5" in ended.message
