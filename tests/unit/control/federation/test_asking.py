"""Requests that are read through to a cluster, and conversations: one stream for all of them."""

import asyncio
from collections.abc import AsyncIterator

from ares.control.federation.asking import AskReply, AskStreams, answer_asks
from ares.model.access import Principal
from ares.model.cluster_link import AskCommand, AskInput, AskMessage, AskOver, ReadAsk

WHO = Principal(token_id="", tenant="", role="cluster", cluster="east")


def _ask(number: int, operation: str = "attachSession") -> ReadAsk:
    return ReadAsk(id=number, operation=operation, path={}, query=b"", headers={}, body=b"", who=b"{}")


class _FragileStream:
    """As a stream of gRPC: a write that is cancelled in the middle ends all of it."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[AskCommand | None] = asyncio.Queue()
        self.sent: list[AskMessage] = []
        self.writes = asyncio.Event()
        self.writing = asyncio.Event()
        self.broken = False

    async def send(self, message: AskMessage) -> None:
        self.writing.set()
        try:
            await self.writes.wait()
        except asyncio.CancelledError:
            self.broken = True
            raise
        self.sent.append(message)

    async def commands(self) -> AsyncIterator[AskCommand]:
        while (command := await self.told.get()) is not None:
            yield command

    async def close(self) -> None:
        return


async def test_a_person_who_leaves_in_the_middle_of_a_write_ends_one_answer_and_not_the_stream() -> None:
    stream = _FragileStream()

    async def answerer(_ask: ReadAsk, reply: AskReply) -> None:
        await reply.begin(200, {})
        await reply.body(b"more", more=False)

    serving = asyncio.create_task(answer_asks(stream, answerer))
    await stream.told.put(_ask(1))
    await stream.writing.wait()
    await stream.told.put(AskOver(id=1))
    await stream.told.put(_ask(2))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not stream.broken
    stream.writes.set()
    async with asyncio.timeout(10.0):
        while len(stream.sent) < 3:
            await asyncio.sleep(0)
    assert [message.id for message in stream.sent] == [1, 2, 2]
    await stream.told.put(None)
    await serving


async def test_messages_of_a_conversation_wait_for_the_side_that_reads_them() -> None:
    """So many bytes are on their way, whichever side does not read."""
    asks = AskStreams()
    up: asyncio.Queue[AskMessage] = asyncio.Queue()
    commands: list[AskCommand] = []

    async def said() -> AsyncIterator[AskMessage]:
        while True:
            yield await up.get()

    async def serve() -> None:
        async for command in asks.serve(WHO, said()):
            commands.append(command)  # noqa: PERF401

    serving = asyncio.create_task(serve())
    await asyncio.sleep(0)
    answer = asks.ask("east", _ask)
    assert answer is not None
    piece = b"x" * 256 * 1024
    feeding = asyncio.create_task(_feed(answer.feed, piece, 100))
    for _ in range(300):
        await asyncio.sleep(0)
    assert len([command for command in commands if isinstance(command, AskInput)]) == 4
    assert not feeding.done()
    feeding.cancel()
    serving.cancel()
    await asyncio.gather(feeding, serving, return_exceptions=True)


async def _feed(feed: object, piece: bytes, times: int) -> None:
    for _ in range(times):
        await feed(piece)  # pyright: ignore[reportCallIssue]
