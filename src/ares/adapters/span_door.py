"""The HTTP side of a node's span desk: on the loopback address only, `POST /KEY/v1/traces`, one request of a connection
at a time. It knows as much of HTTP as exporters of OTLP use."""

import asyncio
import gzip
import io
import re
import zlib
from typing import Final, Protocol

_HEAD_BYTES_MAX: Final = 16 * 1024
_OPEN_MAX: Final = 64
# A connection that says nothing for so long is closed.
_WITHIN_S: Final = 30.0
# Between two requests of a connection: a job that sends for ever must not take the agent's time.
_PACE_S: Final = 0.02
_REQUEST: Final = re.compile(rb"POST /([0-9a-f]{32})/v1/traces HTTP/1\.1", re.ASCII)
_REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 411: "Length Required", 413: "Too Large"}


class TakeSpans(Protocol):
    def __call__(self, key: str, body: bytes, *, is_json: bool) -> int:
        """The status of the answer."""
        ...


class SpanDoor:
    def __init__(self, take: TakeSpans, body_bytes_max: int) -> None:
        self._take = take
        self._max = body_bytes_max
        self._open = 0
        self._server: asyncio.Server | None = None

    async def open(self) -> str:
        """Its address. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_BYTES_MAX)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            while self._open <= _OPEN_MAX:
                async with asyncio.timeout(_WITHIN_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    status, lasts = await self._request(reader, head)
                    writer.write(_answer(status, lasts=lasts))
                    await writer.drain()
                if not lasts:
                    return
                await asyncio.sleep(_PACE_S)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            return
        finally:
            self._open -= 1
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, head: bytes) -> tuple[int, bool]:
        """The status, and whether the connection can go on."""
        line, *rest = head.split(b"\r\n")
        asked = _REQUEST.fullmatch(line)
        pairs = [each.partition(b":") for each in rest if each]
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = headers.get(b"content-length", b"")
        if not length.isdigit():
            return 411, False
        if asked is None:
            return 404, False
        if int(length) > self._max:
            return 413, False
        body = await reader.readexactly(int(length))
        if headers.get(b"content-encoding") == b"gzip":
            unpacked = _unpacked(body, self._max)
            if unpacked is None:
                return 413, False
            body = unpacked
        is_json = headers.get(b"content-type", b"").startswith(b"application/json")
        return self._take(asked[1].decode(), body, is_json=is_json), headers.get(b"connection") != b"close"


def _answer(status: int, *, lasts: bool) -> bytes:
    # An empty message in either form.
    head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n"
    return f"{head}connection: {'keep-alive' if lasts else 'close'}\r\n\r\n".encode()


def _unpacked(body: bytes, most: int) -> bytes | None:
    """None where it would be more than that, or is no gzip."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            found = file.read(most + 1)
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    return found if len(found) <= most else None
