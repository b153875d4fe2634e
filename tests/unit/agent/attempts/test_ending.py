"""Stopping, rank by rank: in which order, how often, and what is confirmed."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ares.agent.attempts.attempts import Attempts
from ares.agent.attempts.workspace import Workspace
from ares.agent.link.mailbox import Mailbox
from ares.agent.link.run_right import RunRight
from ares.agent.settings import AgentSettings
from ares.agent.transfer.transfers import Transfers
from ares.model.job import Gang, JobSpec
from ares.model.link import AttemptRef, Exited, Fenced, GangPeer, Resize, Start, Started, Stop, WorldInfo
from ares.model.node import NodeInfo
from ares.model.state import Fence, Placement
from ares.ports.executor import Finished, Launch
from tests.clocks import ManualClock, settle

REF = AttemptRef(job="j", tenant="t", fence=Fence(counter=1))
LONG_S = 1000.0
TIMEOUT_S = 20.0
TERM, CONT, USR1, USR2 = signal.SIGTERM, signal.SIGCONT, signal.SIGUSR1, signal.SIGUSR2


class Recorded:
    """A process that only notes what it is sent."""

    pid = 7

    def __init__(self) -> None:
        self.heard: list[int | str] = []
        self.handlers: set[int] = {USR1, USR2}
        self._finished: Callable[[Finished], None] | None = None

    def signal(self, signum: int) -> None:
        self.heard.append(signum)

    def tell(self, signum: int) -> None:
        """As the slot does: a process without a handler hears nothing of it."""
        if signum in self.handlers:
            self.heard.append(signum)

    def kill(self) -> None:
        self.heard.append("kill")
        self.exits(signum=signal.SIGKILL)

    def extend(self, deadline: float) -> None: ...

    def on_finished(self, callback: Callable[[Finished], None]) -> None:
        self._finished = callback

    def exits(self, code: int | None = None, signum: int | None = None) -> None:
        assert self._finished is not None
        self._finished(Finished(code=code, signal=signum, oom=False, max_rss_mib=1, cpu_s=0.0))


class Node:
    def __init__(self, folder: Path) -> None:
        self.clock, self.reports = ManualClock(), list[Any]()
        self.processes: list[Recorded] = []
        mailbox, run_right, workspace = Mailbox(), RunRight(self.clock), Workspace(folder)
        mailbox.report = self.reports.append  # type: ignore[method-assign]
        run_right.deadline = lambda _: self.clock.monotonic() + 7  # type: ignore[method-assign]
        workspace.clear()
        self.attempts = Attempts(
            info=NodeInfo(name="n1", cpu_milli=1000, memory_mib=1024),
            executor=self,  # type: ignore[arg-type]
            clock=self.clock,
            run_right=run_right,
            mailbox=mailbox,
            workspace=workspace,
            settings=AgentSettings(),
            transfers=Transfers(self.clock),
        )
        self.attempts.incarnation = 1

    async def start(self, launch: Launch) -> Recorded:
        self.processes.append(Recorded())
        return self.processes[-1]

    async def begin(self, *ranks: int, world: WorldInfo | None = None, **spec: Any) -> list[Recorded]:
        for rank in ranks:
            self.attempts.begin(start(rank, world or WorldInfo(), **spec))
        await settle()
        return self.processes[-len(ranks) :]

    def ends(self) -> list[tuple[type, int]]:
        return [(type(report), report.rank) for report in self.reports if not isinstance(report, Started)]


def start(rank: int, world: WorldInfo, **spec: Any) -> Start:
    return Start(
        ref=REF,
        attempt=1,
        spec=JobSpec(command=("true",), **spec),
        placement=Placement(node="n1", incarnation=1, cpu_milli=1, memory_mib=1, rank=rank),
        world=world,
    )


def stop(*ranks: int, grace_s: float = LONG_S, **more: Any) -> Stop:
    return Stop(ref=REF, grace_s=grace_s, reason="preempted", ranks=ranks, **more)


def world(generation: int, *ranks: int) -> WorldInfo:
    peers = tuple(GangPeer(rank=rank, node="n1", address="127.0.0.1") for rank in ranks)
    return WorldInfo(generation=generation, peers=peers, master_port=1)


def told(node: Node, rank: int) -> dict[str, Any]:
    """What the rank's file says."""
    (path,) = [a.folder.world for a in node.attempts.running() if a.key[1] == rank]
    return json.loads(Path(path).read_bytes())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.005)


async def test_checkpoint_then_sigterm_then_sigkill(node: Node) -> None:
    (process,) = await node.begin(0)
    node.attempts.stop(stop(grace_s=0.02, checkpoint_signal="SIGUSR1", wait_s=0.02))
    assert process.heard == [USR1, CONT]
    await until(lambda: "kill" in process.heard)
    assert process.heard == [USR1, CONT, TERM, CONT, "kill"]
    assert node.ends() == [(Fenced, 0)]


async def test_one_that_ends_by_itself_is_not_sent_more(node: Node) -> None:
    (process,) = await node.begin(0)
    node.attempts.stop(stop(checkpoint_signal="SIGUSR1", wait_s=LONG_S))
    process.exits(code=0)
    assert process.heard == [USR1, CONT]
    assert node.ends() == [(Fenced, 0)], "its right to run had ended: it is not a success"


@pytest.mark.parametrize("first", [{"checkpoint_signal": "SIGUSR1", "wait_s": LONG_S}, {}])
async def test_repeating_a_stop_changes_nothing_unless_it_is_at_once(node: Node, first: dict[str, Any]) -> None:
    (process,) = await node.begin(0)
    node.attempts.stop(stop(**first))
    before = list(process.heard)
    for again in (stop(**first), stop(grace_s=0, checkpoint_signal="SIGUSR2", wait_s=0.001)):
        node.attempts.stop(again)
    assert process.heard == before
    assert len(node.attempts.running()[0].timers) == 1
    # Without a signal to save its work there is nothing to wait for.
    node.attempts.stop(stop(grace_s=0, wait_s=LONG_S))
    assert process.heard == [*before, "kill"]


async def test_a_stop_without_a_checkpoint_ends_the_wait_for_one_and_its_repetition_changes_nothing(node: Node) -> None:
    (process,) = await node.begin(0)
    node.attempts.stop(stop(checkpoint_signal="SIGUSR1", wait_s=0.02))
    # As when the job is cancelled.
    for _ in range(3):
        node.attempts.stop(stop())
    assert process.heard == [USR1, CONT, TERM, CONT]
    node.attempts.stop(stop(checkpoint_signal="SIGUSR1", wait_s=LONG_S))
    # The time to save runs out, and says nothing more.
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, over.set)
    await over.wait()
    assert process.heard == [USR1, CONT, TERM, CONT]


async def test_a_time_limit_does_not_cut_the_saving_short(node: Node) -> None:
    (process,) = await node.begin(0, time_limit_s=0.01)
    node.attempts.stop(stop(checkpoint_signal="SIGUSR1", wait_s=LONG_S))
    await until(lambda: node.attempts.running()[0].timed_out)
    assert process.heard == [USR1, CONT]


async def test_an_agent_that_leaves_goes_on_waiting_for_a_checkpoint_while_there_is_time(node: Node) -> None:
    (process,) = await node.begin(0)
    node.attempts.stop(stop(checkpoint_signal="SIGUSR1", wait_s=LONG_S))
    node.attempts.stop_all(0.01, "the agent is shutting down", LONG_S)
    assert process.heard == [USR1, CONT]
    node.attempts.stop_all(0.0, "the agent is shutting down")
    assert process.heard == [USR1, CONT, "kill"]


async def test_an_agent_that_leaves_does_not_wait_for_a_checkpoint(node: Node) -> None:
    (process,) = await node.begin(0)
    node.attempts.stop(stop(checkpoint_signal="SIGUSR1", wait_s=LONG_S))
    node.attempts.stop_all(0.01, "the agent is shutting down")
    await until(lambda: "kill" in process.heard)
    assert process.heard == [USR1, CONT, TERM, CONT, "kill"]


async def test_only_the_ranks_that_are_named_end_and_each_is_confirmed(node: Node) -> None:
    first, second, third = await node.begin(0, 1, 2)
    node.attempts.stop(stop(1, 7, grace_s=0))
    assert [first.heard, second.heard, third.heard] == [[], ["kill"], []]
    assert sorted(node.ends(), key=lambda end: end[1]) == [(Fenced, 1), (Fenced, 7)]
    # A rank that was told to stop before its start came never runs; its sisters do.
    before = len(node.processes)
    await node.begin(7)
    assert (len(node.processes), node.ends()[-1]) == (before, (Fenced, 7))
    await node.begin(8)
    assert len(node.processes) == before + 1
    node.attempts.stop(stop(grace_s=0))
    assert all(process.heard == ["kill"] for process in node.processes)
    assert {rank for _, rank in node.ends()} == {0, 1, 2, 7, 8}


async def test_a_stop_of_what_has_ended_is_answered_again(node: Node) -> None:
    (process,) = await node.begin(3)
    process.exits(code=0)
    assert node.ends() == [(Exited, 3)]
    node.attempts.settled([report for report in node.reports if isinstance(report, Exited)])
    node.attempts.stop(stop(3))
    assert node.ends() == [(Exited, 3), (Fenced, 3)]


async def test_a_resize_is_told_once_and_to_those_who_stay(node: Node) -> None:
    gang = Gang(ranks=3, min_ranks=1, resize_signal="SIGUSR2")
    first, second = await node.begin(0, 2, world=world(0, 0, 1, 2), gang=gang)
    assert told(node, 2)["rank"] == 2
    for news in (world(2, 0, 2), world(2, 0, 2), world(1, 0, 1, 2)):
        node.attempts.resize(Resize(ref=REF, world=news))
    assert (first.heard, second.heard) == ([USR2], [USR2])
    seen = told(node, 2)
    assert (seen["generation"], seen["rank"], seen["worldSize"]) == (2, 1, 2)
    # One whose handler is not set yet would die of the signal.
    second.handlers.clear()
    node.attempts.resize(Resize(ref=REF, world=world(3, 0, 2, 4)))
    assert (first.heard, second.heard) == ([USR2, USR2], [USR2])
    assert told(node, 2)["generation"] == 3
    # A repeated start carries the newest world; a rank that leaves is left alone.
    node.attempts.begin(start(0, world(4, 0), gang=gang))
    assert told(node, 0)["generation"] == 4
    node.attempts.resize(Resize(ref=REF, world=world(4, 0)))
    assert (first.heard, second.heard) == ([USR2] * 3, [USR2])
    assert (told(node, 0)["generation"], told(node, 2)["generation"]) == (4, 3)


async def test_a_job_that_spoilt_its_directory_is_not_signalled(node: Node) -> None:
    (process,) = await node.begin(0, world=world(0, 0), gang=Gang(ranks=1, resize_signal="SIGUSR2"))
    path = node.attempts.running()[0].folder.world
    os.unlink(path)
    os.mkdir(path)
    node.attempts.resize(Resize(ref=REF, world=world(1, 0, 1)))
    assert process.heard == []
