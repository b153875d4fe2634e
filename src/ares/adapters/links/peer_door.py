"""A door for other nodes: plain HTTP, one GET after the other, each for bytes that its target names and seals.

What comes is believed in nothing but its seal, and bounded: connections, bytes of a request, and how long one takes.
"""

import asyncio
import contextlib
from typing import Final

import structlog

from ares.ports.link import PeerAnswer

log = structlog.get_logger()

# Each may hold a part of 8 MiB.
_CONNECTIONS_MAX: Final = 16
_HEAD_BYTES_MAX: Final = 16 << 10
_IDLE_S: Final = 60.0
_WRITE_S: Final = 60.0
_AGAIN_S: Final = 10.0


class HttpPeerDoor:
    """`ports.link.PeerDoor` at a port of all of this machine's addresses."""

    def __init__(self, port: int, host: str | None = None) -> None:
        self._port, self._host = port, host
        self._open = 0
        # Where it listens, once it does; for a port 0 that the system chose.
        self.listens_at = 0

    async def serve(self, answer: PeerAnswer) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._connected(answer, reader, writer)

        while True:
            try:
                server = await asyncio.start_server(connected, self._host, self._port, limit=_HEAD_BYTES_MAX)
            except OSError as error:
                # Others get their files elsewhere meanwhile.
                log.error("peers.no_port", port=self._port, why=str(error), again_s=_AGAIN_S)
                await asyncio.sleep(_AGAIN_S)
                continue
            self.listens_at = server.sockets[0].getsockname()[1]
            async with server:
                await server.serve_forever()

    async def _connected(self, answer: PeerAnswer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
                while self._open <= _CONNECTIONS_MAX and await self._one(answer, reader, writer):
                    pass
        except asyncio.LimitOverrunError:
            pass
        finally:
            self._open -= 1
            writer.close()

    async def _one(self, answer: PeerAnswer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether another request may follow."""
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _IDLE_S)
        method, _, rest = head.partition(b"\r\n")[0].decode("ascii").partition(" ")
        data = await answer(rest.partition(" ")[0]) if method == "GET" else None
        status = "403 Forbidden\r\nconnection: close" if data is None else "200 OK"
        said = (
            f"HTTP/1.1 {status}\r\ncontent-type: application/octet-stream\r\ncontent-length: {len(data or b'')}\r\n\r\n"
        )
        writer.write(said.encode())
        writer.write(data or b"")
        await asyncio.wait_for(writer.drain(), _WRITE_S)
        return data is not None
