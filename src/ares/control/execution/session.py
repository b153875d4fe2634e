"""One agent's open stream: what is waiting to be sent, renewed and committed."""

import asyncio
from collections import deque
from collections.abc import Sequence

from ares.control.execution.enrolment import Enrolled
from ares.control.execution.reports import Report
from ares.model.link import Ack, AttemptRef, LogAck, OutputChunk, Renew, ServerMessage

# A stream carries 16 MiB at once, and a frame that is refused would be refused again after every reconnect.
_FRAME_BYTES_MAX = 4 * 1024 * 1024
_MESSAGE_BYTES = 256

_SILENT_SHARE = 0.9
# What waits of one agent, far beyond what an honest one has under way.
_REPORTS_MAX, _REPORT_BYTES_MAX, _RENEWALS_MAX, _ANSWERS_MAX = 20_000, 32 * 1024 * 1024, 1000, 50_000

# One rank of an attempt.
Key = tuple[AttemptRef, int]


class AgentSession:
    """Mutable and owned by `Sessions`."""

    def __init__(self, enrolled: Enrolled, *, resends_logs: bool = False) -> None:
        self.enrolled = enrolled
        self.node = enrolled.node
        self.incarnation = enrolled.incarnation
        self.lease_revision = enrolled.lease_revision
        # The agent says how long it takes its lease to last, and can be told that it lasts longer.
        self.states_terms = False
        # It was told so: this replica is about to stop.
        self.extended = False
        # What the agent may hold: offered in this session, or alive when it began.
        self.held: set[Key] = set()
        # What was told to end, or has reported its end: it needs no further command.
        self.ending: set[Key] = set()
        # The agent's end of an attempt may wait for its output.
        self.resends_logs = resends_logs
        # Of ranks whose output could not be kept when it came: up to where it was sent, and why.
        self.unkept_logs: dict[Key, tuple[int, str]] = {}
        # Of ranks whose tenant holds too much: nothing more of their output is kept.
        self.dropped_logs: set[Key] = set()
        # Pieces of outputs that came and are not kept yet, and how many bytes they are.
        self.chunks: deque[OutputChunk] = deque()
        self.chunk_bytes = 0
        self.chunk_ready = asyncio.Event()
        self.reports: list[Report] = []
        self.report_bytes = 0
        self.report_ready = asyncio.Event()
        # When the latest renewal that became durable was begun, by the monotonic clock.
        self.renewed_at = float("-inf")
        self.renewals: list[Renew] = []
        self.renew_ready = asyncio.Event()
        # The agent said that it is about to go.
        self.left = asyncio.Event()
        self.closed_why = ""
        # Why it is refused that said what cannot be taken: told when the stream ends. In words, for an exception knows
        # where it was raised, and with that this session and the frame: nobody would ever find that circle.
        self.refusal = ""
        self._out: deque[tuple[ServerMessage, int]] = deque()
        self._wake = asyncio.Event()
        # Something waits that is more than an acknowledgement.
        self.urgent = asyncio.Event()

    @property
    def leaving(self) -> bool:
        return self.left.is_set()

    @property
    def silent_s(self) -> float:
        """After less silence than this nobody takes anything away for it, however fast the leader's clock runs."""
        return _SILENT_SHARE * self.enrolled.dead_after_s

    @property
    def closed(self) -> bool:
        return bool(self.closed_why) and not self._out

    def send(self, message: ServerMessage, extra_bytes: int = 0) -> None:
        """`extra_bytes` is what it takes beyond a message of ordinary size."""
        self._out.append((message, _MESSAGE_BYTES + extra_bytes))
        self._wake.set()
        if not isinstance(message, Ack | LogAck):
            self.urgent.set()

    def close(self, why: str) -> None:
        self.closed_why = self.closed_why or why
        self._wake.set()
        self.urgent.set()

    async def waiting(self) -> None:
        """Returns when there is something to send, or the session is over."""
        await self._wake.wait()

    @property
    def crowded(self) -> bool:
        """More waits than an agent has to say, or it reads no answers: nothing more is read of it for a while."""
        if self.closed_why:
            return False
        said = len(self.reports) > _REPORTS_MAX or (self.reports and self.report_bytes > _REPORT_BYTES_MAX)
        return bool(said) or len(self.renewals) > _RENEWALS_MAX or len(self._out) > _ANSWERS_MAX

    def take(self, report: Report) -> None:
        """Queues a report to be committed."""
        self.report_bytes = len(getattr(report.message, "value", b"")) + (self.report_bytes if self.reports else 0)
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
        """What is queued, as much as fits into a frame."""
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
