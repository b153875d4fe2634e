"""Requests about a job that a cluster owns: passed on by the global plane, answered in the cluster.

One stream carries all of them. An answer waits for its reader: so many bytes may be on the way, and no more.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Protocol

import structlog

from ares.model.access import Principal
from ares.model.cluster_link import (
    AskBody,
    AskClosed,
    AskCommand,
    AskFed,
    AskInput,
    AskMessage,
    AskOver,
    AskStart,
    AskTook,
    ReadAsk,
)
from ares.ports.cluster_link import AskStream

log = structlog.get_logger()

PIECE_BYTES = 256 * 1024
_WINDOW_BYTES = 1024 * 1024
# Requests of one cluster that are under way at once.
_ASKS_MAX = 500
# What a cluster may send beyond the window before its answer is cut off, and what a piece counts beside its bytes.
_BEYOND_BYTES = 1024 * 1024
_PIECE_COST = 64
# Commands that a cluster leaves unread before its stream is cut off.
_UNREAD_MAX = 20_000
_START_S = 30.0


class AskReply(Protocol):
    """What the cluster's API answers with. An answer that is a conversation hears what the person says in it, and ends
    with a close code."""

    async def begin(self, status: int, headers: dict[str, str]) -> None: ...

    async def body(self, data: bytes, more: bool) -> None: ...

    async def heard(self) -> bytes: ...

    async def close(self, code: int, reason: str) -> None: ...


class Answerer(Protocol):
    """The cluster's own API, for a caller that the global plane has let in."""

    async def __call__(self, ask: ReadAsk, reply: AskReply) -> None: ...


# ---- in the cluster


class _UnreadBytes:
    """How much of one side's words is on its way."""

    def __init__(self) -> None:
        self._open = 0
        self._moved = asyncio.Event()

    async def take(self, size: int) -> None:
        while self._open and self._open + size > _WINDOW_BYTES:
            self._moved.clear()
            await self._moved.wait()
        self._open += size

    def took(self, size: int) -> None:
        self._open = max(0, self._open - size)
        self._moved.set()


class _StreamReply:
    """`AskReply` on one stream."""

    def __init__(self, ask: ReadAsk, send: Callable[[AskMessage], Awaitable[None]]) -> None:
        self._number, self._send = ask.id, send
        self.window = _UnreadBytes()
        self._inputs: deque[bytes] = deque()
        self._waiting = 0
        self._moved = asyncio.Event()

    def put(self, data: bytes) -> bool:
        """What the person says; False when it is more than may be on its way."""
        self._inputs.append(data)
        self._waiting += len(data) + _PIECE_COST
        self._moved.set()
        return self._waiting <= _WINDOW_BYTES + _BEYOND_BYTES

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        await self._send(AskStart(id=self._number, status=status, headers=headers))

    async def body(self, data: bytes, more: bool) -> None:
        pieces = [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)] or [b""]
        for number, piece in enumerate(pieces, start=1):
            await self.window.take(len(piece))
            await self._send(AskBody(id=self._number, data=piece, more=more or number < len(pieces)))

    async def heard(self) -> bytes:
        while not self._inputs:
            self._moved.clear()
            await self._moved.wait()
        data = self._inputs.popleft()
        self._waiting -= len(data) + _PIECE_COST
        await self._send(AskFed(id=self._number, size=len(data)))
        return data

    async def close(self, code: int, reason: str) -> None:
        await self._send(AskClosed(id=self._number, code=code, reason=reason[:120]))


async def answer_asks(stream: AskStream, answerer: Answerer) -> None:
    """Until the stream ends."""
    sending = asyncio.Lock()
    under_way: dict[int, tuple[asyncio.Task[None], _StreamReply]] = {}

    async def write(message: AskMessage) -> None:
        async with sending:
            await stream.send(message)

    async def send(message: AskMessage) -> None:
        # A person who is gone ends one answer. A write that is cancelled in the middle would end the stream of all.
        await asyncio.shield(write(message))

    try:
        async for command in stream.commands():
            if isinstance(command, ReadAsk):
                reply = _StreamReply(command, send)
                task = asyncio.create_task(_answer(command, answerer, reply), name=f"ask {command.operation}")
                under_way[command.id] = (task, reply)
                task.add_done_callback(lambda _, number=command.id: under_way.pop(number, None))
            elif (found := under_way.get(command.id)) is not None:
                _told(command, *found)
    finally:
        tasks = [task for task, _ in under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _told(command: AskOver | AskTook | AskInput, task: asyncio.Task[None], reply: _StreamReply) -> None:
    match command:
        case AskTook():
            reply.window.took(command.size)
        case AskInput() if reply.put(command.data):
            pass
        case _:
            task.cancel()


async def _answer(ask: ReadAsk, answerer: Answerer, reply: _StreamReply) -> None:
    try:
        await answerer(ask, reply)
    except Exception as error:
        log.error("ask.failed", operation=ask.operation, error=repr(error), exc_info=error)
        with contextlib.suppress(Exception):
            await reply.body(b"", more=False)


# ---- at the global plane


class AskAnswer:
    """One answer as it comes."""

    def __init__(self, ask: ReadAsk, say: Callable[[AskCommand], None]) -> None:
        self._ask = ask
        self._say = say
        self._pieces: deque[AskBody] = deque()
        self._waiting = 0
        self._moved = asyncio.Event()
        self._fed = _UnreadBytes()
        self.start: AskStart | None = None
        self.closed: AskClosed | None = None
        self.broken = self.whole = False

    @property
    def number(self) -> int:
        return self._ask.id

    def take(self, message: AskMessage) -> None:
        if isinstance(message, AskBody):
            self._pieces.append(message)
            self._waiting += len(message.data) + _PIECE_COST
            if self._waiting > _WINDOW_BYTES + _BEYOND_BYTES:
                # It does not wait for its reader: this server's memory is not the place for its answer.
                self._pieces.clear()
                self.broken = True
        elif isinstance(message, AskFed):
            self._fed.took(message.size)
        elif isinstance(message, AskClosed):
            # Nothing follows it.
            self.closed = self.closed or message
            self._pieces.append(AskBody(id=message.id, data=b"", more=False))
        elif self.start is None:
            self.start = message
        self._moved.set()

    def end(self) -> None:
        self.broken = True
        self._moved.set()

    async def feed(self, data: bytes) -> None:
        """What the person says in a conversation. It waits while the cluster has much of it unread."""
        await self._fed.take(len(data))
        self._say(AskInput(id=self._ask.id, data=data))

    async def begun(self) -> AskStart | None:
        """None when the cluster went away first, or takes too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                while self.start is None and not self.broken:
                    self._moved.clear()
                    await self._moved.wait()
        return self.start

    async def pieces(self) -> AsyncIterator[bytes]:
        """Raises ConnectionError when the cluster goes away in the middle."""
        while True:
            while not self._pieces:
                if self.broken:
                    raise ConnectionError("the cluster went away in the middle of its answer")
                self._moved.clear()
                await self._moved.wait()
            piece = self._pieces.popleft()
            self._waiting -= len(piece.data) + _PIECE_COST
            if piece.data:
                yield piece.data
                self._say(AskTook(id=self._ask.id, size=len(piece.data)))
            if not piece.more:
                self.whole = True
                return


class _Channel:
    def __init__(self) -> None:
        self.out: deque[AskCommand] = deque()
        self.wake = asyncio.Event()
        self.answers: dict[int, AskAnswer] = {}
        self.closed = False

    def say(self, command: AskCommand) -> None:
        self.out.append(command)
        if len(self.out) > _UNREAD_MAX:
            self.out.clear()
            self.closed = True
        self.wake.set()


class AskStreams:
    """The streams by which clusters answer, each with the requests that are under way on it."""

    def __init__(self) -> None:
        self._channels: dict[str, _Channel] = {}
        self._number = 0

    async def serve(self, who: Principal, messages: AsyncIterator[AskMessage]) -> AsyncGenerator[AskCommand, None]:
        assert who.cluster is not None, "only clusters are let in"
        channel = self._channels[who.cluster] = _Channel()
        reading = asyncio.create_task(self._read(channel, messages))
        reading.add_done_callback(lambda _: channel.wake.set())
        try:
            while not reading.done() and not channel.closed:
                while channel.out:
                    yield channel.out.popleft()
                channel.wake.clear()
                await channel.wake.wait()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            if self._channels.get(who.cluster) is channel:
                del self._channels[who.cluster]
            for answer in tuple(channel.answers.values()):
                answer.end()

    async def _read(self, channel: _Channel, messages: AsyncIterator[AskMessage]) -> None:
        async for message in messages:
            # An answer that is not wanted any more is dropped, and so is one that was never asked for.
            if (answer := channel.answers.get(message.id)) is not None:
                answer.take(message)

    def reaches(self, cluster: str) -> bool:
        return cluster in self._channels

    def ask(self, cluster: str, made: Callable[[int], ReadAsk]) -> AskAnswer | None:
        """None when the cluster is not connected here, or is asked too much already. The caller ends it by `forget`."""
        channel = self._channels.get(cluster)
        if channel is None or len(channel.answers) >= _ASKS_MAX:
            return None
        self._number += 1
        ask = made(self._number)
        answer = channel.answers[ask.id] = AskAnswer(ask, channel.say)
        channel.say(ask)
        return answer

    def forget(self, cluster: str, answer: AskAnswer) -> None:
        channel, number = self._channels.get(cluster), answer.number
        if channel is not None and channel.answers.pop(number, None) is not None and not answer.whole:
            channel.say(AskOver(id=number))
