"""One agent's open stream: messages to send, renewals to write, and reports to commit."""

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence

import structlog

from ares.control.execution.enrolment import Enrolled
from ares.control.execution.reports import Report
from ares.model.checkpoint import Checkpointed
from ares.model.link import Ack, AttemptRef, Exited, Hello, LogAck, OutputChunk, Renew, ServerMessage

log = structlog.get_logger()

# A stream refuses a frame over 16 MiB, and would refuse it again after every reconnect.
_FRAME_BYTES_MAX = 4 * 1024 * 1024
_MESSAGE_BYTES = 256
# What one file takes in a report.
_FILE_BYTES = 512

_SILENT_SHARE = 0.9
# The most that may wait of one agent: far more than an honest one has under way.
_REPORTS_MAX, _REPORT_BYTES_MAX, _RENEWALS_MAX, _ANSWERS_MAX = 20_000, 32 * 1024 * 1024, 1000, 50_000

# One rank of an attempt.
Key = tuple[AttemptRef, int]


class AgentSession:
    """The state of one stream, mutable, owned by `Sessions`."""

    def __init__(self, enrolled: Enrolled, hello: Hello) -> None:
        # The node's lease as this session last wrote it.
        self.enrolled = enrolled
        self.node = enrolled.node
        # Invariant: it never changes. A new incarnation of the node is a new session.
        self.incarnation = enrolled.incarnation
        # Store revision of the lease record. A renewal that finds another one has lost the node to a new session.
        self.lease_revision = enrolled.lease_revision
        # No other session of the node has it: a registration writes the lease.
        self.number = enrolled.lease_revision
        # Set when the session is over, or when the agent opens another stream for output: ends the present one.
        self.log_stream_over = asyncio.Event()
        # The agent states the length of its lease in its renewals, so it can be told of a longer one.
        self.states_terms = False
        # The lease was extended because this replica is about to stop. Invariant: only with `states_terms`.
        self.extended = False
        # Ranks that the agent may hold: offered in this session, or alive when it began.
        self.held: set[Key] = set()
        # Ranks that were told to end, or reported their end: they need no further command.
        self.ending: set[Key] = set()
        # The agent sends output again that could not be stored, and delays the end of the attempt for it.
        self.resends_logs = hello.resends_logs
        # The agent opens a stream for sessions in jobs when it is asked to.
        self.enterable = hello.enterable
        # The agent keeps to rates that it is told.
        self.paced = hello.paced
        # Ranks with output that could not be stored: how far it was sent, and why.
        self.unkept_logs: dict[Key, tuple[int, str]] = {}
        # Ranks whose tenant is over its disk quota: no more of their output is stored.
        self.dropped_logs: set[Key] = set()
        # Pieces of output files that wait to be stored. `chunk_bytes` also counts the piece being stored.
        self.chunks: deque[OutputChunk] = deque()
        self.chunk_bytes = 0
        self.chunk_ready = asyncio.Event()
        # Reports that wait to be committed, and the bytes of their results. An empty list resets the bytes.
        self.reports: list[Report] = []
        self.report_bytes = 0
        self.report_ready = asyncio.Event()
        # When the latest durable renewal was begun, by the monotonic clock.
        self.renewed_at = float("-inf")
        # Renewals that wait to be written. One write answers all of them.
        self.renewals: list[Renew] = []
        self.renew_ready = asyncio.Event()
        # Set when the agent said that it is about to stop.
        self.left = asyncio.Event()
        # Why the session is over; empty while it is open. Invariant: the first reason stays.
        self.closed_why = ""
        # Why a message of the agent was refused, told when the stream ends. It is a text: an exception would hold its
        # traceback, and with that this session and the frame, a reference cycle that is freed late.
        self.refusal = ""
        # Datasets that the agent says its node has, until that is written; and when it was written last.
        self.cached: tuple[str, ...] | None = None
        self.cached_at = float("-inf")
        # Messages to send with their sizes. Invariant: `_wake` is set while there are any.
        self._out: deque[tuple[ServerMessage, int]] = deque()
        self._wake = asyncio.Event()
        # Set when a message other than an acknowledgement waits.
        self.urgent = asyncio.Event()

    @property
    def leaving(self) -> bool:
        return self.left.is_set()

    @property
    def silent_s(self) -> float:
        """With less silence than this no leader takes attempts from the node, however fast the leader's clock runs."""
        return _SILENT_SHARE * self.enrolled.dead_after_s

    @property
    def closed(self) -> bool:
        return bool(self.closed_why) and not self._out

    def send(self, message: ServerMessage, extra_bytes: int = 0) -> None:
        """Queues a message. `extra_bytes` is its size beyond that of an ordinary message."""
        self._out.append((message, _MESSAGE_BYTES + extra_bytes))
        self._wake.set()
        if not isinstance(message, Ack | LogAck):
            self.urgent.set()

    def close(self, why: str) -> None:
        self.closed_why = self.closed_why or why
        self.log_stream_over.set()
        self._wake.set()
        self.urgent.set()

    async def waiting(self) -> None:
        """Returns when there is a message to send, or the session is over."""
        await self._wake.wait()

    @property
    def crowded(self) -> bool:
        """Too much waits, or the agent reads no answers: for a while no further frame of it is read."""
        if self.closed_why:
            return False
        said = len(self.reports) > _REPORTS_MAX or (self.reports and self.report_bytes > _REPORT_BYTES_MAX)
        return bool(said) or len(self.renewals) > _RENEWALS_MAX or len(self._out) > _ANSWERS_MAX

    def take(self, report: Report) -> None:
        """Queues a report to be committed."""
        if not self.reports:
            self.report_bytes = 0
        said = report.message
        if isinstance(said, Exited):
            self.report_bytes += len(said.value) + _FILE_BYTES * len(said.outputs)
        elif isinstance(said, Checkpointed):
            self.report_bytes += _FILE_BYTES * len(said.files)
        self.reports.append(report)
        if report.final:
            self.ending.add((report.ref, report.rank))
        self.report_ready.set()

    def acknowledge(self, settled: Sequence[Report]) -> None:
        over = [(report.ref, report.rank) for report in settled if report.final]
        self.held.difference_update(over)
        self.ending.difference_update(over)
        self.dropped_logs.difference_update(over)
        for key in over:
            self.unkept_logs.pop(key, None)
        numbers = tuple(report.number for report in settled if report.number is not None)
        if numbers:
            self.send(Ack(numbers=numbers))

    def outgoing(self) -> list[ServerMessage]:
        """Takes queued messages, as many as fit into a frame."""
        messages: list[ServerMessage] = []
        size = 0
        while self._out and (not messages or size + self._out[0][1] <= _FRAME_BYTES_MAX):
            message, own = self._out.popleft()
            messages.append(message)
            size += own
        if not self._out:
            self._wake.clear()
            self.urgent.clear()
        return messages


async def carry(session: AgentSession, loop: Coroutine[None, None, None]) -> None:
    """Runs one of a session's loops; the session ends when the loop breaks, so that the agent comes again."""
    try:
        await loop
    except Exception as error:
        log.error("session.failed", node=session.node, error=repr(error), exc_info=error)
        session.close(f"failed: {error}")
