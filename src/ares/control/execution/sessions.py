"""The control plane's end of agents' streams: registration, renewals, commands and reports.

Commands are derived from the view, never remembered: every rank that is bound to a node's incarnation
and not held in this session is offered; every rank that is held and lost its right is stopped.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import structlog

from ares.control.access.tokens import Tokens
from ares.control.execution.commands import asks_nothing_new, attempt_of, grants, start_of, stop_of, world_of
from ares.control.execution.enrolment import Enrolled, Enrolment, SessionRefused
from ares.control.execution.handover import Handover
from ares.control.execution.log_intake import LogKeeper, LogStreams
from ares.control.execution.progress import ProgressBoard
from ares.control.execution.renewals import Renewals
from ares.control.execution.report_intake import ReportIntake
from ares.control.execution.reports import Report
from ares.control.execution.rights import Rights
from ares.control.execution.session import AgentSession, Key, carry
from ares.control.execution.transfers import RateLeases
from ares.control.execution.uploads import Uploads
from ares.control.governance.secrets import Secrets
from ares.control.state.view import Delta, View
from ares.core.lifecycle.ranks import held
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.link import (
    AgentFrame,
    AgentMessage,
    AttemptRef,
    Cached,
    Fenced,
    Hello,
    JoinReply,
    JoinRequest,
    Leave,
    LogChunk,
    Moving,
    OutputChunk,
    Progress,
    Renew,
    Resize,
    ServerFrame,
    Stop,
    StoreLock,
    Welcome,
    WorldInfo,
)
from ares.model.state import BOUND, JobState, Placement
from ares.model.telemetry.program_span import ProgramSpans
from ares.model.timing import DEFAULT, Timing
from ares.ports.clock import Clock, happens
from ares.ports.store import StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_STORE_PAUSE_S = 0.2
# When all agents connect at once, renewals of connected agents must not wait behind registrations.
_ENROLLING_MAX = 16
# Acknowledgements wait this long for a command to travel with.
ACK_WITHIN_S = 0.02
# Size of one rank's address in a message.
_PEER_BYTES = 96


class Sessions:
    """All agents connected to this replica."""

    def __init__(
        self,
        *,
        view: View,
        enrolment: Enrolment,
        reports: ReportIntake,
        rights: Rights,
        progress: ProgressBoard,
        tokens: Tokens,
        logs: LogKeeper,
        uploads: Uploads,
        secrets: Secrets,
        handover: Handover,
        leases: RateLeases,
        clock: Clock,
        telemetry: Telemetry,
        epoch: int,
        timing: Timing = DEFAULT,
        ack_within_s: float = ACK_WITHIN_S,
        store_lock: StoreLock | None = None,
    ) -> None:
        self._view, self._enrolment, self._handover = view, enrolment, handover
        self._renewals = Renewals(enrolment, view, clock, telemetry, timing)
        self._reports, self._rights, self._progress = reports, rights, progress
        self._tokens, self._logs, self._leases = tokens, logs, leases
        self._uploads, self._secrets = uploads, secrets
        self._clock, self._telemetry = clock, telemetry
        self._epoch, self._timing = epoch, timing
        self._ack_within_s, self._store_lock = ack_within_s, store_lock
        self.by_node: dict[str, AgentSession] = {}
        self.log_streams = LogStreams(self.by_node, logs, rights)
        self._door = asyncio.Semaphore(_ENROLLING_MAX)
        # A stream that is opened from now on ends at once: the agent tries another replica, or again.
        self._stopping = False
        view.subscribe(self._on_delta)

    async def join(self, request: JoinRequest) -> JoinReply | Refusal:
        """Trades a one-time token for the node's own credential."""
        traded = await self._tokens.trade_join(request.token, request.node)
        if isinstance(traded, Refusal):
            return traded
        return JoinReply(node=request.node, credential=traded[0], role=traded[1])

    async def serve(self, who: Principal, frames: AsyncIterator[AgentFrame]) -> AsyncGenerator[ServerFrame, None]:
        """One agent's stream, from its Hello until either side ends it."""
        try:
            first = await anext(frames, None)
        except SessionRefused as refusal:
            raise await self._rights.refused(who.node or "", refusal) from None
        if self._stopping:
            return
        hello = first.messages[0] if first is not None and first.messages else None
        if first is None or not isinstance(hello, Hello):
            raise SessionRefused("the first message of a session must be hello")
        if hello.info.name != who.node:
            forged = SessionRefused(f"this credential is for node {who.node!r}, not another", "not_granted")
            raise await self._rights.refused(who.node or "", forged)
        async with self._door:
            began = self._clock.monotonic()
            try:
                enrolled = await self._enrolment.enrol(hello)
            except SessionRefused as refusal:
                raise await self._rights.refused(hello.info.name, refusal) from None
            # The agent's attempts were granted before now: a view that lags would stop them.
            await self._view.reach(enrolled.lease_revision)
        if self._stopping:
            return
        renewals = tuple(message for message in first.messages[1:] if isinstance(message, Renew))
        session = self._open(enrolled, hello, renewals)
        # The registration wrote the lease, so renewals that came with the hello are done.
        session.renewed_at = began
        early = tuple(message for message in first.messages[1:] if not isinstance(message, Renew))
        tasks = [
            asyncio.create_task(carry(session, loop))
            for loop in (
                self._read(session, early, frames),
                self._reports.run(session),
                self._renewals.run(session),
                self._handover.run(session),
                self._uploads.run(session),
            )
        ]
        try:
            while not session.closed:
                await session.waiting()
                await happens(session.urgent, self._clock, self._ack_within_s)
                if messages := session.outgoing():
                    yield ServerFrame(messages=tuple(messages))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._close(session)
        if session.refusal:
            raise SessionRefused(session.refusal, "malformed")

    @property
    def connected(self) -> tuple[str, ...]:
        return tuple(self.by_node)

    async def announce(self, lasts_s: float) -> None:
        """Before this replica stops: what runs may go on until leases of that length are over, and every agent looks
        for a control plane from now on. A lease that cannot be written stays as it is."""
        self._stopping = True
        sessions = tuple(self.by_node.values())
        outcomes = await asyncio.gather(
            *(self._renewals.extend(session, lasts_s) for session in sessions), return_exceptions=True
        )
        for session, outcome in zip(sessions, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                log.warning("agent.not_extended", node=session.node, error=str(outcome))
            session.close("the control plane is stopping")

    # ---- opening and closing

    def _open(self, enrolled: Enrolled, hello: Hello, renewals: tuple[Renew, ...]) -> AgentSession:
        older = self.by_node.get(enrolled.node)
        if older is not None:
            older.close("the agent connected again")
        session = AgentSession(enrolled, hello)
        self.by_node[enrolled.node] = session
        placed = [
            (self._view.entries[job].state, mine)
            for job, places in self._view.by_node.get(enrolled.node, {}).items()
            if (mine := tuple(place for place in places if place.incarnation == enrolled.incarnation))
        ]
        # An attempt that was told to save its work may go on with that.
        kept = {attempt_of(state) for state, _ in placed if state.phase in BOUND or state.phase == "PREEMPTED"}
        keep = tuple(ref for ref in hello.alive if ref in kept)
        session.states_terms = any(renewal.dead_after_s > 0 for renewal in renewals)
        welcome = Welcome(
            incarnation=enrolled.incarnation, store_epoch=self._epoch, keep=keep,
            dead_after_s=self._renewals.lasts_s(session),
            renew_every_s=self._timing.renew_every_s, self_fence_ratio=self._timing.self_fence_ratio,
            output_bytes_max=self._uploads.bytes_max, store_lock=self._store_lock,
            moves=True, cached=True, spans=True, log_stream=session.number,
            peer_key=self._secrets.peer_key(session.node, enrolled.incarnation),
        )  # fmt: skip
        session.send(welcome)
        self._leases.greet(session)
        self._renewals.answer(session, renewals)
        alive = frozenset(hello.alive)
        for state, places in placed:
            self._resume(session, state, places, alive)
        self._telemetry.gauge("ares_agents_connected", len(self.by_node))
        log.info("agent.connected", node=session.node, incarnation=session.incarnation, kept=len(keep))
        return session

    async def _close(self, session: AgentSession) -> None:
        session.log_stream_over.set()
        last = self.by_node.get(session.node) is session
        if last:
            del self.by_node[session.node]
        self._telemetry.gauge("ares_agents_connected", len(self.by_node))
        log.info("agent.disconnected", node=session.node, why=session.closed_why or "stream ended")
        if last:
            try:
                await self._enrolment.part(session.node, session.incarnation)
            except StoreError as error:
                # The lease runs out by itself.
                log.warning("agent.part_unrecorded", node=session.node, error=str(error))

    def _resume(
        self, session: AgentSession, state: JobState, places: tuple[Placement, ...], alive: frozenset[AttemptRef]
    ) -> None:
        """Sends the commands of a state to a node that connected, perhaps with the attempt alive."""
        ref, spec = attempt_of(state), self._view.spec(state)
        # A fence from before a restore: the attempt may have run in the time that is lost, so it is not started.
        over = ref.fence.epoch < self._epoch
        if ref not in alive:
            for place in places:
                if over or not grants(state, ref, place.rank):
                    session.take(Report.gone(ref, place.rank))
            if over:
                return
        elif spec is not None and spec.gang is None and state.phase in BOUND and not state.updates:
            session.held.update((ref, place.rank) for place in places)
        elif state.phase in BOUND and state.ended_ranks:
            # The agent names attempts that are alive, not ranks: it may have kept a rank that was given up.
            session.send(Stop(ref=ref, grace_s=0.0, reason="the gang went on without it", ranks=state.ended_ranks))
        world = world_of(self._view, state, spec)
        if ref in alive and state.phase in BOUND and state.generation:
            session.send(Resize(ref=ref, world=world), extra_bytes=_PEER_BYTES * len(world.peers))
        for place in places:
            self._command(session, state, place, world)

    # ---- commands, from changes of the view

    def _on_delta(self, delta: Delta) -> None:
        for before, entry in delta.states:
            self._follow(before, entry.state)
        if delta.relisted:
            for session in self.by_node.values():
                self._reconcile(session)

    def _follow(self, before: JobState | None, state: JobState) -> None:
        if before is not None and asks_nothing_new(before, state):
            if before.phase == "PREEMPTED" and state.phase != "PREEMPTED":
                self._hurry(state)
            if before.updates == state.updates or state.phase not in BOUND:
                return
            # Its agents take the new time limit from the same command, so it is sent once more.
            for session in self.by_node.values():
                session.held.difference_update((attempt_of(state), place.rank) for place in held(state))
        if before is not None and before.phase in BOUND:
            self._withdraw(before, state)
        here = [
            (session, place)
            for place in held(state)
            if (session := self.by_node.get(place.node)) is not None and session.incarnation == place.incarnation
        ]
        if not here:
            return
        world = world_of(self._view, state, self._view.spec(state))
        if world.generation and (before is None or before.generation != state.generation):
            ref = attempt_of(state)
            for session in dict.fromkeys(s for s, place in here if (ref, place.rank) in s.held):
                session.send(Resize(ref=ref, world=world), extra_bytes=_PEER_BYTES * len(world.peers))
        for session, place in here:
            self._command(session, state, place, world)

    def _command(self, session: AgentSession, state: JobState, place: Placement, world: WorldInfo) -> None:
        """Sends the command of a state for one rank to its agent."""
        key = (attempt_of(state), place.rank)
        if grants(state, *key):
            self._offer(session, key, state, place, world)
        elif key not in session.ending:
            # Also a rank that this session never offered: only the agent can say that it is not there.
            session.held.add(key)
            self._stop(session, key, state)

    def _offer(self, session: AgentSession, key: Key, state: JobState, place: Placement, world: WorldInfo) -> None:
        spec = self._view.spec(state)
        if key in session.held or spec is None:
            return
        session.held.add(key)
        start = start_of(key[0], state, place, spec, world, self._secrets)
        extra = len(self._view.specs[state.array or state.id]) + _PEER_BYTES * len(world.peers)
        session.send(start, extra_bytes=extra + sum(len(secret.value) for secret in start.secrets))

    def _withdraw(self, before: JobState, after: JobState) -> None:
        """Stops ranks that the new state does not grant."""
        ref = attempt_of(before)
        for place in held(before):
            session = self.by_node.get(place.node)
            if session is not None and not grants(after, ref, place.rank):
                self._stop(session, (ref, place.rank), after)

    def _hurry(self, state: JobState) -> None:
        """A preempted job was cancelled while it saves its work: it need not finish that."""
        ref, spec = attempt_of(state), self._view.spec(state)
        for place in held(state):
            session = self.by_node.get(place.node)
            if session is not None and (ref, place.rank) in session.held:
                session.send(stop_of(ref, place.rank, state, spec))

    def _reconcile(self, session: AgentSession) -> None:
        """Stops ranks that were revoked while this replica could not see it."""
        for key in tuple(session.held):
            entry = self._view.entries.get(key[0].job)
            if entry is None or not grants(entry.state, *key):
                self._stop(session, key, None if entry is None else entry.state)

    def _stop(self, session: AgentSession, key: Key, now: JobState | None) -> None:
        """`now` is the job's state without the rank. A rank that reported its end is not stopped."""
        if key not in session.held or key in session.ending:
            return
        session.ending.add(key)
        session.send(stop_of(*key, now, None if now is None else self._view.spec(now)))

    # ---- messages from the agent

    async def _read(
        self, session: AgentSession, early: tuple[AgentMessage, ...], frames: AsyncIterator[AgentFrame]
    ) -> None:
        self._take(session, early)
        try:
            async for frame in frames:
                self._take(session, frame.messages)
                while session.crowded:
                    await self._clock.sleep(_STORE_PAUSE_S)
        except SessionRefused as refusal:
            session.refusal = str(await self._rights.refused(session.node, refusal))
        session.close(session.refusal or "the agent closed the stream")

    def _take_told(self, session: AgentSession, message: LogChunk | ProgramSpans) -> None:
        """What a program said. Spans have no answer."""
        if isinstance(message, LogChunk):
            session.send(self._logs.take(session, message))
        else:
            self._logs.take_spans(session, message)

    def _take(self, session: AgentSession, messages: tuple[AgentMessage, ...]) -> None:
        for message in messages:
            match message:
                case Renew():
                    session.renewals.append(message)
                    session.renew_ready.set()
                case Leave():
                    session.left.set()
                    session.renew_ready.set()
                case LogChunk() | ProgramSpans():
                    self._take_told(session, message)
                case OutputChunk():
                    self._uploads.take(session, message)
                case Cached(versions=versions):
                    session.cached = versions
                case Moving(moves=moves):
                    self._leases.note(session, moves)
                case Progress():
                    if self._rights.may_report(session, message.ref, message.rank):
                        self._progress.note(message)
                    else:
                        self._rights.note(session, "reportProgress", message.ref, message.rank)
                case Hello():
                    session.close("hello in the middle of a session")
                case _:
                    leaving = session.leaving or (isinstance(message, Fenced) and message.evicted)
                    session.take(Report.of(message, session.node if leaving else ""))
