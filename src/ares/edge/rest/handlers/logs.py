"""Job output, whole or as it is written, over HTTP and WebSocket."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from ares.api.jobs import LogStream, StreamedLog
from ares.control.queries.logs import LogSearch, LogSlice
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import LogSearchQuery, LogsQuery, given
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import Problem, granted
from ares.edge.rest.http.sockets import converse
from ares.edge.rest.http.wire import until_gone

_CHUNK_BYTES = 256 * 1024
_WAIT_S = 5.0
# Where `tail=10s` begins.
_TAIL_LINES = 100

Sink = Callable[[LogSlice], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Opening:
    """Which bytes to send. `attempt` None: whichever attempt comes first."""

    attempt: int | None
    shown_attempt: int
    rank: int
    offset: int
    # Without `follow`, the size at the moment of asking is the end.
    end: int
    follow: bool
    for_s: float | None
    stream: LogStream | None


async def get_logs(call: RequestCall[LogsQuery, None]) -> ASGIApp:
    call.edge.streams.check_room(call.who)
    return _LogAnswer(call, await _open(call))


async def stream_logs(call: RequestCall[LogsQuery, None], receive: Receive, send: Send) -> None:
    opening = await _open(call)

    async def talk(say: Callable[[bytes], Awaitable[None]]) -> None:
        await _copy(call, opening, lambda piece: say(_message(piece, opening.stream)))

    await converse(call, receive, send, talk)


async def search_logs(call: RequestCall[LogSearchQuery, None]) -> ASGIApp:
    asked = call.query
    search = LogSearch(
        text=asked.text, attempt=given(asked.attempt) or 0, rank=asked.rank, offset=asked.offset, limit=asked.limit,
        stream=given(asked.stream),
    )  # fmt: skip
    return answer(await call.edge.services.logs.search(call.who, call.path["id"], search))


def _message(piece: LogSlice, stream: LogStream | None) -> bytes:
    data = piece.data if stream is None else piece.of(stream)
    stderr = tuple((low - piece.offset, high - piece.offset) for low, high in piece.stderr)
    if stream is not None:
        stderr = ((0, len(data)),) if data and stream == "stderr" else ()
    return msgspec.json.encode(
        StreamedLog(
            attempt=piece.attempt,
            rank=piece.rank,
            offset=piece.offset,
            next=piece.offset + len(piece.data),
            data=data,
            complete=piece.complete,
            stderr=stderr,
        )
    )


async def _open(call: RequestCall[LogsQuery, None]) -> _Opening:
    rank, tail, offset = call.query.rank, given(call.query.tail), given(call.query.offset)
    since = given(call.query.since)
    if sum(place is not None for place in (tail, offset, since)) > 1:
        raise Problem("invalid", detail="tail, offset and since exclude each other", path="query.tail")
    logs, job = call.edge.services.logs, call.path["id"]
    asked = given(call.query.attempt)
    seen = granted(await logs.read(call.who, job, attempt=asked, rank=rank, offset=offset or 0, limit=0))
    timed = tail is not None and tail.endswith("s")
    if tail is not None:
        lines = _TAIL_LINES if timed else int(tail)
        stream: LogStream | None = given(call.query.stream)
        offset = await logs.tail_offset(call.who, job, seen.attempt, rank, lines, stream) if lines else seen.size
    if since is not None:
        offset = await logs.since_offset(call.who, job, seen.attempt, rank, since)
    return _Opening(
        # A job that waits for its first attempt has none to pin yet.
        attempt=seen.attempt or asked,
        shown_attempt=seen.attempt,
        rank=rank,
        offset=offset or 0,
        end=seen.size,
        follow=call.query.follow or timed,
        for_s=float(tail[:-1]) if tail is not None and timed else None,
        stream=given(call.query.stream),
    )


async def _copy(call: RequestCall[LogsQuery, None], opening: _Opening, sink: Sink) -> None:
    """Pieces in order, until the attempt has ended, the time is over, or the end that was asked for."""
    services, job = call.edge.services, call.path["id"]
    deadline = None if opening.for_s is None else services.clock.monotonic() + opening.for_s
    attempt, offset = opening.attempt, opening.offset
    while True:
        room = _CHUNK_BYTES if opening.follow else min(_CHUNK_BYTES, opening.end - offset)
        piece = await services.logs.read(
            call.who, job, attempt=attempt, rank=opening.rank, offset=offset, limit=max(0, room)
        )
        if piece is None:
            return
        attempt = piece.attempt or None
        offset += len(piece.data)
        if piece.data or piece.complete:
            await sink(piece)
        if piece.complete or (not opening.follow and offset >= opening.end):
            return
        left = _WAIT_S if deadline is None else deadline - services.clock.monotonic()
        if left <= 0:
            return
        if not piece.data:
            await services.logs.wait(call.who, job, piece.attempt, opening.rank, offset, min(left, _WAIT_S))


class _LogAnswer:
    """Plain bytes, or pieces as lines of JSON. An end without the last chunk means: not all of it, ask again from where
    you are."""

    def __init__(self, call: RequestCall[LogsQuery, None], opening: _Opening) -> None:
        self._call = call
        self._opening = opening

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams = self._call.edge.streams

        async def body(data: bytes, *, more: bool) -> None:
            message: Any = {"type": "http.response.body", "body": data, "more_body": more}
            await streams.send(send(message))

        stream, pieces = self._opening.stream, self._call.query.pieces

        async def sink(piece: LogSlice) -> None:
            data = piece.data if stream is None else piece.of(stream)
            if pieces:
                data = _message(piece, stream) + b"\n"
            if data:
                await body(data, more=True)

        async def work() -> None:
            await send(self._start())
            # Headers leave with the first chunk: a follower must not wait for output to get them.
            await body(b"", more=True)
            await _copy(self._call, self._opening, sink)
            await body(b"", more=False)

        await streams.run(self._call.token, self._call.who, work(), until_gone(receive))

    def _start(self) -> Any:
        headers = [
            (b"content-type", b"application/jsonl" if self._call.query.pieces else b"text/plain; charset=utf-8"),
            (b"x-ares-attempt", str(self._opening.shown_attempt).encode()),
            (b"x-ares-log-offset", str(self._opening.offset).encode()),
        ]
        return {"type": "http.response.start", "status": 200, "headers": headers}
