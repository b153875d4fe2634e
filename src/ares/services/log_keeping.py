"""Takes in the output of attempts, as agents send it: of those that run there, and no others."""

import structlog

from ares.model.link import AttemptRef, LogAck, LogChunk
from ares.ports.logs import Logs
from ares.ports.telemetry import Telemetry
from ares.services.rights import Rights
from ares.services.session import Session

log = structlog.get_logger()


class LogKeeper:
    """One for all sessions of a replica."""

    def __init__(self, *, rights: Rights, logs: Logs, telemetry: Telemetry) -> None:
        self._rights = rights
        self._logs = logs
        self._telemetry = telemetry

    def take(self, session: Session, chunk: LogChunk) -> None:
        kept = chunk.offset + len(chunk.data)
        if self._rights.may_report(session, chunk.ref, chunk.rank):
            kept = keep(self._logs, chunk, session.lost_logs)
            self._telemetry.count("ares_log_bytes_total", len(chunk.data))
        else:
            self._rights.note(session, "writeLog", chunk.ref, chunk.rank)
        session.send(LogAck(ref=chunk.ref, rank=chunk.rank, offset=kept))


def keep(logs: Logs, chunk: LogChunk, lost: set[tuple[AttemptRef, int]]) -> int:
    """Up to where an agent need not send it again. A log has no gaps: of one that is lost nothing more is kept."""
    kept, key = chunk.offset + len(chunk.data), (chunk.ref, chunk.rank)
    if key in lost:
        return kept
    try:
        return logs.append(chunk.ref.tenant, chunk.ref.job, chunk.attempt, chunk.rank, chunk.offset, chunk.data)
    except OSError as error:
        # Output may be lost to a full disk; the job's result must not wait for it.
        lost.add(key)
        log.error("log.lost", job=chunk.ref.job, offset=chunk.offset, error=str(error))
        return kept
