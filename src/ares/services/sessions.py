"""The control plane's end of agents' streams: registration, renewals, commands and reports.

Commands are derived from the view, never remembered: whatever is bound to a node's incarnation and
is not held in this session is offered; whatever is held and lost its fence is stopped.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine

import structlog

from ares.core.access.tokens import Denied
from ares.core.run.handlers import revoked_fence
from ares.model.access import Principal
from ares.model.link import (
    AgentFrame,
    AgentMessage,
    AttemptRef,
    Hello,
    JoinReply,
    JoinRequest,
    Leave,
    LogAck,
    LogChunk,
    Progress,
    Renew,
    Renewed,
    ServerFrame,
    Start,
    Stop,
    Welcome,
)
from ares.model.state import BOUND, JobState, Placement
from ares.ports.clock import Clock
from ares.ports.logs import Logs
from ares.ports.store import StoreError
from ares.ports.telemetry import Telemetry
from ares.services.enrolment import Enrolled, Enrolment, SessionRefused
from ares.services.progress import ProgressBoard
from ares.services.reports import Report, Reports
from ares.services.session import Session
from ares.services.tokens import Tokens
from ares.services.view import Delta, View, holds
from ares.services.waiting import happens

log = structlog.get_logger()

_STORE_PAUSE_S = 0.2
# Acknowledgements wait this long for a command to travel with.
_ACK_WITHIN_S = 0.02


class Sessions:
    """All agents connected to this replica."""

    def __init__(
        self,
        *,
        view: View,
        enrolment: Enrolment,
        reports: Reports,
        progress: ProgressBoard,
        tokens: Tokens,
        logs: Logs,
        clock: Clock,
        telemetry: Telemetry,
        epoch: int,
        ack_within_s: float = _ACK_WITHIN_S,
    ) -> None:
        self._view = view
        self._enrolment = enrolment
        self._reports = reports
        self._progress = progress
        self._tokens = tokens
        self._logs = logs
        self._clock = clock
        self._telemetry = telemetry
        self._epoch = epoch
        self._ack_within_s = ack_within_s
        self._by_node: dict[str, Session] = {}
        view.subscribe(self._on_delta)

    async def join(self, request: JoinRequest) -> JoinReply | Denied:
        """Trades a one-time token for the node's own credential."""
        traded = await self._tokens.trade_join(request.token, request.node)
        return traded if isinstance(traded, Denied) else JoinReply(node=request.node, credential=traded)

    async def serve(self, who: Principal, frames: AsyncIterator[AgentFrame]) -> AsyncGenerator[ServerFrame, None]:
        """One agent's stream, from its Hello until either side goes away."""
        first = await anext(frames, None)
        hello = first.messages[0] if first is not None and first.messages else None
        if first is None or not isinstance(hello, Hello):
            raise SessionRefused("the first message of a session must be hello")
        if hello.info.name != who.node:
            raise SessionRefused(f"this credential is for node {who.node!r}, not {hello.info.name!r}")
        enrolled = await self._enrolment.enrol(hello)
        # What the agent holds was granted before now: a view that lags would disown it.
        await self._view.reach(enrolled.lease_revision)
        session = self._open(enrolled, hello)
        tasks = [
            asyncio.create_task(_carry(session, loop))
            for loop in (
                self._read(session, first.messages[1:], frames),
                self._commit_reports(session),
                self._renew(session),
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

    @property
    def connected(self) -> tuple[str, ...]:
        return tuple(self._by_node)

    # ---- opening and closing

    def _open(self, enrolled: Enrolled, hello: Hello) -> Session:
        older = self._by_node.get(enrolled.node)
        if older is not None:
            older.close("the agent connected again")
        session = Session(enrolled.node, enrolled.incarnation, enrolled.lease_revision)
        self._by_node[enrolled.node] = session
        placed = [
            (state, placement)
            for state, placement in self._placed_on(enrolled.node)
            if placement.incarnation == enrolled.incarnation
        ]
        granted = {ref_of(state) for state, _ in placed if state.phase in BOUND}
        keep = tuple(ref for ref in hello.alive if ref in granted)
        session.send(Welcome(incarnation=enrolled.incarnation, store_epoch=self._epoch, keep=keep))
        session.held.update(hello.alive)
        # The agent ends by itself what the welcome does not keep.
        session.ending.update(ref for ref in hello.alive if ref not in granted)
        for state, placement in placed:
            if state.lingering and revoked_ref(state) not in session.held:
                session.take(Report.gone(revoked_ref(state)))
            else:
                self._command(session, state, placement)
        self._telemetry.gauge("ares_agents_connected", len(self._by_node))
        log.info("agent.connected", node=session.node, incarnation=session.incarnation, kept=len(keep))
        return session

    async def _close(self, session: Session) -> None:
        last = self._by_node.get(session.node) is session
        if last:
            del self._by_node[session.node]
        self._telemetry.gauge("ares_agents_connected", len(self._by_node))
        log.info("agent.disconnected", node=session.node, why=session.closed_why or "stream ended")
        if last:
            try:
                await self._enrolment.part(session.node, session.incarnation)
            except StoreError as error:
                # The lease runs out by itself.
                log.warning("agent.part_unrecorded", node=session.node, error=str(error))

    def _placed_on(self, node: str) -> list[tuple[JobState, Placement]]:
        states = [self._view.entries[job].state for job in self._view.by_node.get(node, ())]
        return [(state, p) for state in states for p in state.placements if p.node == node]

    # ---- commands, from changes of the view

    def _on_delta(self, delta: Delta) -> None:
        for before, entry in delta.states:
            if before is not None and before.phase in BOUND:
                self._withdraw(before, entry.state)
            for placement in entry.state.placements:
                session = self._by_node.get(placement.node)
                if session is not None:
                    self._command(session, entry.state, placement)
        if delta.relisted:
            for session in self._by_node.values():
                self._reconcile(session)

    def _command(self, session: Session, state: JobState, placement: Placement) -> None:
        """What a state asks of the agent it is placed on."""
        if placement.incarnation != session.incarnation:
            return
        if state.phase in BOUND:
            self._offer(session, state, placement)
        elif state.lingering:
            # Also when it was never offered here: only the agent can say that it is not there.
            ref = revoked_ref(state)
            session.held.add(ref)
            self._stop(session, ref, state)

    def _offer(self, session: Session, state: JobState, placement: Placement) -> None:
        ref = ref_of(state)
        spec = self._view.spec(state)
        if ref in session.held or spec is None:
            return
        session.held.add(ref)
        session.send(
            Start(
                ref=ref,
                attempt=state.attempt,
                placement=placement,
                spec=spec,
                world_size=len(state.placements),
                array=state.array,
                index=state.index,
                trace=state.trace,
            ),
            extra_bytes=len(self._view.specs[state.array or state.id]),
        )

    def _withdraw(self, before: JobState, after: JobState) -> None:
        """Stops what is no longer current."""
        if _grants(after, ref_of(before)):
            return
        for placement in before.placements:
            session = self._by_node.get(placement.node)
            if session is not None:
                self._stop(session, ref_of(before), after)

    def _reconcile(self, session: Session) -> None:
        """Stops what lost its fence while this replica could not see it."""
        for ref in tuple(session.held):
            entry = self._view.entries.get(ref.job)
            if entry is None or not _grants(entry.state, ref):
                self._stop(session, ref, None if entry is None else entry.state)

    def _stop(self, session: Session, ref: AttemptRef, now: JobState | None) -> None:
        """`now` is the job's state without the attempt. What reported its end needs no stopping."""
        if ref not in session.held or ref in session.ending:
            return
        session.ending.add(ref)
        spec = self._view.spec(now) if now is not None and now.lingering else None
        reason = "the job was removed" if now is None else now.reason or now.phase
        session.send(Stop(ref=ref, grace_s=0.0 if spec is None else spec.grace_s, reason=reason))

    # ---- messages from the agent

    async def _read(self, session: Session, early: tuple[AgentMessage, ...], frames: AsyncIterator[AgentFrame]) -> None:
        self._take(session, early)
        async for frame in frames:
            self._take(session, frame.messages)
        session.close("the agent closed the stream")

    def _take(self, session: Session, messages: tuple[AgentMessage, ...]) -> None:
        for message in messages:
            match message:
                case Renew():
                    session.renewals.append(message)
                    session.renew_ready.set()
                case Leave():
                    session.leaving = True
                    session.renew_ready.set()
                case LogChunk():
                    self._keep_log(session, message)
                case Progress():
                    if self._may_report(session, message.ref):
                        self._progress.note(message)
                case Hello():
                    session.close("hello in the middle of a session")
                case _:
                    session.take(Report.of(message))

    def _may_report(self, session: Session, ref: AttemptRef) -> bool:
        """An agent speaks only for attempts that are placed on its own node."""
        entry = self._view.entries.get(ref.job)
        if entry is None or entry.state.tenant != ref.tenant or not holds(entry.state):
            return False
        here = (session.node, session.incarnation)
        return any((p.node, p.incarnation) == here for p in entry.state.placements)

    def _keep_log(self, session: Session, chunk: LogChunk) -> None:
        kept = chunk.offset + len(chunk.data)
        if chunk.ref not in session.lost_logs and self._may_report(session, chunk.ref):
            try:
                kept = self._logs.append(
                    chunk.ref.tenant, chunk.ref.job, chunk.attempt, chunk.rank, chunk.offset, chunk.data
                )
            except OSError as error:
                # Output may be lost to a full disk; the job's result must not wait for it.
                session.lost_logs.add(chunk.ref)
                log.error("log.lost", job=chunk.ref.job, offset=chunk.offset, error=str(error))
            self._telemetry.count("ares_log_bytes_total", len(chunk.data))
        session.send(LogAck(ref=chunk.ref, rank=chunk.rank, offset=kept))

    async def _commit_reports(self, session: Session) -> None:
        """Everything that arrived while a commit was under way goes into the next one."""
        while True:
            await session.report_ready.wait()
            session.report_ready.clear()
            batch, session.reports = session.reports, []
            while batch:
                allowed = [report for report in batch if self._may_report(session, report.ref)]
                try:
                    await self._reports.commit(allowed)
                    break
                except StoreError as error:
                    log.warning("reports.delayed", node=session.node, count=len(batch), error=str(error))
                    await self._clock.sleep(_STORE_PAUSE_S)
            session.acknowledge(batch)

    async def _renew(self, session: Session) -> None:
        while True:
            await session.renew_ready.wait()
            session.renew_ready.clear()
            renewals, session.renewals = session.renewals, []
            try:
                revision = await self._enrolment.renew(
                    session.node, session.incarnation, session.lease_revision, leaving=session.leaving
                )
            except StoreError as error:
                # The agent's next renewal may come too late for it: this one is tried again.
                log.warning("renewal.delayed", node=session.node, error=str(error))
                session.renewals = renewals + session.renewals
                await self._clock.sleep(_STORE_PAUSE_S)
                session.renew_ready.set()
                continue
            if revision is None:
                session.close("another session of this node has taken over")
                return
            session.lease_revision = revision
            for renewal in renewals:
                session.send(Renewed(nonce=renewal.nonce))


async def _carry(session: Session, loop: Coroutine[None, None, None]) -> None:
    """Runs one of a session's loops; the session ends when the loop breaks, so that the agent comes again."""
    try:
        await loop
    except Exception as error:
        log.error("session.failed", node=session.node, error=repr(error), exc_info=error)
        session.close(f"failed: {error}")


def _grants(state: JobState, ref: AttemptRef) -> bool:
    return state.phase in BOUND and state.fence == ref.fence and state.tenant == ref.tenant


def ref_of(state: JobState) -> AttemptRef:
    """The attempt a bound state grants."""
    return AttemptRef(job=state.id, tenant=state.tenant, fence=state.fence)


def revoked_ref(state: JobState) -> AttemptRef:
    """The attempt a lingering state has revoked."""
    return AttemptRef(job=state.id, tenant=state.tenant, fence=revoked_fence(state))
