"""Reading job output by attempt and rank, live or afterwards.

Each rank of a gang has its own output with its own offsets, so that reading can be taken up anywhere;
`ranks` lists them. A client that wants several side by side reads each one and marks its lines.
"""

import asyncio
from bisect import bisect_right

from ares.api.jobs import LogLine, LogMatches, LogStream
from ares.control.state.pacing import breathe
from ares.control.state.view import View
from ares.core.lifecycle.ranks import holds
from ares.model.access import Principal
from ares.model.base import Record
from ares.model.state import TERMINAL, JobState
from ares.ports.clock import Clock
from ares.ports.logs import Logs

_POLL_S = 0.1
_TAIL_BLOCK = 64 * 1024
# One stride of a search, what one call of it reads, and how much of a line it answers with.
_SEARCH_BLOCK = 256 * 1024
_SEARCHED_MAX = 8 << 20
_LINE_MAX = 4096


# Begin and end in a log.
LogSpan = tuple[int, int]


class LogSlice(Record, frozen=True):
    """Bytes from `offset`. `complete` means the attempt has ended and nothing follows this slice. `stderr`: where in
    the log the bytes are that were written to stderr."""

    attempt: int
    rank: int
    offset: int
    data: bytes
    size: int
    complete: bool
    stderr: tuple[LogSpan, ...] = ()

    def of(self, stream: LogStream) -> bytes:
        """What was written to that stream."""
        spans = spans_of(stream, self.stderr, self.offset, self.offset + len(self.data))
        return b"".join(self.data[low - self.offset : high - self.offset] for low, high in spans)


def spans_of(stream: LogStream | None, stderr: tuple[LogSpan, ...], begin: int, end: int) -> list[LogSpan]:
    """The parts between `begin` and `end` that were written to the stream, None: to either."""
    if stream == "stderr":
        return list(stderr)
    if stream is None or not stderr:
        return [(begin, end)]
    edges = [begin, *(edge for span in stderr for edge in span), end]
    return [(low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high]


class LogSearch(Record, frozen=True):
    """What to look for in a log. `attempt` 0: the latest."""

    text: str
    attempt: int = 0
    rank: int = 0
    offset: int = 0
    limit: int = 100
    stream: LogStream | None = None


class LogReader:
    """Output may be written by another replica, so waiting looks at sizes, a few times a second."""

    def __init__(self, view: View, logs: Logs, clock: Clock) -> None:
        self._view = view
        self._logs = logs
        self._clock = clock

    async def read(
        self, who: Principal, job_id: str, *, attempt: int | None, rank: int, offset: int, limit: int
    ) -> LogSlice | None:
        """None when there is no such job. An attempt that does not exist yet is an empty, open slice."""
        await self._view.catch_up()
        state = self._mine(who, job_id)
        if state is None:
            return None
        chosen = state.attempt if attempt is None else attempt
        ended = _ended(state, chosen, rank)
        data = self._logs.read(who.tenant, job_id, chosen, rank, offset, limit)
        size = self._logs.size(who.tenant, job_id, chosen, rank)
        complete = ended and offset + len(data) >= size
        stderr = self._logs.stderr(who.tenant, job_id, chosen, rank, offset, offset + len(data)) if data else ()
        return LogSlice(
            attempt=chosen, rank=rank, offset=offset, data=data, size=size, complete=complete, stderr=stderr
        )  # fmt: skip

    async def ranks(self, who: Principal, job_id: str, attempt: int | None) -> tuple[int, ...] | None:
        """The ranks of an attempt, the latest by default: those that have written, and those that may yet."""
        await self._view.catch_up()
        state = self._mine(who, job_id)
        if state is None:
            return None
        chosen = state.attempt if attempt is None else attempt
        current = (place.rank for place in state.placements) if chosen == state.attempt else ()
        return tuple(sorted({*current, *self._logs.ranks(who.tenant, job_id, chosen)}))

    async def wait(self, who: Principal, job_id: str, attempt: int, rank: int, offset: int, timeout_s: float) -> None:
        """Returns when more than `offset` bytes exist, the attempt ended, or the time is over."""
        deadline = self._clock.monotonic() + timeout_s
        while self._clock.monotonic() < deadline:
            state = self._mine(who, job_id)
            if state is None or _ended(state, attempt, rank):
                return
            if self._logs.size(who.tenant, job_id, attempt, rank) > offset:
                return
            await asyncio.sleep(0)
            await self._clock.sleep(_POLL_S)

    async def tail_offset(
        self, who: Principal, job_id: str, attempt: int, rank: int, lines: int, stream: LogStream | None = None
    ) -> int:
        """Where the last `lines` lines begin, of all or of one stream."""
        offset, found = self._logs.size(who.tenant, job_id, attempt, rank), -1
        first = True
        while offset > 0:
            start = max(0, offset - _TAIL_BLOCK)
            block = self._logs.read(who.tenant, job_id, attempt, rank, start, offset - start)
            stderr = () if stream is None else self._logs.stderr(who.tenant, job_id, attempt, rank, start, offset)
            for low, high in reversed(spans_of(stream, stderr, start, offset)):
                position = high - start
                if first:
                    # The newline that ends the last line does not begin another.
                    found, first = -1 if block[position - 1 : position] == b"\n" else 0, False
                while (position := block.rfind(b"\n", low - start, position)) >= 0:
                    found += 1
                    if found >= lines:
                        return start + position + 1
            offset = start
            await breathe()
        return 0

    async def since_offset(self, who: Principal, job_id: str, attempt: int, rank: int, at: float) -> int:
        """Where output of that time begins, to the minute."""
        return self._logs.offset_since(who.tenant, job_id, attempt, rank, at)

    async def search(self, who: Principal, job_id: str, asked: LogSearch) -> LogMatches | None:
        """Lines that contain the text, from `offset` on. One call reads a bounded part; `next` goes on behind it."""
        await self._view.catch_up()
        state = self._mine(who, job_id)
        if state is None:
            return None
        attempt = asked.attempt or state.attempt
        offset, lines, read = asked.offset, list[LogLine](), 0
        ended = _ended(state, attempt, asked.rank)
        while read < _SEARCHED_MAX and len(lines) < asked.limit:
            data = self._logs.read(who.tenant, job_id, attempt, asked.rank, offset, _SEARCH_BLOCK)
            whole = data.rfind(b"\n") + 1
            # The last line of what has ended, or one that is longer than a block.
            if not whole and data and (ended or len(data) == _SEARCH_BLOCK):
                whole = len(data)
            if not whole:
                break
            apart = self._logs.stderr(who.tenant, job_id, attempt, asked.rank, offset, offset + whole)
            offset += _find(data[:whole], offset, asked, apart, lines)
            read += whole
            await breathe()
        size = self._logs.size(who.tenant, job_id, attempt, asked.rank)
        return LogMatches(
            attempt=attempt, rank=asked.rank, lines=tuple(lines), next=offset, size=size,
            complete=ended and offset >= size,
        )  # fmt: skip

    def _mine(self, who: Principal, job_id: str) -> JobState | None:
        entry = self._view.entries.get(job_id)
        return None if entry is None or entry.state.tenant != who.tenant else entry.state


def _find(data: bytes, offset: int, asked: LogSearch, stderr: tuple[LogSpan, ...], lines: list[LogLine]) -> int:
    """Adds the lines of `data` that contain the text; returns how far it came, less than all when there are enough. A
    line belongs to the stream of its text."""
    at, wanted = 0, asked.text.encode()
    while (found := data.find(wanted, at)) >= 0:
        begin, end = data.rfind(b"\n", 0, found) + 1, data.find(b"\n", found)
        end = len(data) if end < 0 else end
        span = bisect_right(stderr, offset + found, key=lambda span: span[0]) - 1
        stream: LogStream = "stderr" if span >= 0 and stderr[span][1] > offset + found else "stdout"
        if asked.stream in (None, stream):
            text = data[begin:end][:_LINE_MAX].decode("utf-8", "replace")
            lines.append(LogLine(offset=offset + begin, text=text, stream=stream))
        at = end + 1
        if len(lines) >= asked.limit or at > len(data):
            return min(at, len(data))
    return len(data)


def _ended(state: JobState, attempt: int, rank: int) -> bool:
    if attempt < state.attempt or (attempt == state.attempt and rank in state.ended_ranks):
        return True
    if state.phase in TERMINAL:
        return not state.lingering
    return attempt == state.attempt and state.attempt > 0 and not holds(state)
