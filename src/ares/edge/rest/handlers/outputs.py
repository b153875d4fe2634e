"""The files a job handed over: the committed list, and the bytes of what is in it."""

import re
from typing import Any

from litestar.types import ASGIApp, Receive, Scope, Send

from ares.control.queries.outputs import OpenOutput
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import Problem, granted
from ares.edge.rest.http.wire import until_gone

_BLOCK_BYTES = 256 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


async def list_outputs(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.outputs.list(call.who, call.path["id"]))


async def get_output(call: RequestCall[NoQuery, None]) -> ASGIApp:
    call.edge.streams.check_room(call.who)
    found = granted(await call.edge.services.outputs.open(call.who, call.path["id"], call.path["path"]))
    begin, end, partial = _asked(call.header(b"range"), found.file.size)
    too_much = call.edge.services.meters.take(call.who.tenant, end - begin)
    if too_much is not None:
        return answer(too_much)
    try:
        # Before the answer begins: what is not there cannot be told of later.
        first = await found.read(begin, min(_BLOCK_BYTES, end - begin))
    except FileNotFoundError:
        call.edge.services.meters.give_back(call.who.tenant, end - begin)
        raise Problem("output-missing", detail=f"SHA-256 {found.file.sha256}") from None
    return _FileAnswer(call, found, first, begin, end, partial=partial)


def _asked(range_: str | None, size: int) -> tuple[int, int, bool]:
    """From where to where, and whether that is what a Range header says. One that makes no sense is ignored."""
    match = _RANGE.fullmatch(range_ or "")
    if match is None or match.groups() == ("", ""):
        return 0, size, False
    first, last = match.groups()
    begin = max(0, size - int(last)) if not first else int(first)
    end = min(size, int(last) + 1) if first and last else size
    if first and last and int(last) < int(first):
        return 0, size, False
    if begin >= end:
        raise Problem("bad-range", detail=f"the file has {size} bytes", headers={"content-range": f"bytes */{size}"})
    return begin, end, True


class _FileAnswer:
    """Bytes with their length: an answer that ends early is seen to."""

    def __init__(
        self, call: RequestCall[NoQuery, None], found: OpenOutput, first: bytes, begin: int, end: int, *, partial: bool
    ) -> None:
        self._call = call
        self._found = found
        self._first = first
        self._begin = begin
        self._end = end
        self._partial = partial
        self._unsent = end - begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams = self._call.edge.streams

        async def body(data: bytes, *, more: bool) -> None:
            message: Any = {"type": "http.response.body", "body": data, "more_body": more}
            await streams.send(send(message))
            self._unsent -= len(data)

        async def work() -> None:
            await send(self._start())
            data, at = self._first, self._begin
            while at + len(data) < self._end:
                await body(data, more=True)
                at += len(data)
                data = await self._found.read(at, min(_BLOCK_BYTES, self._end - at))
                if not data:
                    raise OSError(f"output {self._found.file.sha256} ends at {at:,} of {self._found.file.size:,} bytes")
            await body(data, more=False)

        try:
            await streams.run(self._call.token, self._call.who, work(), until_gone(receive))
        finally:
            self._call.edge.services.meters.give_back(self._call.who.tenant, self._unsent)

    def _start(self) -> Any:
        size = self._found.file.size
        headers = [
            (b"content-type", b"application/octet-stream"),
            (b"content-disposition", b"attachment"),
            (b"content-length", str(self._end - self._begin).encode()),
            (b"accept-ranges", b"bytes"),
            (b"etag", f'"{self._found.file.sha256}"'.encode()),
        ]
        if self._partial:
            headers.append((b"content-range", f"bytes {self._begin}-{self._end - 1}/{size}".encode()))
        return {"type": "http.response.start", "status": 206 if self._partial else 200, "headers": headers}
