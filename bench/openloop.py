"""Requests sent when they are due, whether or not earlier ones were answered.

A client that waits for an answer before it sends the next request slows down with the server and hides how late the
server is. Here the time of each request is fixed beforehand, and its latency counts from that time.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from bench.processes import NotMeasured

LINES = 64
# What is still missing this long after the last one was due is lost.
PATIENCE_S = 30.0


@dataclass
class Seen:
    """Latencies in seconds, and answers by status."""

    took_s: list[float] = field(default_factory=list[float])
    statuses: Counter[int] = field(default_factory=Counter[int])
    refused: bytes = b""


class _Line(asyncio.Protocol):
    """One request at a time; understands only answers with a length."""

    def __init__(self, idle: Callable[["_Line"], None], lost: Callable[["_Line"], None]) -> None:
        self._idle = idle
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._due = 0.0
        self._seen: Seen | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(self)

    def ask(self, data: bytes, due: float, seen: Seen) -> None:
        assert self._transport is not None
        self._due, self._seen = due, seen
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end]
        at = head.find(b"content-length: ")
        length = int(head[at + 16 : at + 26].partition(b"\r")[0]) if at >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return
        assert self._seen is not None
        status = int(head[9:12])
        self._seen.took_s.append(time.perf_counter() - self._due)
        self._seen.statuses[status] += 1
        if status >= 300:
            self._seen.refused = self._buffer[end + 4 :][:300]
        self._buffer = b""
        self._idle(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Schedule:
    """Kept-alive connections to one server, and requests that are due on them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lines: list[_Line] = []
        self._free: deque[_Line] = deque()
        # Due, but without a line: their latency counts all the same.
        self._late: deque[tuple[bytes, float, Seen]] = deque()

    async def open(self) -> None:
        """As many lines as there should be. The server ends those that are idle for long."""
        loop = asyncio.get_running_loop()
        while len(self._lines) < LINES:
            _, line = await loop.create_connection(lambda: _Line(self._idle, self._lost), "127.0.0.1", self._port)
            self._lines.append(line)
            self._idle(line)

    def close(self) -> None:
        for line in tuple(self._lines):
            line.close()

    async def run(self, request: Callable[[int], bytes], first: int, count: int, per_s: float) -> Seen:
        """Sends requests `first` and following, `per_s` of them each second, and returns when all are answered."""
        await self.open()
        seen, began = Seen(), time.perf_counter()
        for number in range(count):
            due = began + number / per_s
            ahead = due - time.perf_counter()
            if ahead > 0:
                await asyncio.sleep(ahead)
            self._send(request(first + number), due, seen)
        until = time.perf_counter() + PATIENCE_S
        while len(seen.took_s) < count:
            if time.perf_counter() > until:
                raise NotMeasured(f"{count - len(seen.took_s)} of {count} requests got no answer")
            await asyncio.sleep(0.01)
        return seen

    def _send(self, data: bytes, due: float, seen: Seen) -> None:
        if self._free:
            # The one that has been idle longest, so that none is for long.
            self._free.popleft().ask(data, due, seen)
        else:
            self._late.append((data, due, seen))

    def _idle(self, line: _Line) -> None:
        if self._late:
            line.ask(*self._late.popleft())
        else:
            self._free.append(line)

    def _lost(self, line: _Line) -> None:
        self._lines.remove(line)
        if line in self._free:
            self._free.remove(line)
