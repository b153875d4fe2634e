"""Reading job output by attempt and rank, live or afterwards.

Each rank of a gang has its own output with its own offsets, so that reading can be taken up anywhere;
`ranks` lists them. A client that wants several side by side reads each one and marks its lines.
"""

import asyncio

from ares.api.jobs import LogLine, LogMatches
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


class LogSlice(Record, frozen=True):
    """Bytes from `offset`. `complete` means the attempt has ended and nothing follows this slice."""

    attempt: int
    rank: int
    offset: int
    data: bytes
    size: int
    complete: bool


class LogSearch(Record, frozen=True):
    """What to look for in a log. `attempt` 0: the latest."""

    text: str
    attempt: int = 0
    rank: int = 0
    offset: int = 0
    limit: int = 100


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
        return LogSlice(attempt=chosen, rank=rank, offset=offset, data=data, size=size, complete=complete)

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

    async def tail_offset(self, who: Principal, job_id: str, attempt: int, rank: int, lines: int) -> int:
        """Where the last `lines` lines begin."""
        end = self._logs.size(who.tenant, job_id, attempt, rank)
        offset, found = end, -1
        while offset > 0:
            start = max(0, offset - _TAIL_BLOCK)
            block = self._logs.read(who.tenant, job_id, attempt, rank, start, offset - start)
            if found == -1:
                # The newline that ends the last line does not begin another.
                found = 0 if not block.endswith(b"\n") else -1
            position = len(block)
            while (position := block.rfind(b"\n", 0, position)) >= 0:
                found += 1
                if found >= lines:
                    return start + position + 1
            offset = start
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
        wanted = asked.text.encode()
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
            offset += _find(data[:whole], offset, wanted, lines, asked.limit)
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


def _find(data: bytes, offset: int, wanted: bytes, lines: list[LogLine], limit: int) -> int:
    """Adds the lines of `data` that contain the text; returns how far it came, less than all when there are enough."""
    at = 0
    while (found := data.find(wanted, at)) >= 0:
        begin, end = data.rfind(b"\n", 0, found) + 1, data.find(b"\n", found)
        end = len(data) if end < 0 else end
        lines.append(LogLine(offset=offset + begin, text=data[begin:end][:_LINE_MAX].decode("utf-8", "replace")))
        at = end + 1
        if len(lines) >= limit or at > len(data):
            return min(at, len(data))
    return len(data)


def _ended(state: JobState, attempt: int, rank: int) -> bool:
    if attempt < state.attempt or (attempt == state.attempt and rank in state.ended_ranks):
        return True
    if state.phase in TERMINAL:
        return not state.lingering
    return attempt == state.attempt and state.attempt > 0 and not holds(state)
