"""The control plane's end of agents' streams: registration, renewals, commands and reports.

Commands are derived from the view, never remembered: whatever is bound to a node's incarnation and
was not offered in this session is offered; whatever was offered and lost its fence is stopped.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

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

log = structlog.get_logger()

_STORE_PAUSE_S = 0.2


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
        session = self._open(enrolled, hello)
        tasks = [
            asyncio.create_task(self._read(session, first.messages[1:], frames)),
            asyncio.create_task(self._commit_reports(session)),
            asyncio.create_task(self._renew(session)),
        ]
        try:
            while not session.closed:
                messages = await session.outgoing()
                if messages:
                    yield ServerFrame(messages=tuple(messages))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._close(session)

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
        current = {
            ref_of(state): (state, placement)
            for state, placement in self._placed_on(enrolled.node)
            if placement.incarnation == enrolled.incarnation
        }
        alive = set(hello.alive)
        keep = tuple(ref for ref in hello.alive if ref in current and current[ref][0].phase in BOUND)
        session.send(Welcome(incarnation=enrolled.incarnation, store_epoch=self._epoch, keep=keep))
        session.offered.update(keep)
        for ref, (state, placement) in current.items():
            if ref not in alive and state.phase in BOUND:
                self._offer(session, state, placement)
            elif ref not in alive and state.lingering:
                session.reports.append(Report.gone(revoked_ref(state)))
                session.report_ready.set()
        self._telemetry.gauge("ares_agents_connected", len(self._by_node))
        log.info("agent.connected", node=session.node, incarnation=session.incarnation, kept=len(keep))
        return session

    def _close(self, session: Session) -> None:
        if self._by_node.get(session.node) is session:
            del self._by_node[session.node]
        self._telemetry.gauge("ares_agents_connected", len(self._by_node))
        log.info("agent.disconnected", node=session.node, why=session.closed_why or "stream ended")

    def _placed_on(self, node: str) -> list[tuple[JobState, Placement]]:
        states = [self._view.entries[job].state for job in self._view.by_node.get(node, ())]
        return [(state, p) for state in states for p in state.placements if p.node == node]

    # ---- commands, from changes of the view

    def _on_delta(self, delta: Delta) -> None:
        for before, entry in delta.states:
            if before is not None and before.placements and before.phase in BOUND:
                self._withdraw(before, entry.state)
            if entry.state.phase == "STAGING":
                for placement in entry.state.placements:
                    session = self._by_node.get(placement.node)
                    if session is not None and session.incarnation == placement.incarnation:
                        self._offer(session, entry.state, placement)

    def _offer(self, session: Session, state: JobState, placement: Placement) -> None:
        ref = ref_of(state)
        spec = self._view.spec(state)
        if ref in session.offered or spec is None:
            return
        session.offered.add(ref)
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
            )
        )

    def _withdraw(self, before: JobState, after: JobState) -> None:
        """Stops what was offered and is no longer current. A reported exit needs no stopping."""
        if after.phase in BOUND and after.fence == before.fence:
            return
        ref = ref_of(before)
        for placement in before.placements:
            session = self._by_node.get(placement.node)
            if session is None or ref not in session.offered:
                continue
            session.offered.discard(ref)
            if after.lingering or after.phase in ("RETRYING", "UNKNOWN"):
                spec = self._view.spec(before)
                grace = spec.grace_s if spec is not None and after.phase == "CANCELLED" else 0.0
                session.send(Stop(ref=ref, grace_s=grace, reason=after.reason or after.phase))

    # ---- messages from the agent

    async def _read(
        self, session: Session, early: tuple[AgentMessage, ...], frames: AsyncIterator[AgentFrame]
    ) -> None:
        try:
            self._take(session, early)
            async for frame in frames:
                self._take(session, frame.messages)
        except Exception as error:
            session.close(f"unreadable message: {error}")
            raise
        session.close("the agent closed the stream")

    def _take(self, session: Session, messages: tuple[AgentMessage, ...]) -> None:
        for message in messages:
            match message:
                case Renew():
                    session.renewals.append(message)
                    session.renew_ready.set()
                case LogChunk():
                    self._keep_log(session, message)
                case Progress():
                    if self._may_report(session, message.ref):
                        self._progress.note(message)
                case Hello():
                    session.close("hello in the middle of a session")
                case _:
                    session.reports.append(Report.of(message))
                    session.report_ready.set()

    def _may_report(self, session: Session, ref: AttemptRef) -> bool:
        """An agent speaks only for attempts that are placed on its own node."""
        return any(state.id == ref.job for state, _ in self._placed_on_job(session, ref))

    def _placed_on_job(self, session: Session, ref: AttemptRef) -> list[tuple[JobState, Placement]]:
        entry = self._view.entries.get(ref.job)
        if entry is None or entry.state.tenant != ref.tenant or not holds(entry.state):
            return []
        return [
            (entry.state, p)
            for p in entry.state.placements
            if p.node == session.node and p.incarnation == session.incarnation
        ]

    def _keep_log(self, session: Session, chunk: LogChunk) -> None:
        kept = chunk.offset + len(chunk.data)
        if self._may_report(session, chunk.ref):
            try:
                kept = self._logs.append(
                    chunk.ref.tenant, chunk.ref.job, chunk.attempt, chunk.rank, chunk.offset, chunk.data
                )
            except OSError as error:
                # Output may be lost to a full disk; the job's result must not wait for it.
                log.error("log.lost", job=chunk.ref.job, bytes=len(chunk.data), error=str(error))
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
            with contextlib.suppress(StoreError):
                revision = await self._enrolment.renew(session.node, session.incarnation, session.lease_revision)
                if revision is None:
                    session.close("another session of this node has taken over")
                    return
                session.lease_revision = revision
                for renewal in renewals:
                    session.send(Renewed(nonce=renewal.nonce))


def ref_of(state: JobState) -> AttemptRef:
    """The attempt a bound state grants."""
    return AttemptRef(job=state.id, tenant=state.tenant, fence=state.fence)


def revoked_ref(state: JobState) -> AttemptRef:
    """The attempt a lingering state has revoked."""
    return AttemptRef(job=state.id, tenant=state.tenant, fence=revoked_fence(state))
