"""Stores the output that agents send, of attempts placed on their node, up to a cap.

Output that could not be written is not acknowledged: the agent keeps it and sends it again. Output that is lost in the
end is noted in the log, where it is missing, and in the exit of the attempt.
"""

import errno
from collections.abc import Sequence

import structlog
from msgspec.structs import replace

from ares.control.execution.reports import Report
from ares.control.execution.rights import Rights
from ares.control.execution.session import AgentSession
from ares.control.state.view import View
from ares.model.link import Exited, Fenced, LogAck, LogChunk
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

    def take(self, session: AgentSession, chunk: LogChunk) -> None:
        """Stores a piece, if the agent may send it, and answers."""
        if not self._rights.may_log(session, chunk):
            self._rights.note(session, "writeLog", chunk.ref, chunk.rank)
            session.send(_ack(chunk, chunk.offset + len(chunk.data)))
            return
        self._telemetry.count("ares_log_bytes_total", len(chunk.data))
        session.send(self._keep(session, chunk))

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
