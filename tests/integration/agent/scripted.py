"""A control plane in memory: accepts sessions, records what agents say, says what a test wants."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from ares.model.job import JobSpec
from ares.model.job_session import ChildAnswer, ChildCall
from ares.model.link import (
    Ack,
    AgentFrame,
    AgentMessage,
    AttemptRef,
    Exited,
    Fenced,
    Hello,
    JoinReply,
    JoinRequest,
    Leave,
    LogAck,
    LogChunk,
    OutputAck,
    OutputChunk,
    Renew,
    Renewed,
    ServerFrame,
    ServerMessage,
    Start,
    Started,
    Welcome,
    WorldInfo,
)
from ares.model.state import Fence, Placement
from ares.ports.link import LinkBroken, LinkRefused

M = TypeVar("M", bound=AgentMessage)
TIMEOUT_S = 30.0


class ScriptedSession:
    def __init__(self, plane: "ScriptedPlane") -> None:
        self._plane = plane
        self._out: asyncio.Queue[ServerFrame | None] = asyncio.Queue()
        self.closed = False

    async def send(self, frame: AgentFrame) -> None:
        if self.closed:
            raise LinkBroken("closed")
        self._plane.take(self, frame)

    async def frames(self) -> AsyncIterator[ServerFrame]:
        while (frame := await self._out.get()) is not None:
            yield frame
        raise LinkBroken("closed")

    def say(self, *messages: ServerMessage) -> None:
        self._out.put_nowait(ServerFrame(messages=messages))

    def cut(self) -> None:
        self.closed = True
        self._out.put_nowait(None)

    async def close(self) -> None:
        self.closed = True


class ScriptedPlane:
    """`ports.link.Link`. Renewals, reports and logs are acknowledged unless a test turns that off."""

    def __init__(self, *, self_fence_ratio: float = 7.0 / 9.0, renew_every_s: float = 0.2) -> None:
        self.said: list[AgentMessage] = []
        self.logs: dict[tuple[AttemptRef, int], bytearray] = {}
        # Files that came whole, by digest; of others what has come so far.
        self.outputs: dict[str, bytes] = {}
        self.parts: dict[str, bytes] = {}
        self.output_bytes_max = 1 << 30
        # Instead of keeping a piece.
        self.on_output: Callable[[OutputChunk], OutputAck | None] | None = None
        self.renewals = self.acks = self.log_acks = self.reachable = True
        self.refused_incarnations: set[int] = set()
        self.keep: Callable[[tuple[AttemptRef, ...]], tuple[AttemptRef, ...]] = lambda alive: alive
        self.incarnation = 0
        self.session: ScriptedSession | None = None
        self._ratio = self_fence_ratio
        self._renew_every_s = renew_every_s
        self._changed = asyncio.Event()
        # Jobs that jobs submitted, and what they are answered instead of an id.
        self.children: list[ChildCall] = []
        self.child_answer: ChildAnswer | None = None

    async def submit_child(self, credential: str, call: ChildCall) -> ChildAnswer:
        """`ports.link.ChildLink`."""
        self.children.append(call)
        return self.child_answer or ChildAnswer(job=f"made {call.call}")

    async def join(self, request: JoinRequest) -> JoinReply:
        return JoinReply(node=request.node, credential=f"credential-for-{request.token}")

    async def connect(self, credential: str) -> ScriptedSession:
        if not self.reachable:
            raise LinkBroken("cut")
        return ScriptedSession(self)

    async def close(self) -> None: ...

    def take(self, session: ScriptedSession, frame: AgentFrame) -> None:
        for message in frame.messages:
            self.said.append(message)
            match message:
                case Hello():
                    self._welcome(session, message)
                case Renew(nonce=nonce) if self.renewals:
                    session.say(Renewed(nonce=nonce))
                case LogChunk():
                    self._log(session, message)
                case OutputChunk():
                    self._output(session, message)
                case Started() | Exited() | Fenced() if self.acks:
                    session.say(Ack(numbers=(message.number,)))
                case _:
                    pass
        self._changed.set()

    def _welcome(self, session: ScriptedSession, hello: Hello) -> None:
        if hello.incarnation in self.refused_incarnations:
            raise LinkRefused(f"incarnation {hello.incarnation} is over")
        self.incarnation = hello.incarnation or self.incarnation + 1
        self.session = session
        session.say(
            Welcome(
                incarnation=self.incarnation,
                store_epoch=1,
                keep=self.keep(hello.alive),
                renew_every_s=self._renew_every_s,
                self_fence_ratio=self._ratio,
                output_bytes_max=self.output_bytes_max,
            )
        )

    def _log(self, session: ScriptedSession, chunk: LogChunk) -> None:
        kept = self.logs.setdefault((chunk.ref, chunk.rank), bytearray())
        if chunk.offset <= len(kept):
            kept[chunk.offset :] = chunk.data
        if self.log_acks:
            session.say(LogAck(ref=chunk.ref, rank=chunk.rank, offset=len(kept)))

    def _output(self, session: ScriptedSession, chunk: OutputChunk) -> None:
        if self.on_output is not None:
            if (ack := self.on_output(chunk)) is not None:
                session.say(ack)
            return
        kept = self.outputs.get(chunk.sha256, self.parts.get(chunk.sha256, b""))
        if chunk.offset <= len(kept):
            kept += chunk.data[len(kept) - chunk.offset :]
        self.parts[chunk.sha256] = kept
        sealed = len(kept) == chunk.size
        if sealed:
            assert hashlib.sha256(kept).hexdigest() == chunk.sha256
            self.outputs[chunk.sha256] = kept
        session.say(self.output_ack(chunk, offset=len(kept), sealed=sealed))

    @staticmethod
    def output_ack(chunk: OutputChunk, offset: int = 0, **how: Any) -> OutputAck:
        return OutputAck(ref=chunk.ref, rank=chunk.rank, sha256=chunk.sha256, offset=offset, **how)

    # ---- for tests

    def say(self, *messages: ServerMessage) -> None:
        assert self.session is not None
        self.session.say(*messages)

    def cut(self) -> None:
        assert self.session is not None
        self.session.cut()

    def all(self, kind: type[M]) -> list[M]:
        return [message for message in self.said if isinstance(message, kind)]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def log(self, ref: AttemptRef, rank: int = 0) -> bytes:
        """What has come of it so far."""
        return bytes(self.logs.get((ref, rank), b""))

    async def first(self, kind: type[M], job: str = "", nth: int = 0) -> M:
        def found() -> list[M]:
            return [m for m in self.all(kind) if job in ("", _job(m))]

        await self.until(lambda: len(found()) > nth)
        return found()[nth]

    def start(self, job: str, *command: str, counter: int = 1, rank: int = 0, **spec: Any) -> Start:
        gpus, numa = spec.pop("granted", ()), spec.pop("on_numa", None)
        return Start(
            ref=AttemptRef(job=job, tenant="t", fence=Fence(counter=counter)),
            attempt=1,
            placement=Placement(
                node="n1", incarnation=self.incarnation, cpu_milli=1000, memory_mib=256, gpus=gpus, rank=rank, numa=numa
            ),
            world=spec.pop("world", WorldInfo()),
            spec=JobSpec(command=command, **spec),
        )


def _job(message: AgentMessage) -> str:
    return "" if isinstance(message, Hello | Leave | Renew) else message.ref.job
