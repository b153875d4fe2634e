"""Headers and bodies off the wire, never more than allowed."""

import asyncio

from litestar.types import Receive, Scope

from ares.edge.rest.problems import Problem


class ClientGone(Exception):
    """The client left before its request was complete: nobody waits for an answer."""


def header(scope: Scope, name: bytes) -> str | None:
    """The first value of a header, None if it is absent."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None


async def read_body(scope: Scope, receive: Receive, bytes_max: int, timeout_s: float) -> bytes:
    declared = _content_length(scope)
    if declared > bytes_max:
        # The rest is known to end: the server reads past it, and the client gets to see the answer.
        raise Problem("too-large", detail=f"{declared} bytes; the limit is {bytes_max}")
    first, more = await _next(receive)
    if not more:
        return _bounded(first, bytes_max)
    parts, size = [first], len(first)
    try:
        async with asyncio.timeout(timeout_s):
            while more:
                part, more = await _next(receive)
                size += len(part)
                if size > bytes_max:
                    raise _too_large(bytes_max)
                parts.append(part)
    except TimeoutError:
        raise Problem(
            "request-timeout",
            detail=f"the body was not complete after {timeout_s:g} s",
            headers={"connection": "close"},
        ) from None
    return b"".join(parts)


async def _next(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


def _bounded(body: bytes, bytes_max: int) -> bytes:
    if len(body) > bytes_max:
        raise _too_large(bytes_max)
    return body


def _too_large(bytes_max: int) -> Problem:
    # Nobody knows whether the rest ever ends.
    return Problem("too-large", detail=f"more than {bytes_max} bytes", headers={"connection": "close"})


def _content_length(scope: Scope) -> int:
    text = header(scope, b"content-length") or ""
    return int(text) if text.isdecimal() else 0


async def until_gone(receive: Receive) -> None:
    """Returns when the client has left. Whatever it still says is dropped."""
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass
