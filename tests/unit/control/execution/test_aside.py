"""A node's stream for sessions, as the replica holds it: bounded, whatever the agent sends or the client leaves."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from ares.adapters.clocks import SystemRng
from ares.control.execution import aside as module
from ares.control.execution.aside import NodeAside, SessionClient
from ares.control.execution.job_sessions import JobSessions
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job_session import (
    WINDOW_BYTES,
    AttachClient,
    ClientDropped,
    ClientLeft,
    ListSessions,
    SessionOutput,
    SessionTaken,
    SessionView,
    SideAnswer,
    SideHello,
    SideMessage,
    ToClient,
)
from ares.model.link import AttemptRef, OpenAside
from ares.model.state import Fence

REF = AttemptRef(job="j", tenant="t", fence=Fence(epoch=1, counter=1))
VIEW = SessionView(id="0123456789abcdef")


async def attached(aside: NodeAside) -> SessionClient:
    asking = asyncio.create_task(aside.attach(REF, VIEW.id, 0))
    command = await anext(aside.outgoing())
    assert isinstance(command, AttachClient)
    assert aside.take(SideAnswer(call=command.call, sessions=(VIEW,)))
    client = await asking
    assert isinstance(client, SessionClient)
    return client


def output(offset: int, size: int, stream: str = "out") -> SessionOutput:
    return SessionOutput(offset=offset, data=b"x" * size, stream="err" if stream == "err" else "out")


async def test_small_pieces_are_joined_and_confirmations_replace_each_other() -> None:
    aside = NodeAside("n")
    client = await attached(aside)
    for at in range(100):
        assert aside.take(ToClient(client=client.number, frame=output(at, 1)))
    for at in range(10):
        assert aside.take(ToClient(client=client.number, frame=SessionTaken(offset=at)))
    assert aside.take(ClientDropped(client=client.number, reason="over"))
    assert [frame async for frame in client.frames()] == [output(0, 100), SessionTaken(offset=9)]


async def test_agent_that_floods_a_client_loses_it() -> None:
    aside = NodeAside("n")
    client = await attached(aside)
    sent = 0
    while client.dropped is None:
        assert sent <= 4 * WINDOW_BYTES, "it is never cut off"
        aside.take(ToClient(client=client.number, frame=output(sent, 32 * 1024)))
        sent += 32 * 1024
    assert "more than it was asked for" in client.dropped


async def test_pieces_that_take_turns_are_bounded_in_number() -> None:
    aside = NodeAside("n")
    client = await attached(aside)
    for at in range(10_000):
        aside.take(ToClient(client=client.number, frame=output(at, 1, "err" if at % 2 else "out")))
    assert client.dropped is not None


async def test_agent_that_sends_for_sessions_it_does_not_have_is_cut_off() -> None:
    aside = NodeAside("n")
    late = [aside.take(ToClient(client=77, frame=output(0, 1))) for _ in range(100)]
    # Some are late, and do no harm.
    assert all(late)
    assert not all(aside.take(SideAnswer(call=number)) for number in range(20_000))
    assert not NodeAside("n").take(SideHello(node="n", key="k"))


async def test_late_messages_of_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    aside, loop, now = NodeAside("n"), asyncio.get_running_loop(), 1000.0
    monkeypatch.setattr(loop, "time", lambda: now)
    for _ in range(5):
        assert all(aside.take(SideAnswer(call=number)) for number in range(9_000))
        now += 61


async def test_end_of_the_stream_is_told_to_all_that_wait() -> None:
    aside = NodeAside("n")
    client = await attached(aside)
    calls = [asyncio.create_task(aside.call(lambda call: ListSessions(call=call, ref=REF))) for _ in range(100)]
    await asyncio.sleep(0)
    aside.close()
    answers = await asyncio.wait_for(asyncio.gather(*calls), 30)
    assert {answer.code for answer in answers if isinstance(answer, Refusal)} == {"node-silent"}
    assert [frame async for frame in client.frames()] == []
    assert client.dropped == ""


@pytest.mark.parametrize("how", ["cancelled", "silent"])
async def test_client_without_an_answer_is_not_left_behind(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "silent":
        monkeypatch.setattr(module, "_ANSWER_S", 0.0)
    aside = NodeAside("n")
    asking = asyncio.create_task(aside.attach(REF, VIEW.id, 0))
    commands = aside.outgoing()
    command = await anext(commands)
    assert isinstance(command, AttachClient)
    if how == "cancelled":
        asking.cancel()
    (no,) = await asyncio.gather(asking, return_exceptions=True)
    assert isinstance(no, asyncio.CancelledError if how == "cancelled" else Refusal)
    assert await asyncio.wait_for(anext(commands), 30) == ClientLeft(client=command.client)
    # It is a stray from now on, and no client takes it.
    assert aside.take(ToClient(client=command.client, frame=output(0, 1)))


async def test_stream_that_ends_while_a_client_attaches_is_a_refusal() -> None:
    aside = NodeAside("n")
    asking = asyncio.create_task(aside.attach(REF, VIEW.id, 0))
    await anext(aside.outgoing())
    aside.close()
    no = await asyncio.wait_for(asking, 30)
    assert isinstance(no, Refusal)
    assert no.code == "node-silent"


@pytest.mark.parametrize("refused", ["there is no such session", ""])
async def test_session_that_is_not_there_is_not_attached_to(refused: str) -> None:
    aside = NodeAside("n")
    asking = asyncio.create_task(aside.attach(REF, VIEW.id, 0))
    command = await anext(aside.outgoing())
    assert isinstance(command, AttachClient)
    aside.take(SideAnswer(call=command.call, refused=refused))
    no = await asking
    assert isinstance(no, Refusal)
    assert no.code == "not-found"


class _Agent:
    """The stream of one incarnation of a node, as far as sessions need it."""

    enterable = True

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.asked: asyncio.Queue[OpenAside] = asyncio.Queue()

    def send(self, command: OpenAside) -> None:
        self.asked.put_nowait(command)


async def test_the_stream_of_an_incarnation_that_is_over_is_not_asked() -> None:
    """The agent was killed with its machine's network up: that its stream broke is heard later."""
    agents: dict[str, Any] = {"n": _Agent(1)}
    sessions = JobSessions(cast("Any", None), agents, SystemRng())
    who = Principal(token_id="n", tenant="", role="node", node="n")

    async def silent(key: str) -> AsyncIterator[SideMessage]:
        yield SideHello(node="n", key=key)
        await asyncio.Event().wait()

    streams: list[asyncio.Task[None]] = []

    async def opened() -> NodeAside:
        finding = asyncio.create_task(sessions._aside("n"))  # pyright: ignore[reportPrivateUsage]
        command = await agents["n"].asked.get()

        async def run() -> None:
            async for _ in sessions.serve(who, silent(command.key)):
                pass

        streams.append(asyncio.create_task(run()))
        aside = await finding
        assert isinstance(aside, NodeAside)
        return aside

    old = await opened()
    client = asyncio.create_task(old.call(lambda call: ListSessions(call=call, ref=REF)))
    agents["n"] = _Agent(2)
    new = await opened()
    assert (old.incarnation, new.incarnation) == (1, 2)
    answer = await client
    assert isinstance(answer, Refusal)
    assert await sessions._aside("n") is new  # pyright: ignore[reportPrivateUsage]
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
