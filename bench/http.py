"""A keep-alive HTTP connection that costs little beside the server it measures."""

import asyncio
import json
from typing import Any

from bench.processes import NotMeasured

ANSWER_S = 120.0


class Connection:
    """One request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"

    @classmethod
    async def open(cls, port: int, token: str) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port), token)

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body."""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        async with asyncio.timeout(ANSWER_S):
            answer = await self._reader.readuntil(b"\r\n\r\n")
            return int(answer[9:12]), await self._reader.readexactly(_length(answer))

    async def json(self, method: str, path: str, value: object = None) -> Any:
        """The decoded answer; an error status ends the benchmark."""
        status, body = await self.ask(method, path, b"" if value is None else json.dumps(value).encode())
        return json.loads(expect(status, body, path))

    async def text(self, path: str) -> str:
        return expect(*await self.ask("GET", path), path).decode()

    async def submit_batch(self, body: bytes) -> None:
        """Every job of it was accepted."""
        status, answer = await self.ask("POST", "/v1/jobs/batch", body)
        if status >= 300 or b'"rejected":0' not in answer:
            raise NotMeasured(f"a batch was answered {status}: {answer[-200:].decode(errors='replace')}")

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def expect(status: int, body: bytes, what: str) -> bytes:
    if status >= 300:
        raise NotMeasured(f"{what} answered {status}: {body[:200].decode(errors='replace')}")
    return body


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise NotMeasured("an answer without a length")
