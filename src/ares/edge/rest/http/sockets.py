"""One way of holding a WebSocket conversation, for every kind of stream."""

import contextlib
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import structlog
from litestar.types import Receive, Send

from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.streaming import Ending, TooSlow
from ares.edge.rest.http.wire import until_gone

log = structlog.get_logger()

Say = Callable[[bytes], Awaitable[None]]
Listen = Callable[[bytes], Awaitable[None]]

# Close codes and reasons a client can act on.
CLOSES: dict[Ending, tuple[int, str]] = {
    "done": (1000, "complete"),
    "revoked": (4401, "unauthenticated: the credential ended, or its rights have changed"),
    "shutdown": (1001, "shutdown: reconnect with the last cursor"),
}
LAGGED = (4408, "lagged: reconnect with the last cursor")
# What was said is no message; the session is gone; it goes on, and can be attached to again.
MALFORMED, DROPPED, AGAIN = 4400, 4409, 1012
BROKEN = (1011, "internal: reconnect with the last cursor")


class SocketOver(Exception):
    """Ends a conversation with a close code and a reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.close = (code, reason)


async def converse(
    call: RequestCall[Any, Any],
    receive: Receive,
    send: Send,
    talk: Callable[[Say], Awaitable[None]],
    listen: Listen | None = None,
    *aside: Coroutine[Any, Any, None],
) -> None:
    """Accepts, lets `talk` speak, and says at the end why it is over. After the handshake nothing is raised. With
    `listen` both sides speak, in bytes."""
    streams = call.edge.streams
    streams.check_room(call.who)
    # The handshake's first message.
    await receive()
    offered: list[str] = cast("Any", call.scope)["subprotocols"]
    accept: Any = {"type": "websocket.accept", "subprotocol": "bearer" if "bearer" in offered else None, "headers": []}
    await send(accept)

    async def say(message: bytes) -> None:
        text = message.decode() if listen is None else None
        event: Any = {"type": "websocket.send", "text": text, "bytes": None if listen is None else message}
        await streams.send(send(event))

    async def work() -> None:
        await talk(say)

    try:
        gone = until_gone(receive) if listen is None else _heard(receive, listen)
        ending = await streams.run(call.token, call.who, work(), gone, *aside)
    except SocketOver as over:
        await _close(send, over.close)
    except TooSlow:
        # It may still read that, and otherwise is cut off.
        with contextlib.suppress(TooSlow):
            await streams.send(_close(send, LAGGED))
    except Exception as error:
        # As text: a renderer that shows local variables would show the token.
        log.error("websocket.broken", traceback="".join(traceback.format_exception(error)))
        await _close(send, BROKEN)
    else:
        if ending != "gone":
            await _close(send, CLOSES[ending])


async def _heard(receive: Receive, listen: Listen) -> None:
    """Hands on what the client says, until it is gone. While that is taken, nothing more is read."""
    while True:
        message: Any = await receive()
        if message["type"] != "websocket.receive":
            return
        await listen(message.get("bytes") or b"")


async def _close(send: Send, why: tuple[int, str]) -> None:
    message: Any = {"type": "websocket.close", "code": why[0], "reason": why[1]}
    await send(message)
