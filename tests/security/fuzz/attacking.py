"""Sends attacks over kept-alive connections, and notes every answer that should not have been."""

import asyncio
import contextlib
import re
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.security.fuzz.hostile import Attack, Hostile

# Far beyond what any answer needs, also on a machine that is busy with other tests.
ANSWER_S = 30.0
_IDS = re.compile(rb'"(?:id|job)":"([0-9a-z]{16})"')
_NAMES = re.compile(rb'"name":"([A-Za-z0-9._-]{1,40})"')
# Refusals by design while there is too much to do.
_ALLOWED = (b'"code":"overloaded"',)


@dataclass
class Found:
    """What was seen. `broken` are attacks with answers that must not be."""

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter[int])
    broken: list[str] = field(default_factory=list[str])
    slowest_s: float = 0.0
    slowest: str = ""
    made: int = 0


class Line:
    """One connection, opened again when the server closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, data: bytes) -> asyncio.StreamReader:
        if self._streams is None or self._streams[0].at_eof() or self._streams[1].is_closing():
            self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        return reader

    def close(self) -> None:
        if self._streams is not None:
            # At once: what the server does not read any more would otherwise be waited for.
            self._streams[1].transport.abort()
            self._streams = None


async def attack(port: int, hostile: Hostile, count: int, lines: int) -> Found:
    found, left = Found(), iter(range(count))

    async def one() -> None:
        line = Line(port)
        for _ in left:
            await _strike(line, hostile, found)
        line.close()

    await asyncio.gather(*(one() for _ in range(lines)))
    return found


async def _strike(line: Line, hostile: Hostile, found: Found) -> None:
    sent = hostile.next()
    began = time.monotonic()
    try:
        async with asyncio.timeout(ANSWER_S if sent.whole else 0.2):
            reader = await line.send(sent.data)
            for _ in range(sent.answers):
                await _answer(reader, sent, hostile, found)
    except TimeoutError:
        if sent.whole:
            found.broken.append(f"no answer within {ANSWER_S:g} s: {sent.name} {sent.data[:600]!r}")
        line.close()
    except (asyncio.IncompleteReadError, ConnectionError):
        # Closed, before or after an answer: it may.
        line.close()
    if sent.endless or sent.last or not sent.whole:
        line.close()
    took = time.monotonic() - began
    if sent.whole and took > found.slowest_s:
        found.slowest_s, found.slowest = took, sent.name
    found.sent += 1


async def _answer(reader: asyncio.StreamReader, sent: Attack, hostile: Hostile, found: Found) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    if status == 100:
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
    found.statuses[status] += 1
    if sent.endless and status == 200:
        return
    body = await _body(reader, head)
    found.made += status in (200, 201) and sent.data[:4] in (b"POST", b"PUT ")
    if status >= 500 and not any(code in body for code in _ALLOWED):
        found.broken.append(f"{status}: {sent.name} {sent.data[:1500]!r} -> {body[:600]!r}")
    for known, pattern in ((hostile.known.ids, _IDS), (hostile.known.names, _NAMES)):
        # Not its own tenant, which it would shut itself out of.
        if (match := pattern.search(body)) and match[1] != b"default":
            known.append(match[1].decode())
            del known[:-400]


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    if (length := fields.get(b"content-length")) is not None:
        return await reader.readexactly(int(length))
    if fields.get(b"transfer-encoding") != b"chunked":
        return b""
    parts: list[bytes] = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(parts)
