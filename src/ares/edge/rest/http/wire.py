"""Headers and bodies off the wire, never more than allowed."""

import asyncio

from litestar.types import Receive, Scope

from ares.edge.rest.http.problems import Problem

# Under which a connection keeps that all of a request is here.
ARRIVED = "ares_arrived"


class ClientGone(Exception):
    """The client left before its request was complete: no answer is needed."""


def header(scope: Scope, name: bytes) -> str | None:
    """The first value of a header, None if it is absent."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None


async def read_body(scope: Scope, receive: Receive, bytes_max: int, timeout_s: float) -> bytes:
    if scope["state"].get(ARRIVED):
        # There is nothing to wait for.
        return _bounded((await _next(receive))[0], bytes_max)
    try:
        async with asyncio.timeout(timeout_s):
            part, more = await _next(receive)
            if not more:
                return _bounded(part, bytes_max)
            parts, size = [part], len(part)
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
            reason="limit",
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
    # The rest of the body may never end.
    return Problem("too-large", detail=f"more than {bytes_max} bytes", headers={"connection": "close"}, reason="limit")


def body_size(scope: Scope, bytes_max: int) -> int:
    """How long the body says it is; one that does not say may be as long as allowed. Raises Problem when too long."""
    declared = header(scope, b"content-length")
    if declared is None:
        return bytes_max if header(scope, b"transfer-encoding") is not None else 0
    size = int(declared) if declared.isdecimal() else 0
    if size > bytes_max:
        # The rest is known to end: the server reads past it, and the client gets to see the answer.
        raise Problem("too-large", detail=f"{size} bytes; the limit is {bytes_max}", reason="limit")
    return size


async def until_gone(receive: Receive) -> None:
    """Returns when the client has left. Whatever it still says is dropped."""
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass
