"""Streams between agents and replicas, and calls of clients, over a network that delays, holds back and breaks.

A stream keeps its order, as TCP does. Data sent into a cut waits until the cut is healed or the stream breaks; the
other end of a cut does not learn of a break.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ares.control.execution.enrolment import SessionRefused
from ares.control.execution.sessions import Sessions
from ares.control.execution.staging import Staging
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.link import AgentFrame, FetchPiece, FetchRequest, JoinReply, JoinRequest, ServerFrame
from ares.ports.link import LinkBroken, LinkRefused
from ares.ports.store import StoreError
from ares.sim.world.clocks import Chance
from ares.sim.world.loop import SimLoop, context_of

F = TypeVar("F")

_CONNECT_TIMEOUT_S = 3.0


@dataclass
class Network:
    """Which ways are cut, "from>to", and how long everything takes."""

    delay_s: float = 0.002
    # Share of frames that take very long, are sent twice, or break their stream.
    slow: float = 0.0
    # How long at most.
    slow_s: float = 4.0
    doubled: float = 0.0
    breaking: float = 0.0
    cuts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    streams: list["Stream"] = field(default_factory=list["Stream"])

    def cut(self, near: str, far: str) -> bool:
        return self.cuts[near, far] > 0

    def set_cut(self, near: str, far: str, cut: bool) -> None:
        """A way may be cut twice, and is open when both are healed."""
        self.cuts[near, far] += 1 if cut else -1
        if not self.cut(near, far):
            for stream in self.streams:
                stream.healed(near, far)


class _End:
    """The end of a stream, as its reader sees it."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


class Pipe(Generic[F]):
    """One direction of a stream."""

    def __init__(self, stream: "Stream", near: str, far: str) -> None:
        self._stream = stream
        self.near = near
        self.far = far
        self._inbox: asyncio.Queue[F | _End] = asyncio.Queue()
        self._stuck: deque[F | _End] = deque()
        self._arrives_at = 0.0

    def send(self, frame: F | _End) -> None:
        if self._stream.network.cut(self.near, self.far):
            self._stuck.append(frame)
        else:
            self._carry(frame)

    def flush(self) -> None:
        while self._stuck:
            self._carry(self._stuck.popleft())

    def _carry(self, frame: F | _End) -> None:
        loop, network, chance = self._stream.loop, self._stream.network, self._stream.chance
        delay = network.delay_s * chance.random()
        if network.slow and chance(network.slow):
            delay = chance.between(0.1, network.slow_s)
        self._arrives_at = max(self._arrives_at, loop.time() + delay)
        copies = 2 if network.doubled and not isinstance(frame, _End) and chance(network.doubled) else 1
        for _ in range(copies):
            loop.call_at(self._arrives_at, self._arrive, frame, context=self._stream.between)
        if network.breaking and chance(network.breaking):
            self._stream.breaks("the connection was reset")

    def _arrive(self, frame: F | _End) -> None:
        # A cut that came while the frame was on its way holds it back too.
        if self._stream.network.cut(self.near, self.far):
            self._stuck.appendleft(frame)
        else:
            self._inbox.put_nowait(frame)

    async def frames(self) -> AsyncIterator[F]:
        while True:
            frame = await self._inbox.get()
            if isinstance(frame, _End):
                if frame.error is not None:
                    raise frame.error
                return
            yield frame


class Stream:
    """An agent's session with one replica (`ports.link.Session` for the agent)."""

    def __init__(self, loop: SimLoop, network: Network, chance: Chance, agent: str, replica: str) -> None:
        self.loop = loop
        self.network = network
        self.chance = chance
        self.between = context_of("world")
        self.up: Pipe[AgentFrame] = Pipe(self, agent, replica)
        self.down: Pipe[ServerFrame] = Pipe(self, replica, agent)
        self._broken = False
        network.streams.append(self)

    async def serve(self, sessions: Sessions, node: str) -> None:
        """The replica's end. A refusal is told, anything else just breaks the stream."""
        who = Principal(token_id=f"node-{node}", tenant="system", role="node", node=node)
        error: Exception | None = LinkBroken("the control plane ended the stream")
        try:
            async with aclosing(sessions.serve(who, self.up.frames())) as answers:
                async for frame in answers:
                    self.down.send(frame)
        except SessionRefused as refused:
            error = LinkRefused(str(refused))
        except Exception as failure:
            error = LinkBroken(f"the control plane failed: {failure!r}")
        self.down.send(_End(error))

    async def send(self, frame: AgentFrame) -> None:
        if self._broken:
            raise LinkBroken("the connection was reset")
        self.up.send(frame)

    def frames(self) -> AsyncIterator[ServerFrame]:
        return self.down.frames()

    async def close(self) -> None:
        self._broken = True
        self.up.send(_End(None))

    def breaks(self, why: str) -> None:
        """Breaks the stream. Both ends learn of it, unless they are behind a cut."""
        if not self._broken:
            self._broken = True
            self.up.send(_End(None))
            self.down.send(_End(LinkBroken(why)))

    def healed(self, near: str, far: str) -> None:
        for pipe in (self.up, self.down):
            if (pipe.near, pipe.far) == (near, far):
                pipe.flush()


class SimLink:
    """`ports.link.Link`: reaches the replicas in turn."""

    def __init__(
        self, loop: SimLoop, network: Network, chance: Chance, node: str, replicas: Callable[[], list["Listener"]]
    ) -> None:
        self._loop = loop
        self._network = network
        self._chance = chance
        self._node = node
        self._replicas = replicas
        self._turn = int(chance.random() * 16)

    async def join(self, request: JoinRequest) -> JoinReply:
        raise LinkRefused("nodes of a simulated world have their credentials")

    async def connect(self, credential: str) -> Stream:
        listeners = self._replicas()
        self._turn += 1
        listener = listeners[self._turn % len(listeners)]
        agent = f"node {self._node}"
        await asyncio.sleep(self._network.delay_s * self._chance.random())
        both = ((agent, listener.name), (listener.name, agent))
        # The machine refuses connections for a dead process; a frozen one does not answer.
        frozen = listener.sessions is not None and self._loop.halted(listener.component)
        if frozen or any(self._network.cut(*way) for way in both):
            await asyncio.sleep(_CONNECT_TIMEOUT_S)
            raise LinkBroken(f"{listener.name} did not answer within {_CONNECT_TIMEOUT_S:g} s")
        if listener.sessions is None:
            raise LinkBroken(f"{listener.name} cannot be reached")
        stream = Stream(self._loop, self._network, self._chance, agent, listener.name)
        self._loop.spawn(listener.component, stream.serve(listener.sessions, self._node))
        return stream

    async def close(self) -> None:
        pass

    async def fetch(self, credential: str, request: FetchRequest) -> AsyncIterator[FetchPiece]:
        """`ports.link.FileLink`: files of checkpoints and of datasets, through the replicas in turn."""
        listeners = self._replicas()
        self._turn += 1
        listener, agent = listeners[self._turn % len(listeners)], f"node {self._node}"
        await asyncio.sleep(self._network.delay_s * self._chance.random())
        cut = any(self._network.cut(*way) for way in ((agent, listener.name), (listener.name, agent)))
        if cut or listener.staging is None or self._loop.halted(listener.component):
            await asyncio.sleep(_CONNECT_TIMEOUT_S)
            raise LinkBroken(f"{listener.name} cannot be reached")
        who = Principal(token_id=f"node-{self._node}", tenant="system", role="node", node=self._node)
        try:
            found = await listener.staging.fetch(who, request)
            if isinstance(found, Refusal):
                raise LinkRefused(found.message)
            async for piece in found:
                yield piece
        except StoreError as error:
            raise LinkBroken(f"the store does not answer: {error}") from None
        except OSError as error:
            raise LinkBroken(f"files cannot be read now: {error}") from None


class Listener:
    """The port of a replica for agents. Without `sessions` the replica does not listen."""

    name: str
    component: str
    sessions: Sessions | None
    # By which nodes read the files of checkpoints and of datasets.
    staging: Staging | None
