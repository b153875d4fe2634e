"""Streams for output beside sessions of agents: by the same rights, into the same logs, and no longer than they are."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ares.control.execution.enrolment import SessionRefused
from ares.model.access import Principal
from ares.model.link import LogChunk, Start, Welcome
from ares.model.telemetry.log_stream import LogAcks, LogFrame, LogHello, LogMessage
from tests.agents import ScriptedAgent
from tests.clocks import settle
from tests.world import ALICE, World


class Stream:
    """The far end of `LogStreams.serve`."""

    def __init__(self, world: World, node: str) -> None:
        self._out: asyncio.Queue[LogMessage | None] = asyncio.Queue()
        self.answers: list[LogAcks] = []
        who = Principal(token_id=f"node-{node}", tenant="system", role="node", node=node)
        self.task = asyncio.create_task(self._run(world, who))

    async def _run(self, world: World, who: Principal) -> None:
        async for acks in world.one.sessions.log_streams.serve(who, self._messages()):
            self.answers.append(acks)

    async def _messages(self) -> AsyncIterator[LogMessage]:
        while (message := await self._out.get()) is not None:
            yield message

    async def says(self, *messages: LogMessage | None) -> None:
        for message in messages:
            self._out.put_nowait(message)
        await settle()

    @property
    def offsets(self) -> list[int]:
        return [ack.offset for acks in self.answers for ack in acks.acks]


def _number(agent: ScriptedAgent) -> int:
    (welcome,) = [message for message in agent.received if isinstance(message, Welcome)]
    return welcome.log_stream


def _chunk(start: Start, offset: int, data: bytes) -> LogFrame:
    return LogFrame(chunks=(LogChunk(ref=start.ref, rank=0, attempt=1, offset=offset, data=data),))


async def _text(world: World, job: str) -> bytes:
    piece = await world.one.logs.read(ALICE, job, attempt=1, rank=0, offset=0, limit=1 << 20)
    return b"" if piece is None else piece.data


async def test_output_of_either_stream_is_one_log() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.log(start, 0, b"one\n")
        await world.settle()
        stream = Stream(world, agent.info.name)
        await stream.says(LogHello(node=agent.info.name, number=_number(agent)), _chunk(start, 4, b"two\n"))
        await stream.says(_chunk(start, 4, b"two\n"), _chunk(start, 8, b"three\n"))
        assert stream.offsets == [8, 8, 14]
        assert agent.log_acks == [4], "answers went by the wrong stream"
        agent.exited(start)
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"
        assert await _text(world, job) == b"one\ntwo\nthree\n"
        await stream.says(None)
        await stream.task


async def test_a_gap_is_told_and_the_end_waits_for_the_whole_log() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.resends_logs = True
        await agent.connect(world.one.sessions, alive=(start.ref,))
        stream = Stream(world, agent.info.name)
        await stream.says(LogHello(node=agent.info.name, number=_number(agent)), _chunk(start, 4, b"two\n"))
        assert stream.answers[0].acks[0].trouble
        end = agent.exit_report(start)
        agent.send(end)
        await world.settle()
        assert world.state(job).phase == "RUNNING", "an end was taken without its output"
        await stream.says(_chunk(start, 0, b"one\ntwo\n"))
        agent.send(end)
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"
        assert await _text(world, job) == b"one\ntwo\n"
        await stream.says(None)


@pytest.mark.parametrize("hello", ["other node", "other session", "no hello", "twice"])
async def test_a_stream_of_no_open_session_is_refused(hello: str) -> None:
    async with World() as world:
        agent, job = await world.running()
        name, number = agent.info.name, _number(agent)
        first: dict[str, tuple[LogMessage, ...]] = {
            "other node": (LogHello(node="n99", number=number),),
            "other session": (LogHello(node=name, number=number + 1),),
            "no hello": (_chunk(agent.starts[job], 0, b"x"),),
            "twice": (LogHello(node=name, number=number), LogHello(node=name, number=number)),
        }
        stream = Stream(world, name)
        await stream.says(*first[hello])
        with pytest.raises(SessionRefused):
            await stream.task
        assert stream.answers == []
        assert await _text(world, job) == b""


async def test_a_stream_ends_with_its_session_and_with_the_next_stream() -> None:
    async with World() as world:
        agent, job = await world.running()
        start, name = agent.starts[job], agent.info.name
        early = _number(agent)
        older, newer = Stream(world, name), Stream(world, name)
        await older.says(LogHello(node=name, number=early))
        await newer.says(LogHello(node=name, number=early))
        await older.task
        await agent.connect(world.one.sessions, alive=(start.ref,))
        await newer.task
        late = Stream(world, name)
        await late.says(LogHello(node=name, number=early), _chunk(start, 0, b"late"))
        with pytest.raises(SessionRefused, match="not open here"):
            await late.task
        assert await _text(world, job) == b""


async def test_output_of_an_attempt_that_was_taken_away_is_not_kept() -> None:
    async with World() as world:
        agent, job = await world.running()
        start, other = agent.starts[job], await world.agent("other")
        stream = Stream(world, "other")
        await stream.says(LogHello(node="other", number=_number(other)), _chunk(start, 0, b"forged"))
        assert stream.offsets == [6], "it is told to forget it"
        assert await _text(world, job) == b""
        await stream.says(None)
