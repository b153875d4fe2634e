"""Stores the output that agents send, of attempts placed on their node, up to a cap.

Output that could not be written is not acknowledged: the agent keeps it and sends it again. Output that is lost in the
end is noted in the log, where it is missing, and in the exit of the attempt.
"""

import asyncio
import errno
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.execution.enrolment import SessionRefused
from ares.control.execution.reports import Report
from ares.control.execution.rights import Rights
from ares.control.execution.session import AgentSession
from ares.control.state.view import View
from ares.model.access import Principal
from ares.model.link import Exited, Fenced, LogAck, LogChunk
from ares.model.telemetry.log_stream import LogAcks, LogFrame, LogHello, LogMessage
from ares.model.telemetry.program_span import KEPT_BYTES_MAX, ProgramSpans
from ares.ports.logs import Logs
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

LOG_BYTES_MAX = 64 << 20
# Space beyond the cap of a program, for notes of agents about output they dropped.
_NOTES_BYTES = 4096
_MISSING = "bytes of output are missing here"
_LINE_BYTES_MAX = 512


class LogKeeper:
    """One for all sessions of a replica. `bytes_max` is for one rank of an attempt."""

    def __init__(
        self, *, view: View, rights: Rights, logs: Logs, telemetry: Telemetry, bytes_max: int = LOG_BYTES_MAX
    ) -> None:
        self._view = view
        self._rights = rights
        self._logs = logs
        self._telemetry = telemetry
        self._cap = bytes_max + _NOTES_BYTES

    def take(self, session: AgentSession, chunk: LogChunk) -> LogAck:
        """Stores a piece, if the agent may send it. The answer goes back by the stream on which the piece came."""
        if not self._rights.may_log(session, chunk):
            self._rights.note(session, "writeLog", chunk.ref, chunk.rank)
            return _ack(chunk, chunk.offset + len(chunk.data))
        self._telemetry.count("ares_log_bytes_total", len(chunk.data))
        return self._keep(session, chunk)

    def take_spans(self, session: AgentSession, told: ProgramSpans) -> None:
        """Keeps what the program of an attempt recorded, as far as there is room. It is not worth being sent twice."""
        if not self._rights.may_tell(session, told.ref, told.rank, told.attempt):
            self._rights.note(session, "tellSpans", told.ref, told.rank)
            return
        place, data = (told.ref.tenant, told.ref.job, told.attempt, told.rank), msgspec.json.encode(told.spans)
        try:
            self._logs.append_spans(*place, data, KEPT_BYTES_MAX)
        except OSError as error:
            log.warning("spans.unkept", job=told.ref.job, node=session.node, error=error.strerror or str(error))

    def _keep(self, session: AgentSession, chunk: LogChunk) -> LogAck:
        end, key = chunk.offset + len(chunk.data), (chunk.ref, chunk.rank)
        if key in session.dropped_logs:
            return _ack(chunk, end)
        try:
            kept = self._append(chunk)
        except OSError as error:
            if error.errno == errno.EDQUOT:
                # A full quota does not pass by waiting: the log says so, and no more of the output is stored.
                self._note(chunk, f"output from here on is not kept: {error.strerror}")
                session.dropped_logs.add(key)
                return _ack(chunk, end)
            kept, why = self._size(chunk), error.strerror or str(error)
            log.warning("log.unkept", job=chunk.ref.job, node=session.node, kept=kept, sent=end, error=why)
            self._telemetry.count("ares_log_unkept_total", 1)
        else:
            why = "" if kept >= end else f"{kept:,} bytes are kept, {chunk.offset:,} to {end:,} were sent"
        if not why:
            # An agent that was told of trouble goes on from the stored size: this piece makes the log complete again.
            session.unkept_logs.pop(key, None)
            return _ack(chunk, end)
        sent = max(end, session.unkept_logs.get(key, (0, ""))[0])
        session.unkept_logs[key] = (sent, why)
        return _ack(chunk, kept, trouble=f"the control plane cannot keep it: {why}")

    def _append(self, chunk: LogChunk) -> int:
        """The offset up to which output need not be sent again. Output beyond the cap is dropped, noted once."""
        tenant, job, attempt, rank = chunk.ref.tenant, chunk.ref.job, chunk.attempt, chunk.rank
        end = chunk.offset + len(chunk.data)
        if end <= self._cap:
            return self._logs.append(tenant, job, attempt, rank, chunk.offset, chunk.data, stderr=chunk.stderr)
        kept = self._size(chunk)
        if chunk.offset < self._cap:
            fits = chunk.data[: self._cap - chunk.offset]
            kept = self._logs.append(tenant, job, attempt, rank, chunk.offset, fits, stderr=chunk.stderr)
        if kept < min(chunk.offset, self._cap):
            return kept
        if kept == self._cap:
            self._note(chunk, f"output beyond {self._cap:,} bytes is not kept")
        return end

    def _note(self, chunk: LogChunk, text: str) -> None:
        """Adds a line of Ares' own to the end of a log, once."""
        tenant, job, attempt, rank = chunk.ref.tenant, chunk.ref.job, chunk.attempt, chunk.rank
        size, line = self._size(chunk), f"\n[ares: {text}]\n".encode()
        try:
            last = self._logs.read(tenant, job, attempt, rank, max(0, size - _LINE_BYTES_MAX), _LINE_BYTES_MAX)
            if b"is not kept" not in last:
                self._logs.append(tenant, job, attempt, rank, size, line, note=True)
        except OSError as error:
            log.error("log.gap_untold", job=job, error=str(error))

    def _size(self, chunk: LogChunk) -> int:
        try:
            return self._logs.size(chunk.ref.tenant, chunk.ref.job, chunk.attempt, chunk.rank)
        except OSError:
            return 0

    # ---- at the attempt's end

    def closed(self, session: AgentSession, reports: Sequence[Report]) -> list[Report]:
        """The reports that may be committed. A final report whose output will be sent again is left out, as it will be
        sent again too. A report whose output is given up says how much is lost."""
        if not session.unkept_logs and not any(_lost(report) for report in reports):
            return list(reports)
        ready = list[Report]()
        for report in reports:
            key = (report.ref, report.rank)
            short = report.final and (key in session.unkept_logs or _lost(report))
            if short and self._rights.may_report(session, *key):
                if session.resends_logs and not _lost(report):
                    session.ending.discard(key)
                    continue
                ready.append(self._with_loss(session, report))
            else:
                ready.append(report)
        return ready

    def _with_loss(self, session: AgentSession, report: Report) -> Report:
        said, attempt = report.message, self._view.entries[report.ref.job].state.attempt
        sent, why = session.unkept_logs.get((report.ref, report.rank), (0, "its disk was full"))
        if not (note := self._tell(report, attempt, sent, why)):
            return report
        if isinstance(said, Fenced):
            return replace(report, message=replace(said, reason=f"{said.reason}; {note}"))
        assert isinstance(said, Exited), "only an end is final"
        message = "; ".join(text for text in (said.exit.message, note) if text)
        return replace(report, message=replace(said, exit=replace(said.exit, message=message)))

    def _tell(self, report: Report, attempt: int, sent: int, why: str) -> str:
        """Notes in the log what is missing there. The line may use the disk reserve."""
        tenant, job, rank, lost = report.ref.tenant, report.ref.job, report.rank, _lost(report) or sent
        try:
            kept = self._logs.size(tenant, job, attempt, rank)
            if (lost := _lost(report) or sent - kept) <= 0:
                return ""
            # A report may come again when the outcome of its commit was unknown.
            last = self._logs.read(tenant, job, attempt, rank, max(0, kept - _LINE_BYTES_MAX), _LINE_BYTES_MAX)
            if _MISSING.encode() not in last:
                line = f"\n[ares: {lost:,} {_MISSING}: the control plane could not keep them: {why}]\n"
                self._logs.append(tenant, job, attempt, rank, kept, line.encode(), note=True)
        except OSError as error:
            log.error("log.gap_untold", job=job, lost=lost, error=str(error))
        log.error("log.lost", job=job, attempt=attempt, rank=rank, lost=lost, why=why)
        self._telemetry.count("ares_log_lost_bytes_total", lost)
        return f"{lost:,} bytes of its output are not in its log: the control plane could not keep them: {why}"


def _lost(report: Report) -> int:
    return report.message.log_lost if isinstance(report.message, Exited | Fenced) else 0


def _ack(chunk: LogChunk, offset: int, trouble: str = "") -> LogAck:
    return LogAck(ref=chunk.ref, rank=chunk.rank, offset=offset, trouble=trouble)


# ---- streams beside sessions, for output of loud attempts


class LogStreams:
    """One for a replica. `agents` are those that are connected to it.

    Bulk must not share a flow-control window with renewals. Such a stream belongs to an open session, ends with it, and
    writes by the same rights into the same logs. A frame is answered before the next is read: whatever an agent sends,
    no more than that waits here."""

    def __init__(self, agents: Mapping[str, AgentSession], logs: LogKeeper, rights: Rights) -> None:
        self._agents = agents
        self._logs = logs
        self._rights = rights

    async def serve(self, who: Principal, messages: AsyncIterator[LogMessage]) -> AsyncGenerator[LogAcks, None]:
        """One stream, from its hello until either side ends it."""
        try:
            session = await self._greeted(who, messages)
            session.log_stream_over.set()
            session.log_stream_over = over = asyncio.Event()
            ended = asyncio.create_task(over.wait())
            try:
                while (frame := await _next(messages, ended)) is not None:
                    yield LogAcks(acks=tuple(self._logs.take(session, chunk) for chunk in frame.chunks))
            finally:
                ended.cancel()
        except SessionRefused as refusal:
            raise await self._rights.refused(who.node or "", refusal) from None

    async def _greeted(self, who: Principal, messages: AsyncIterator[LogMessage]) -> AgentSession:
        hello = await anext(messages, None)
        if not isinstance(hello, LogHello) or hello.node != who.node:
            raise SessionRefused("the first message must be the hello of this very node", "not_granted")
        session = self._agents.get(hello.node)
        if session is None or session.number != hello.number or session.closed_why:
            # Not an offence: the session may have ended meanwhile, or be with another replica.
            raise SessionRefused("the session that this stream is for is not open here")
        return session


async def _next(messages: AsyncIterator[LogMessage], ended: "asyncio.Task[bool]") -> LogFrame | None:
    """None when the stream is over."""
    coming = asyncio.ensure_future(anext(messages, None))
    try:
        await asyncio.wait((coming, ended), return_when=asyncio.FIRST_COMPLETED)
        if ended.done() or (message := coming.result()) is None:
            return None
    finally:
        coming.cancel()
    if not isinstance(message, LogFrame):
        raise SessionRefused("a second hello on a stream for output", "malformed")
    return message
