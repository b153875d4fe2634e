"""A federation in one process: a global plane and clusters, each a World of its own, on one manual clock.

    async with FederatedWorlds("east", "west") as fed:
        job = await fed.plane.submit()
        await fed.until(lambda: fed.owner(job) == "east")

The links are the real ends of the protocol with queues between them: a test cuts them, or holds back what is said.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar

import msgspec

from ares.api.nodes import UplinkBody
from ares.control.execution.enrolment import SessionRefused
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.cluster_link import AskCommand, AskMessage, ClusterFrame, ClusterMessage, GlobalFrame, GlobalMessage
from ares.model.uplink import UplinkProof
from ares.ports.cluster_link import AskStream, ClusterStream
from ares.ports.link import LinkBroken, LinkRefused
from tests.clocks import ManualClock, settle
from tests.world import ADMIN, Replica, World

F = TypeVar("F", ClusterFrame, GlobalFrame)


class AtOnce(ThreadPoolExecutor):
    """What the product gives to a thread is done at once: virtual time does not wait for threads."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


class Link:
    """`ports.cluster_link.GlobalPlane` of one cluster. Drops what `drops` says; `said` and `heard` keep the rest."""

    def __init__(self, plane: World, name: str) -> None:
        self._plane, self.name = plane, name
        self.replica: Replica | None = None
        self.is_cut = False
        self.drops: Callable[[ClusterMessage | GlobalMessage], bool] = lambda _: False
        # What the cluster said, and what it was told.
        self.said: list[ClusterMessage] = []
        self.heard: list[GlobalMessage] = []
        # Frames that one side made and the other could not read.
        self.unreadable: list[str] = []
        self._streams: list[_Stream] = []

    @property
    def to(self) -> Replica:
        return self.replica or self._plane.one

    async def join(self, api: str, servers: tuple[str, ...], token: str, name: str, authorities: str) -> UplinkProof:
        return UplinkProof(credential=name)

    async def renew(self, servers: tuple[str, ...], proof: UplinkProof) -> UplinkProof:
        return proof

    def renew_at(self, proof: UplinkProof) -> float | None:
        return None

    async def connect(self, servers: tuple[str, ...], proof: UplinkProof) -> ClusterStream:
        if self.is_cut:
            raise LinkBroken("the link is cut")
        stream = _Stream(self)
        self._streams.append(stream)
        return stream

    def cut(self) -> None:
        self.is_cut = True
        for stream in self._streams:
            stream.broken()
        self._streams.clear()

    def mend(self) -> None:
        self.is_cut = False


class _Stream:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._up: asyncio.Queue[ClusterFrame | None] = asyncio.Queue()
        self._down: asyncio.Queue[GlobalFrame | Exception] = asyncio.Queue()
        self._who = Principal(token_id="", tenant="", role="cluster", cluster=link.name)
        self._serving = asyncio.create_task(self._serve())
        self._asks: list[_Asks] = []

    async def _serve(self) -> None:
        try:
            async for frame in self._link.to.federation.links.serve(self._who, self._said()):
                kept = tuple(message for message in frame.messages if not self._link.drops(message))
                self._link.heard += kept
                self._down.put_nowait(_over_the_wire(GlobalFrame(messages=kept)))
            self._down.put_nowait(LinkBroken("the global plane ended the stream"))
        except SessionRefused as refusal:
            self._down.put_nowait(LinkRefused(str(refusal)))
        except msgspec.ValidationError as error:
            self._link.unreadable.append(str(error))
            raise

    async def _said(self) -> AsyncIterator[ClusterFrame]:
        while (frame := await self._up.get()) is not None:
            yield frame

    async def send(self, frame: ClusterFrame) -> None:
        if self._serving.done():
            raise LinkBroken("the stream is over")
        kept = tuple(message for message in frame.messages if not self._link.drops(message))
        self._link.said += kept
        if kept:
            self._up.put_nowait(_over_the_wire(ClusterFrame(messages=kept)))

    async def frames(self) -> AsyncIterator[GlobalFrame]:
        while not isinstance(frame := await self._down.get(), Exception):
            yield frame
        raise frame

    async def asks(self) -> AskStream:
        asks = _Asks(self._link, self._who)
        self._asks.append(asks)
        return asks

    def broken(self) -> None:
        self._up.put_nowait(None)
        self._down.put_nowait(LinkBroken("the link is cut"))
        for asks in self._asks:
            asks.broken()

    async def close(self) -> None:
        self.broken()
        self._serving.cancel()
        await asyncio.gather(self._serving, return_exceptions=True)


class _Asks:
    def __init__(self, link: Link, who: Principal) -> None:
        self._up: asyncio.Queue[AskMessage | None] = asyncio.Queue()
        self._down: asyncio.Queue[AskCommand | None] = asyncio.Queue()
        self._serving = asyncio.create_task(self._serve(link, who))

    async def _serve(self, link: Link, who: Principal) -> None:
        async for command in link.to.federation.asks.serve(who, self._said()):
            self._down.put_nowait(command)

    async def _said(self) -> AsyncIterator[AskMessage]:
        while (message := await self._up.get()) is not None:
            yield message

    async def send(self, message: AskMessage) -> None:
        self._up.put_nowait(message)

    async def commands(self) -> AsyncIterator[AskCommand]:
        while (command := await self._down.get()) is not None:
            yield command
        raise LinkBroken("the link is cut")

    def broken(self) -> None:
        self._up.put_nowait(None)
        self._down.put_nowait(None)

    async def close(self) -> None:
        self.broken()
        self._serving.cancel()
        await asyncio.gather(self._serving, return_exceptions=True)


class FederatedWorlds:
    """A global plane without nodes, and clusters that have joined it, with one agent of eight GPUs each."""

    def __init__(self, *names: str, replicas: int = 1, **terms: Any) -> None:
        self.clock = ManualClock()
        self.plane = World(clock=self.clock, replicas=replicas, books=terms.get("books", False))
        self._names, self._terms = names, terms
        self.clusters: dict[str, World] = {}
        self.links: dict[str, Link] = {}
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_default_executor(AtOnce())
        await self._stack.enter_async_context(self.plane)
        for name in self._names:
            await self.cluster(name)
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self._stack.__aexit__(*_)
        assert not (unreadable := {name: link.unreadable for name, link in self.links.items() if link.unreadable}), (
            f"frames that could not be read: {unreadable}"
        )

    async def cluster(self, name: str, *, auto: bool = False, gpus: int = 8) -> World:
        link = self.links[name] = Link(self.plane, name)
        world = self.clusters[name] = World(clock=self.clock, global_plane=link, **self._terms)
        await self._stack.enter_async_context(world)
        await world.agent(f"{name}-node", auto=auto, gpus=gpus)
        await self.join(name)
        return world

    async def join(self, name: str) -> None:
        """Returns when the global plane has heard of its nodes."""
        joined = await self.clusters[name].one.federation.membership.join(
            ADMIN, UplinkBody(api="http://plane", token="t", name=name, servers=("plane:1",), region=name)
        )
        assert not isinstance(joined, Refusal), joined
        await self.until(lambda: self._is_heard(name))

    def _is_heard(self, name: str) -> bool:
        found = self.plane.one.federation.clusters
        report, age = found.report(name), found.age_s(name)
        return report is not None and report.ready_nodes > 0 and age is not None and age < 1.0

    # ---- looking

    async def until(self, holds: Callable[[], object], within_s: float = 60.0) -> None:
        await self.plane.until(holds, within_s)

    def later(self, seconds: float) -> None:
        """By all clocks, without what would happen meanwhile."""
        self.clock.jump_wall(seconds)
        for world in (self.plane, *self.clusters.values()):
            world.later(0.0)

    def owner(self, job: str) -> str:
        owner = self.plane.state(job).owner
        return "" if owner is None or owner.stage != "CONFIRMED" else owner.cluster

    async def owned(self, **changes: Any) -> tuple[str, World]:
        """A job that waits for its start in a cluster's node; and that cluster."""
        job = await self.plane.submit(**changes)
        await self.until(lambda: self.owner(job) and job in self.there(job).audit.states)
        await settle()
        return job, self.there(job)

    async def running(self, **changes: Any) -> tuple[str, World]:
        job, there = await self.owned(**changes)
        agent = there.agents[0]
        await self.until(lambda: job in agent.starts)
        agent.started(agent.starts[job])
        await self.until(lambda: self.plane.state(job).phase == "RUNNING")
        return job, there

    def there(self, job: str) -> World:
        return self.clusters[self.owner(job)]


def _over_the_wire(frame: F) -> F:
    """Encoded, and decoded within its bounds."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(frame), type=type(frame))
