"""A node's stream for sessions in its jobs, and the clients that are attached through this replica.

Nothing here is kept: sessions live on their nodes. Whatever waits here is bounded, also when an agent sends more than
it should, or a client reads nothing.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

from ares.core.refusal import Refusal
from ares.model.job_session import (
    PIECE_BYTES_MAX,
    WINDOW_BYTES,
    AttachClient,
    ClientDropped,
    ClientFrame,
    ClientLeft,
    FromClient,
    SessionFrame,
    SessionId,
    SessionOutput,
    SessionTaken,
    SessionView,
    SideAnswer,
    SideCommand,
    SideMessage,
    ToClient,
)
from ares.model.link import AttemptRef

# Commands that wait to be sent to the agent. With all of them full, clients wait, each for its turn.
_WAITING_MAX: Final = 32
_ANSWER_S: Final = 20.0
# The most of one client that waits to be sent to it. An honest agent stays far below.
_HELD_BYTES_MAX: Final = 2 * WINDOW_BYTES
_HELD_FRAMES_MAX: Final = 4096
# Messages for clients that are not attached. Some are late; an agent that sends so many in a while is out of its mind.
_STRAY_MAX: Final = 10_000
_STRAY_S: Final = 60.0


class AsideEnded(Exception):
    """The stream for sessions ended."""


class SessionClient:
    """A client that is attached to a session through this replica."""

    def __init__(self, number: int, aside: "NodeAside") -> None:
        self.number = number
        self._aside = aside
        self._frames: deque[SessionFrame] = deque()
        self._bytes = 0
        self._ready = asyncio.Event()
        # Why it is over; None while it is attached.
        self.dropped: str | None = None
        # The attempt and rank of its session, and the session as it was when the client attached.
        self.place: tuple[AttemptRef, int] | None = None
        self.session: SessionView | None = None

    async def frames(self) -> AsyncIterator[SessionFrame]:
        """What the session says, until the client is dropped."""
        while True:
            while self._frames:
                frame = self._frames.popleft()
                if isinstance(frame, SessionOutput):
                    self._bytes -= len(frame.data)
                yield frame
            if self.dropped is not None:
                return
            self._ready.clear()
            await self._ready.wait()

    async def send(self, frame: ClientFrame) -> None:
        await self._aside.put(FromClient(client=self.number, frame=frame))

    async def leave(self) -> None:
        await self._aside.leave(self)

    def take(self, frame: SessionFrame) -> None:
        last = self._frames[-1] if self._frames else None
        if isinstance(frame, SessionOutput):
            self._bytes += len(frame.data)
            if isinstance(last, SessionOutput) and (joined := _joined(last, frame)) is not None:
                self._frames[-1] = joined
                return
        elif isinstance(frame, SessionTaken) and isinstance(last, SessionTaken):
            self._frames.pop()
        self._frames.append(frame)
        self._ready.set()
        if self._bytes > _HELD_BYTES_MAX or len(self._frames) > _HELD_FRAMES_MAX:
            self.drop("the node sent more than it was asked for; attach again")

    def drop(self, why: str) -> None:
        self.dropped = self.dropped or why
        self._ready.set()


def _joined(last: SessionOutput, frame: SessionOutput) -> SessionOutput | None:
    follows = last.stream == frame.stream and last.offset + len(last.data) == frame.offset
    if not follows or len(last.data) + len(frame.data) > PIECE_BYTES_MAX:
        return None
    return SessionOutput(offset=last.offset, data=last.data + frame.data, stream=last.stream)


class NodeAside:
    """The open stream of one node, in one incarnation of it."""

    def __init__(self, node: str, incarnation: int = 0) -> None:
        self.node = node
        self.incarnation = incarnation
        # Commands to send. Invariant: no more than `_WAITING_MAX`.
        self._waiting: deque[SideCommand] = deque()
        self._room, self._ready = asyncio.Event(), asyncio.Event()
        self._calls: dict[int, asyncio.Future[SideAnswer]] = {}
        self._clients: dict[int, SessionClient] = {}
        self._numbers = 0
        # Tasks that tell the agent of clients which left.
        self._leaving: set[asyncio.Task[None]] = set()
        # Messages for no client since then, by the loop's clock.
        self._stray, self._stray_since = 0, 0.0
        self._over = False

    async def outgoing(self) -> AsyncIterator[SideCommand]:
        while not self._over:
            while self._waiting:
                command = self._waiting.popleft()
                self._room.set()
                yield command
            self._ready.clear()
            await self._ready.wait()

    async def put(self, command: SideCommand) -> None:
        """Waits for room. A stream that ended takes nothing."""
        while len(self._waiting) >= _WAITING_MAX and not self._over:
            self._room.clear()
            await self._room.wait()
        if not self._over:
            self._waiting.append(command)
            self._ready.set()

    async def call(self, command: Callable[[int], SideCommand]) -> SideAnswer | Refusal:
        """Sends a command and waits for its answer."""
        self._numbers += 1
        number = self._numbers
        answer = self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_ANSWER_S):
                await self.put(command(number))
                return await answer
        except TimeoutError:
            return Refusal(code="node-silent", message=f"node {self.node} did not answer within {_ANSWER_S:g} s")
        except AsideEnded:
            return Refusal(code="node-silent", message=f"the connection of node {self.node} broke just now")
        finally:
            del self._calls[number]

    async def attach(self, ref: AttemptRef, session_id: SessionId, offset: int) -> SessionClient | Refusal:
        self._numbers += 1
        client = SessionClient(self._numbers, self)
        # Before the answer: output may come right behind it.
        self._clients[client.number] = client
        try:
            answer = await self.call(
                lambda call: AttachClient(call=call, client=client.number, id=session_id, ref=ref, offset=offset)
            )
        except BaseException:
            self._abandon(client)
            raise
        if isinstance(answer, Refusal):
            self._abandon(client)
            return answer
        if answer.refused or not answer.sessions:
            self._clients.pop(client.number, None)
            return Refusal(code="not-found", message=answer.refused)
        client.session = answer.sessions[0]
        client.place = (ref, client.session.rank)
        return client

    async def leave(self, client: SessionClient) -> None:
        if self._clients.pop(client.number, None) is not None:
            await self.put(ClientLeft(client=client.number))

    def _abandon(self, client: SessionClient) -> None:
        """A client that did not wait for its answer, or got none: the agent may have attached it all the same."""
        leaving = asyncio.create_task(self.leave(client))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def take(self, message: SideMessage) -> bool:
        """False when the agent must be cut off."""
        match message:
            case SideAnswer(call=number):
                if (answer := self._calls.get(number)) is not None and not answer.done():
                    answer.set_result(message)
                    return True
            case ToClient(client=number, frame=frame):
                if (client := self._clients.get(number)) is not None:
                    client.take(frame)
                    return True
            case ClientDropped(client=number, reason=reason):
                if (client := self._clients.pop(number, None)) is not None:
                    client.drop(reason or "dropped")
                    return True
            case _:
                return False
        now = asyncio.get_running_loop().time()
        if now - self._stray_since > _STRAY_S:
            self._stray, self._stray_since = 0, now
        self._stray += 1
        return self._stray < _STRAY_MAX

    def close(self) -> None:
        if self._over:
            return
        self._over = True
        for client in self._clients.values():
            client.drop("")
        self._clients.clear()
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(AsideEnded())
        # Those that wait go on, and find it over.
        self._waiting.clear()
        self._room.set()
        self._ready.set()
