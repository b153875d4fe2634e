"""The way into attempts of this node: a stream for sessions, opened when the control plane asks for it."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import Final

import structlog
from msgspec.structs import replace

from ares import archive
from ares.agent.attempts.attempt import Attempt
from ares.agent.attempts.attempts import Attempts
from ares.agent.attempts.launch import launch_of
from ares.agent.entry.job_session import JobSession
from ares.agent.entry.live_use import measured
from ares.agent.loops import first_to_end
from ares.agent.settings import AgentSettings
from ares.model.job_session import (
    SESSIONS_PER_ATTEMPT_MAX,
    SESSIONS_PER_NODE_MAX,
    SESSIONS_PER_TENANT_MAX,
    USES_MAX,
    AttachClient,
    ClientDropped,
    ClientLeft,
    EndSession,
    FromClient,
    GpuReading,
    ListSessions,
    MeasureUse,
    OpenSession,
    SessionFrame,
    SessionId,
    SessionSpec,
    SideAnswer,
    SideCommand,
    SideHello,
    SideMessage,
    ToClient,
)
from ares.model.link import AttemptRef
from ares.model.node import NodeInfo
from ares.ports.clock import Clock
from ares.ports.executor import CannotStart, Enterable, Entry
from ares.ports.link import LinkBroken, LinkRefused, SideStream, Sideways

# ---- what a session runs


def entry_of(attempt: Attempt, spec: SessionSpec, info: NodeInfo, settings: AgentSettings) -> Entry:
    if spec.kind == "forward":
        return Entry(port=spec.port)
    launch = launch_of(attempt.start, attempt.folder, info, settings, inf)
    if attempt.cover is not None:
        launch = attempt.cover.dress(launch)
    if attempt.image is not None:
        launch = attempt.image.dress(launch, attempt.start.spec)
    env = dict(launch.env) if attempt.python is None else attempt.python.activate(launch.env)
    if spec.term:
        env["TERM"] = spec.term
    copies = spec.kind != "exec"
    # An image may have no Python, or another than the node's.
    script = _script() if copies and attempt.image is not None else ""
    return Entry(
        argv=_copied(spec) if script else _copying(spec) if copies else spec.command,
        script=script,
        env=env,
        cwd=launch.cwd,
        tty=spec.tty,
        rows=spec.rows,
        cols=spec.cols,
    )


def _copying(spec: SessionSpec) -> list[str]:
    """A program of ours as a command of the job, with the job's rights and no others."""
    return [sys.executable, "-I", "-S", "-c", _script(), *_copied(spec)]


def _copied(spec: SessionSpec) -> list[str]:
    return ["out" if spec.kind == "copy-out" else "in", spec.path]


@cache
def _script() -> str:
    # As text: the job need not see the files of this package.
    return Path(archive.__file__).read_text()


# ---- the entrance


_log = structlog.get_logger(__name__)

_LOOK_S: Final = 1.0
# Sessions of an attempt with those that ended, whose end some client may still ask for.
_KEPT_MAX: Final = 4 * SESSIONS_PER_ATTEMPT_MAX
# Messages that wait to be sent. With all of them full, sessions wait.
_WAITING_MAX: Final = 32
# A stream that has carried nothing for this long is closed.
_UNUSED_S: Final = 120.0

_WHOLE_MILLI: Final = 1000
_Key = tuple[AttemptRef, SessionId]


class Entrance:
    """All sessions in attempts of this node."""

    def __init__(
        self,
        info: NodeInfo,
        attempts: Attempts,
        settings: AgentSettings,
        clock: Clock,
        gpu_use: Callable[[], Mapping[int, GpuReading]] = dict,
    ) -> None:
        self._gpu_use = gpu_use
        self._info = info
        self._attempts = attempts
        self._settings = settings
        self._clock = clock
        self._sessions: dict[_Key, JobSession] = {}
        # Sessions that are being opened: asking twice opens one.
        self._opening: dict[_Key, asyncio.Task[str]] = {}
        self._streams: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None

    def called(self, link: Sideways, key: str) -> None:
        """The control plane asks for the stream."""
        task = asyncio.create_task(_AsideStream(self, self._info.name, self._clock).run(link, key))
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)

    def left(self) -> None:
        """The connection is lost. Sessions wait for their clients to come by another."""
        for task in self._streams:
            task.cancel()

    def close(self) -> None:
        self.left()
        if self._looking is not None:
            self._looking.cancel()
        for session in self._sessions.values():
            session.close("the agent is shutting down")
        self._sessions.clear()

    # ---- commands

    async def open(self, command: OpenSession) -> SideAnswer:
        key = (command.ref, command.id)
        if key not in self._sessions:
            opening = self._opening.get(key)
            if opening is None:
                opening = self._opening[key] = asyncio.create_task(self._open(command))
                opening.add_done_callback(lambda _: self._opening.pop(key, None))
            if refused := await asyncio.shield(opening):
                return SideAnswer(call=command.call, refused=refused)
        return SideAnswer(call=command.call, sessions=(self._sessions[key].view(),))

    async def _open(self, command: OpenSession) -> str:
        """Why the session cannot be opened; empty when it was."""
        ref, spec = command.ref, command.spec
        attempt = self._attempt(ref, spec.rank)
        if attempt is None:
            return f"rank {spec.rank} of the attempt does not run on this node any more"
        if crowded := self._crowded(ref):
            return crowded
        if not isinstance(attempt.running, Enterable):
            return "this node cannot open sessions in jobs"
        entered = await attempt.running.enter(entry_of(attempt, spec, self._info, self._settings))
        if isinstance(entered, CannotStart):
            return entered.message
        self._sessions[(ref, command.id)] = JobSession(command.id, ref, spec, entered, self._clock)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        return ""

    def _crowded(self, ref: AttemptRef) -> str:
        """Why there is no room for another session; empty when there is. The one being opened is counted already."""
        taken = [of for (of, _), session in self._sessions.items() if not session.over]
        taken += [key[0] for key in self._opening if key not in self._sessions]
        kept = sum(of == ref for of, _ in self._sessions)
        if taken.count(ref) > SESSIONS_PER_ATTEMPT_MAX or kept > _KEPT_MAX:
            return f"there are {SESSIONS_PER_ATTEMPT_MAX} sessions in this job already; end some of them"
        if sum(of.tenant == ref.tenant for of in taken) > SESSIONS_PER_TENANT_MAX:
            return f"there are {SESSIONS_PER_TENANT_MAX} sessions in your jobs on this node already; end some of them"
        if len(taken) > SESSIONS_PER_NODE_MAX:
            return f"there are {SESSIONS_PER_NODE_MAX} sessions on this node already; try again later"
        return ""

    def find(self, ref: AttemptRef, session_id: SessionId) -> JobSession | None:
        return self._sessions.get((ref, session_id))

    def list(self, command: ListSessions) -> SideAnswer:
        """Those of which some client may want to know: connections to ports come and go by themselves."""
        mine = (session for (ref, _), session in self._sessions.items() if ref == command.ref)
        return SideAnswer(call=command.call, sessions=tuple(session.view() for session in mine if not session.over))

    def end(self, command: EndSession) -> SideAnswer:
        session = self.find(command.ref, command.id)
        if session is None:
            return SideAnswer(call=command.call, refused="there is no such session")
        session.end("it was ended")
        return SideAnswer(call=command.call)

    async def measure(self, command: MeasureUse) -> SideAnswer:
        wanted = set(command.refs)
        running = {attempt.key: attempt.running for attempt in self._attempts.running() if attempt.start.ref in wanted}
        pids = {key: process.pid for key, process in running.items() if process is not None and process.pid}
        uses = await asyncio.to_thread(measured, pids, self._clock.monotonic())
        alone = {
            attempt.key: attempt.start.placement.gpus
            for attempt in self._attempts.running()
            # What others do on a GPU that is shared is not this job's to know.
            if attempt.key in pids and attempt.start.placement.gpu_milli >= _WHOLE_MILLI
        }
        if any(alone.values()):
            now = await asyncio.to_thread(self._gpu_use)
            uses = tuple(
                replace(use, gpus=tuple(now[gpu] for gpu in alone.get((use.ref, use.rank), ()) if gpu in now))
                for use in uses
            )
        return SideAnswer(call=command.call, uses=uses[:USES_MAX])

    def _attempt(self, ref: AttemptRef, rank: int) -> Attempt | None:
        found = (attempt for attempt in self._attempts.running() if attempt.key == (ref, rank))
        return next((attempt for attempt in found if not attempt.fenced and not attempt.ended), None)

    async def _look(self) -> None:
        """Ends sessions that no client needs any more."""
        while self._sessions:
            await self._clock.sleep(_LOOK_S)
            for key, session in list(self._sessions.items()):
                why = session.overdue()
                if session.over and why:
                    session.close("")
                    del self._sessions[key]
                elif why:
                    session.end(why)
        self._looking = None


class _AsideStream:
    """One stream for sessions, to one replica."""

    def __init__(self, entrance: Entrance, node: str, clock: Clock) -> None:
        self._entrance = entrance
        self._node = node
        self._clock = clock
        self._queue: asyncio.Queue[SideMessage] = asyncio.Queue(_WAITING_MAX)
        self._clients: dict[int, JobSession] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._used_at = clock.monotonic()

    async def run(self, link: Sideways, key: str) -> None:
        stream = None
        try:
            stream = await link.aside()
            await stream.send(SideHello(node=self._node, key=key))
            await first_to_end(self._send(stream), self._receive(stream), self._until_unused())
        except (LinkBroken, LinkRefused) as error:
            _log.info("agent.aside_ended", why=str(error))
        finally:
            for session in self._clients.values():
                session.detach()
            for task in self._calls:
                task.cancel()
            if stream is not None:
                await stream.close()

    async def _send(self, stream: SideStream) -> None:
        while True:
            await stream.send(await self._queue.get())
            self._used_at = self._clock.monotonic()

    async def _until_unused(self) -> None:
        while self._clients or self._calls or self._clock.monotonic() - self._used_at < _UNUSED_S:
            await self._clock.sleep(_UNUSED_S / 4)

    async def _receive(self, stream: SideStream) -> None:
        async for command in stream.commands():
            self._used_at = self._clock.monotonic()
            match command:
                case FromClient(client=client, frame=frame):
                    if (session := self._clients.get(client)) is not None:
                        session.take(frame)
                case _:
                    task = asyncio.create_task(self._answer(command))
                    self._calls.add(task)
                    task.add_done_callback(self._calls.discard)

    async def _answer(self, command: SideCommand) -> None:
        match command:
            case OpenSession():
                answer = await self._entrance.open(command)
            case AttachClient():
                answer = self._attach(command)
            case ClientLeft(client=client):
                # In turn with the others: it may come right behind the order to attach that client.
                if (session := self._clients.pop(client, None)) is not None:
                    session.detach()
                return
            case ListSessions():
                answer = self._entrance.list(command)
            case EndSession():
                answer = self._entrance.end(command)
            case MeasureUse():
                answer = await self._entrance.measure(command)
            case _:
                return
        await self._queue.put(answer)

    def _attach(self, command: AttachClient) -> SideAnswer:
        session = self._entrance.find(command.ref, command.id)
        if session is None:
            return SideAnswer(call=command.call, refused="there is no such session in the job, or it has ended")
        view = session.view()
        client = command.client
        session.attach(command.offset, partial(self._say, client), partial(self._drop, client))
        self._clients[client] = session
        return SideAnswer(call=command.call, sessions=(view,))

    async def _say(self, client: int, frame: SessionFrame) -> None:
        await self._queue.put(ToClient(client=client, frame=frame))

    def _drop(self, client: int, why: str) -> None:
        self._clients.pop(client, None)
        dropped = asyncio.create_task(self._queue.put(ClientDropped(client=client, reason=why)))
        self._calls.add(dropped)
        dropped.add_done_callback(self._calls.discard)
