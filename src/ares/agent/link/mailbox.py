"""Messages to the control plane, put into frames: renewals, logs, output files, progress, then reports."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from ares.agent.files.spool import Tail
from ares.agent.files.upload import Piece, Upload
from ares.agent.link.loud_logs import INLINE_FRAME_BYTES, LoudLogs, pieces
from ares.agent.link.outbox import Key, Outbox, Report, key_of
from ares.model.link import (
    AgentFrame,
    AgentMessage,
    Cached,
    Exited,
    Fenced,
    Leave,
    LogChunk,
    Moving,
    OutputChunk,
    Progress,
    Renew,
    Started,
)
from ares.model.quota import NodeMoves
from ares.model.telemetry.program_span import ProgramSpans

FRAME_LOG_BYTES = 1024 * 1024
# Bytes of output files under way at once, for all attempts together.
OUTPUT_WINDOW_BYTES = 2 * 1024 * 1024
FRAME_OUTPUTS = 200
FRAME_REPORTS = 1000
# Messages with spans of programs: of one frame, and of all that wait while there is no session.
FRAME_SPANS = 20
SPANS_WAITING_MAX = 1000
# A stream refuses a frame over 16 MiB, and would refuse it again after every reconnect.
FRAME_RESULT_BYTES = 4 * 1024 * 1024


class Reporter(Protocol):
    """What a mailbox needs of one rank of an attempt."""

    @property
    def key(self) -> Key: ...

    @property
    def number(self) -> int:
        """Which of its job's attempts it is."""
        ...

    @property
    def tail(self) -> Tail: ...

    @property
    def upload(self) -> Upload | None: ...


class Mailbox:
    def __init__(self) -> None:
        self.outbox = Outbox()
        self._attempts: dict[Key, Reporter] = {}
        self._renewals: list[Renew] = []
        self._progress: dict[Key, Progress] = {}
        # Attempts with log to send, in the order of their turns; and those whose log is not sent from here.
        self._talking: dict[Key, Reporter] = {}
        self.loud = LoudLogs(self._rouse)
        # Attempts with output files to send.
        self._uploading: dict[Key, Reporter] = {}
        # What moves now, and whether the control plane wants to know.
        self._moves: NodeMoves | None = None
        self.tells_moves = False
        # Datasets that are here, once that is known; whether it is still to be told, and the control plane wants it.
        self._cached: tuple[str, ...] | None = None
        self._cached_due = self.tells_cached = False
        # Of programs, and whether the control plane keeps them.
        self._spans: list[ProgramSpans] = []
        self.tells_spans = False
        self._wake = asyncio.Event()
        # Set when a message other than Started waits.
        self.urgent = asyncio.Event()
        # Counts every message put in. The sender compares it to see whether more keep coming.
        self.news = 0
        self._leaving = False
        self._said_leaving = False

    def _rouse(self, *, urgent: bool = True) -> None:
        self.news += 1
        self._wake.set()
        if urgent:
            self.urgent.set()

    def leave(self) -> None:
        """Asks the control plane, in this session and later ones, to send no new attempts."""
        self._leaving = True
        self._rouse()

    def watch(self, attempt: Reporter) -> None:
        self._attempts[attempt.key] = attempt

    def forget(self, attempt: Reporter) -> None:
        self._attempts.pop(attempt.key, None)
        self._talking.pop(attempt.key, None)
        self.loud.forget(attempt.key)
        self._uploading.pop(attempt.key, None)
        self._progress.pop(attempt.key, None)

    def renew(self, renew: Renew) -> None:
        self._renewals.append(renew)
        self._rouse()

    def progress(self, progress: Progress) -> None:
        self._progress[(progress.ref, progress.rank)] = progress
        self._rouse()

    def moving(self, moves: NodeMoves) -> None:
        self._moves = moves
        if self.tells_moves:
            self._rouse()

    def cached(self, versions: tuple[str, ...]) -> None:
        if versions != self._cached:
            self._cached, self._cached_due = versions, True
            if self.tells_cached:
                self._rouse()

    def spans(self, spans: ProgramSpans) -> None:
        if self.tells_spans and len(self._spans) < SPANS_WAITING_MAX:
            self._spans.append(spans)
            self._rouse()

    def output(self, attempt: Reporter) -> None:
        if not self.loud.output(attempt):
            self._talking[attempt.key] = attempt
            self._rouse()

    def upload(self, attempt: Reporter) -> None:
        self._uploading[attempt.key] = attempt
        self._rouse()

    def report(self, report: Report) -> None:
        self.outbox.add(report)
        self._rouse(urgent=not isinstance(report, Started))

    def again(self, number: int) -> None:
        self.outbox.resend(number)
        self._rouse()

    def rewind(self) -> None:
        """A new session begins: messages that were not acknowledged are sent again."""
        self._renewals.clear()
        self._said_leaving = False
        self._cached_due = self._cached is not None
        self.outbox.rewind()
        self.loud.clear()
        for attempt in self._attempts.values():
            attempt.tail.rewind()
            if attempt.tail.poll():
                self._talking[attempt.key] = attempt
            if attempt.upload is not None:
                attempt.upload.rewind()
                self._uploading[attempt.key] = attempt
        self._rouse()

    def hush(self) -> None:
        """The stream for loud attempts is over: what they have goes by the session again."""
        for attempt in self.loud.clear():
            attempt.tail.rewind()
            self._talking[attempt.key] = self._attempts[attempt.key]
        self._rouse()

    async def wait(self) -> None:
        await self._wake.wait()

    def frame(self) -> AgentFrame | None:
        """The next frame, None when nothing may be sent now."""
        self._wake.clear()
        self.urgent.clear()
        messages: list[AgentMessage] = [*self._renewals]
        self._renewals.clear()
        if self._leaving and not self._said_leaving:
            messages.append(Leave())
            self._said_leaving = True
        messages += self._logs()
        outputs, more = self._outputs()
        messages += outputs
        messages += self._progress.values()
        self._progress.clear()
        if self._moves is not None and self.tells_moves:
            messages.append(Moving(moves=self._moves))
            self._moves = None
        if self._cached_due and self.tells_cached:
            messages.append(Cached(versions=self._cached or ()))
            self._cached_due = False
        told, self._spans = self._spans[:FRAME_SPANS], self._spans[FRAME_SPANS:]
        messages += told
        reports = self.outbox.take(FRAME_REPORTS, FRAME_RESULT_BYTES, self._may_go)
        messages += reports
        if (reports and self.outbox.waiting) or self._talking or more or self._spans:
            self._rouse()
        return AgentFrame(messages=tuple(messages)) if messages else None

    def _may_go(self, report: Report) -> bool:
        """Whether a report may be sent. A final report waits for the attempt's log and output files."""
        if not isinstance(report, Exited | Fenced):
            return True
        attempt = self._attempts.get(key := key_of(report))
        if attempt is None:
            return True
        # Of two streams either may be ahead: what went by the other must be acknowledged before.
        told = attempt.tail.settled if key in self.loud else attempt.tail.drained
        return told and (attempt.upload is None or attempt.upload.settled)

    def _logs(self) -> Iterable[LogChunk]:
        self.loud.take(self._talking)
        return pieces(self._talking, INLINE_FRAME_BYTES if self.loud.offered else FRAME_LOG_BYTES)

    def _outputs(self) -> tuple[list[OutputChunk], bool]:
        """Pieces of files within the window, and whether more could be sent at once."""
        chunks = list[OutputChunk]()
        if not self._uploading:
            return chunks, False
        under_way = (attempt.upload.in_flight for attempt in self._attempts.values() if attempt.upload is not None)
        room = OUTPUT_WINDOW_BYTES - sum(under_way)
        while self._uploading and room > 0 and len(chunks) < FRAME_OUTPUTS:
            key, attempt = next(iter(self._uploading.items()))
            # It moves to the end of the queue, or leaves it while it waits for answers.
            del self._uploading[key]
            piece = None if attempt.upload is None else attempt.upload.piece(room)
            if piece is not None and attempt.upload is not None:
                self._uploading[key] = attempt
                room -= len(piece.data)
                chunks.append(_chunk(key, piece, attempt.upload))
        return chunks, bool(self._uploading) and room > 0


def _chunk(key: Key, piece: Piece, upload: Upload) -> OutputChunk:
    ref, rank = key
    return OutputChunk(
        ref=ref, rank=rank, sha256=piece.sha256, size=piece.size, offset=piece.offset, data=piece.data, seq=upload.seq
    )
