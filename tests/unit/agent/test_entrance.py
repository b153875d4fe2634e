"""Sessions of a node: how many there may be, and what is said of them."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import cast

import pytest

from ares.agent.attempts.attempts import Attempts
from ares.agent.entry import entrance as module
from ares.agent.entry.entrance import Entrance
from ares.agent.settings import AgentSettings
from ares.model.job_session import (
    SESSIONS_PER_ATTEMPT_MAX,
    SESSIONS_PER_NODE_MAX,
    SESSIONS_PER_TENANT_MAX,
    USES_MAX,
    AttemptUse,
    GpuReading,
    ListSessions,
    MeasureUse,
    OpenSession,
    SessionSpec,
)
from ares.model.link import AttemptRef
from ares.model.node import NodeInfo
from ares.model.state import Fence
from tests.clocks import ManualClock
from tests.unit.agent.test_job_session import Command


class EnterableRank:
    async def enter(self, _entry: object) -> Command:
        return Command()


class Node:
    """Runs whatever attempt is asked for."""

    def __init__(self) -> None:
        self._known = dict[AttemptRef, SimpleNamespace]()

    def running(self) -> list[SimpleNamespace]:
        return list(self._known.values())

    def job(self, tenant: str, number: int) -> AttemptRef:
        ref = AttemptRef(job=f"{tenant}{number}", tenant=tenant, fence=Fence(epoch=1, counter=1))
        self._known[ref] = SimpleNamespace(key=(ref, 0), fenced="", ended=False, running=EnterableRank())
        return ref


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
async def entrance(node: Node, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Entrance]:
    def no_entry(*_: object) -> None:
        return None

    monkeypatch.setattr(module, "entry_of", no_entry)
    info = NodeInfo(name="n", cpu_milli=1000, memory_mib=1024)
    entrance = Entrance(info, cast("Attempts", node), AgentSettings(), ManualClock())
    yield entrance
    entrance.close()
    await asyncio.sleep(0)


async def opened(entrance: Entrance, ref: AttemptRef, count: int) -> set[str]:
    """The refusals of so many sessions that are asked for at once."""
    commands = [
        OpenSession(call=1, id=f"{ref.job}{number:016}", ref=ref, spec=SessionSpec(command=("sh",)))
        for number in range(count)
    ]
    answers = await asyncio.gather(*(entrance.open(command) for command in commands))
    return {answer.refused for answer in answers}


async def test_tenant_has_a_share_of_a_nodes_sessions_and_the_node_a_bound(entrance: Entrance, node: Node) -> None:
    each, jobs = SESSIONS_PER_ATTEMPT_MAX, SESSIONS_PER_TENANT_MAX // SESSIONS_PER_ATTEMPT_MAX
    tenants = SESSIONS_PER_NODE_MAX // SESSIONS_PER_TENANT_MAX
    for tenant in "abcdefgh"[:tenants]:
        for number in range(jobs):
            assert await opened(entrance, node.job(tenant, number), each) == {""}
        (refused,) = await opened(entrance, node.job(tenant, jobs), 1)
        assert f"{SESSIONS_PER_TENANT_MAX} sessions in your jobs on this node" in refused
    (refused,) = await opened(entrance, node.job("z", 0), 1)
    assert f"{SESSIONS_PER_NODE_MAX} sessions on this node" in refused


async def test_sessions_that_ended_make_room(entrance: Entrance, node: Node) -> None:
    ref = node.job("a", 0)
    assert await opened(entrance, ref, SESSIONS_PER_ATTEMPT_MAX) == {""}
    (refused,) = await opened(entrance, node.job("a", 1), 1)
    assert refused == ""
    session = entrance.find(ref, f"{ref.job}{0:016}")
    assert session is not None
    command = OpenSession(call=1, id="f" * 16, ref=ref, spec=SessionSpec(command=("sh",)))
    assert "sessions in this job already" in (await entrance.open(command)).refused
    session.end("it was ended")
    assert (await entrance.open(command)).refused == ""


async def test_long_commands_are_cut_where_sessions_are_told(entrance: Entrance, node: Node) -> None:
    ref = node.job("a", 0)
    spec = SessionSpec(command=("sh", *("x" * 60_000 for _ in range(100))))
    opening = await entrance.open(OpenSession(call=1, id="f" * 16, ref=ref, spec=spec))
    (view,) = entrance.list(ListSessions(call=2, ref=ref)).sessions
    assert opening.sessions == (view,)
    assert view.command == ("sh", *("x" * 200 for _ in range(15)))


async def test_use_of_more_attempts_than_an_answer_holds_is_cut(
    entrance: Entrance, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = AttemptRef(job="j", tenant="t", fence=Fence(epoch=1, counter=1))

    def many(*_: object) -> tuple[AttemptUse, ...]:
        return (AttemptUse(ref=ref, rank=0),) * (USES_MAX + 1)

    monkeypatch.setattr(module, "measured", many)
    assert len((await entrance.measure(MeasureUse(call=1))).uses) == USES_MAX


async def test_what_gpus_do_is_told_of_those_that_an_attempt_has_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other jobs do on a shared GPU is not told."""
    refs = [AttemptRef(job=f"j{number}", tenant="t", fence=Fence(epoch=1, counter=1)) for number in range(3)]
    places = [((0, 1), 1000), ((2,), 500), ((), 1000)]
    attempts = [
        SimpleNamespace(
            key=(ref, 0), running=SimpleNamespace(pid=1),
            start=SimpleNamespace(ref=ref, placement=SimpleNamespace(gpus=gpus, gpu_milli=milli)),
        )
        for ref, (gpus, milli) in zip(refs, places, strict=True)
    ]  # fmt: skip

    def uses(*_: object) -> tuple[AttemptUse, ...]:
        return tuple(AttemptUse(ref=ref, rank=0) for ref in refs)

    monkeypatch.setattr(module, "measured", uses)
    now = {index: GpuReading(index=index, busy_percent=50 + index, memory_mib=7) for index in (0, 2)}
    info = NodeInfo(name="n", cpu_milli=1000, memory_mib=1024)
    held = cast("Attempts", SimpleNamespace(running=lambda: attempts))
    entrance = Entrance(info, held, AgentSettings(), ManualClock(), lambda: now)
    found = (await entrance.measure(MeasureUse(call=1, refs=tuple(refs)))).uses
    # The driver says nothing of GPU 1.
    assert [use.gpus for use in found] == [(now[0],), (), ()]
    entrance.close()
