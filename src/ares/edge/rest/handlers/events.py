"""The live ledger of a tenant, over server-sent events and WebSocket, resumable."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from ares.api.jobs import StreamedEvent
from ares.control.queries.events import BadEventCursor
from ares.control.state.pacing import WORKED_ON, breathe
from ares.edge.rest.answers import whole
from ares.edge.rest.bodies import EventsQuery, given
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import Problem
from ares.edge.rest.http.sockets import Say, converse
from ares.edge.rest.http.streaming import TooSlow
from ares.edge.rest.http.wire import until_gone
from ares.model.state import LedgerEvent

_FAREWELLS = {"revoked": "unauthenticated", "shutdown": "not-ready", "lagged": "lagged"}

Events = AsyncGenerator[tuple[str, LedgerEvent], None]


async def follow_events(call: RequestCall[EventsQuery, None]) -> ASGIApp:
    call.edge.streams.check_room(call.who)
    return _EventsAnswer(call, _cursor(call))


async def stream_events(call: RequestCall[EventsQuery, None], receive: Receive, send: Send) -> None:
    # Before it listens: what is refused inside of a context loses its reason.
    call.edge.streams.check_room(call.who)
    async with _listening(call, _cursor(call)) as events:

        async def talk(say: Say) -> None:
            async for cursor, event in _in_strides(events):
                await say(msgspec.json.encode(whole(StreamedEvent(cursor=cursor, event=event))))

        await converse(call, receive, send, talk)


def _cursor(call: RequestCall[EventsQuery, None]) -> str:
    return call.query.cursor or call.header(b"last-event-id") or ""


@asynccontextmanager
async def _listening(call: RequestCall[EventsQuery, None], cursor: str) -> AsyncGenerator[Events]:
    """Events from `cursor` on. Inside, the follower already listens: once the client learns that the
    stream is open, nothing that happens is missed."""
    feed = call.edge.services.events.follow(call.who, cursor, given(call.query.job))
    first = asyncio.create_task(_next(feed))
    await asyncio.sleep(0)
    if first.done() and isinstance(first.exception(), BadEventCursor):
        raise Problem("bad-cursor", fix="Use a cursor that came with an event, 0 for the oldest, or none.")

    async def events() -> Events:
        yield await first
        async for item in feed:
            yield item

    try:
        yield events()
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await feed.aclose()


async def _next(feed: Events) -> tuple[str, LedgerEvent]:
    return await anext(feed)


async def _in_strides(events: Events) -> Events:
    """What a client takes as fast as it comes leaves others their turn."""
    number = 0
    async for item in events:
        yield item
        number += 1
        if number % WORKED_ON == 0:
            await breathe()


class _EventsAnswer:
    """Server-sent events; the last one is of kind `error` when the stream ends for a reason."""

    def __init__(self, call: RequestCall[EventsQuery, None], cursor: str) -> None:
        self._call = call
        self._cursor = cursor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call, streams = self._call, self._call.edge.streams

        async def say(text: bytes, *, more: bool = True) -> None:
            message: Any = {"type": "http.response.body", "body": text, "more_body": more}
            await streams.send(send(message))

        async def copy(events: Events) -> None:
            async for cursor, event in _in_strides(events):
                data = msgspec.json.encode(whole(event))
                await say(b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), event.kind.encode(), data))

        async with _listening(call, self._cursor) as events:
            await send(_start())
            await say(b": open\n\n")
            beat = streams.every(call.edge.settings.heartbeat_s, lambda: say(b": still here\n\n"))
            try:
                ending = await streams.run(call.token, call.who, copy(events), until_gone(receive), beat)
            except TooSlow:
                ending = "lagged"
            if ending in _FAREWELLS:
                # A client that has read nothing for long may still read this; otherwise it is cut off.
                with contextlib.suppress(TooSlow):
                    await say(b"event: error\ndata: %b\n\n" % Problem(_FAREWELLS[ending]).body(), more=False)


def _start() -> Any:
    return {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
