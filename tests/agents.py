"""An agent that does exactly what a test says: the far end of `Sessions.serve`, in memory."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from ares.control.execution.sessions import Sessions
from ares.model.access import Principal
from ares.model.job import FailureClass
from ares.model.link import (
    Ack,
    AgentFrame,
    AgentMessage,
    AttemptRef,
    Exited,
    Fenced,
    Hello,
    LogAck,
    LogChunk,
    OutputAck,
    OutputChunk,
    Progress,
    Renew,
    Renewed,
    Resize,
    ServerFrame,
    ServerMessage,
    Start,
    Started,
    Stop,
    Welcome,
)
from ares.model.node import Gpu, NodeInfo
from ares.model.state import ExitInfo, OutputFile
from tests.clocks import ManualClock, settle

RENEW_EVERY_S = 2.0


class ScriptedAgent:
    """Keeps everything it was sent. With `auto` it starts and ends every attempt at once."""

    def __init__(self, clock: ManualClock, name: str, *, gpus: int = 0, auto: bool = False, **info: Any) -> None:
        cards = tuple(Gpu(index=n, uuid=f"gpu-{n}", model="Mock", memory_mib=1024) for n in range(gpus))
        self.info = NodeInfo(**{"name": name, "cpu_milli": 4000, "memory_mib": 4096, "gpus": cards, **info})
        self.auto = auto
        self.resends_logs = False
        self.paced = False
        self.incarnation = 0
        self.received: list[ServerMessage] = []
        self.frames: list[ServerFrame] = []
        self.refused: Exception | None = None
        self._clock = clock
        self._number = 0
        self._nonce = 0
        self._out: asyncio.Queue[AgentFrame | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    # ---- the stream

    async def connect(
        self, sessions: Sessions, *, fresh: bool = False, alive: tuple[AttemptRef, ...] = (), renewing: bool = True
    ) -> None:
        """Opens a session instead of the one that is open; `fresh` is a restarted agent's."""
        await self.drop()
        if fresh:
            self.incarnation = 0
        hello = Hello(
            info=self.info, incarnation=self.incarnation, alive=alive, resends_logs=self.resends_logs, paced=self.paced
        )
        self.open(sessions, hello, renewing=renewing)
        await settle()

    @property
    def log_troubles(self) -> list[str]:
        return [m.trouble for m in self.received if isinstance(m, LogAck) and m.trouble]

    def open(self, sessions: Sessions, *first: AgentMessage, renewing: bool = True) -> None:
        """Begins a session with these messages, without waiting for the answer."""
        self.received = []
        self.frames = []
        self.refused = None
        self._out = asyncio.Queue()
        self.send(*first)
        who = Principal(token_id=f"node-{self.info.name}", tenant="system", role="node", node=self.info.name)
        stream = sessions.serve(who, self._frames(self._out))
        self._tasks.append(asyncio.create_task(self._receive(stream)))
        if renewing:
            self._tasks.append(asyncio.create_task(self._renew()))

    @staticmethod
    async def _frames(out: "asyncio.Queue[AgentFrame | None]") -> AsyncIterator[AgentFrame]:
        while (frame := await out.get()) is not None:
            yield frame

    async def _receive(self, stream: AsyncGenerator[ServerFrame, None]) -> None:
        try:
            async for frame in stream:
                self.frames.append(frame)
                for message in frame.messages:
                    self.received.append(message)
                    self._react(message)
        except Exception as error:
            self.refused = error
        finally:
            await stream.aclose()

    def _react(self, message: ServerMessage) -> None:
        if isinstance(message, Welcome):
            self.incarnation = message.incarnation
        elif isinstance(message, Start) and self.auto:
            self.send(self.start_report(message), self.exit_report(message))

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(RENEW_EVERY_S)
            self.renew()

    def renew(self) -> int:
        self._nonce += 1
        self.send(Renew(nonce=self._nonce))
        return self._nonce

    async def silent(self) -> None:
        """The stream stays open, but no renewal is sent any more."""
        for task in self._tasks[1:]:
            task.cancel()
        await settle()

    async def drop(self) -> None:
        """The connection breaks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    @property
    def connected(self) -> bool:
        return bool(self._tasks) and not self._tasks[0].done()

    # ---- what it says

    def send(self, *messages: AgentMessage) -> None:
        self._out.put_nowait(AgentFrame(messages=messages))

    def number(self) -> int:
        self._number += 1
        return self._number

    def start_report(self, start: Start) -> Started:
        rank = start.placement.rank
        return Started(number=self.number(), ref=start.ref, rank=rank, pid=1, at=self._clock.wall())

    def exit_report(
        self,
        start: Start,
        code: int = 0,
        *,
        failure: FailureClass | None = None,
        value: bytes = b"",
        outputs: tuple[OutputFile, ...] = (),
    ) -> Exited:
        ended, rank = ExitInfo(code=code, failure=failure or ("exit" if code else None)), start.placement.rank
        number, at = self.number(), self._clock.wall()
        return Exited(number=number, ref=start.ref, rank=rank, exit=ended, at=at, value=value, outputs=outputs)

    def fence_report(self, ref: AttemptRef, reason: str = "stopped", rank: int = 0) -> Fenced:
        return Fenced(number=self.number(), ref=ref, rank=rank, reason=reason)

    def started(self, start: Start) -> Started:
        report = self.start_report(start)
        self.send(report)
        return report

    def exited(self, start: Start, code: int = 0, **how: Any) -> Exited:
        report = self.exit_report(start, code, **how)
        self.send(report)
        return report

    def fenced(self, ref: AttemptRef, reason: str = "stopped", rank: int = 0) -> Fenced:
        report = self.fence_report(ref, reason, rank)
        self.send(report)
        return report

    def obey(self) -> None:
        """Confirms every stop it was told, rank by rank."""
        for stop in self.stops:
            for rank in stop.ranks:
                self.fenced(stop.ref, rank=rank)

    def log(self, start: Start, offset: int, data: bytes) -> None:
        rank = start.placement.rank
        self.send(LogChunk(ref=start.ref, rank=rank, attempt=start.attempt, offset=offset, data=data))

    def upload(self, start: Start, data: bytes, offset: int = 0, end: int | None = None) -> str:
        """Sends a part of a file, or all of it. Returns the file's digest."""
        sha256, rank = hashlib.sha256(data).hexdigest(), start.placement.rank
        piece = data[offset:end]
        self.send(
            OutputChunk(ref=start.ref, rank=rank, sha256=sha256, size=len(data), offset=offset, data=piece)
        )  # fmt: skip
        return sha256

    def progress(self, start: Start, fraction: float) -> None:
        self.send(Progress(ref=start.ref, rank=start.placement.rank, fraction=fraction))

    # ---- what it heard

    def all_starts(self, job: str) -> list[Start]:
        return [m for m in self.received if isinstance(m, Start) and m.ref.job == job]

    @property
    def starts(self) -> dict[str, Start]:
        """The newest command to start each job."""
        return {m.ref.job: m for m in self.received if isinstance(m, Start)}

    def ranks(self, job: str) -> dict[int, Start]:
        """The newest command to start each rank of a job."""
        return {start.placement.rank: start for start in self.all_starts(job)}

    @property
    def stops(self) -> list[Stop]:
        return [m for m in self.received if isinstance(m, Stop)]

    @property
    def stopped(self) -> list[tuple[str, tuple[int, ...]]]:
        """Jobs and the ranks of them it was told to stop."""
        return [(stop.ref.job, stop.ranks) for stop in self.stops]

    @property
    def resizes(self) -> list[Resize]:
        return [m for m in self.received if isinstance(m, Resize)]

    @property
    def acked(self) -> list[int]:
        return [number for m in self.received if isinstance(m, Ack) for number in m.numbers]

    @property
    def renewed(self) -> list[int]:
        return [m.nonce for m in self.received if isinstance(m, Renewed)]

    @property
    def welcome(self) -> Welcome:
        return next(m for m in self.received if isinstance(m, Welcome))

    @property
    def log_acks(self) -> list[int]:
        return [m.offset for m in self.received if isinstance(m, LogAck)]

    @property
    def output_acks(self) -> list[OutputAck]:
        return [m for m in self.received if isinstance(m, OutputAck)]


def output(path: str, data: bytes) -> OutputFile:
    """A file as an attempt announces it."""
    return OutputFile(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
