"""What a call of gRPC brings along: its bytes, its metadata, and where it comes from."""

from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from ares.edge.rest.direct import HEADERS
from ares.edge.rpc.messages import BadMessage, message_class, read

Context = grpc.aio.ServicerContext[Any, Any]


async def read_or_abort(name: str, data: bytes, context: Context) -> Message:
    try:
        return read(message_class(name), data)
    except BadMessage as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        raise AssertionError("abort raises") from None


def headers_of(context: Context) -> dict[str, str]:
    """Of each name the first, as in HTTP."""
    found: dict[str, str] = {}
    for name, value in context.invocation_metadata() or ():
        if name in HEADERS and name not in found:
            found[name] = value if isinstance(value, str) else value.decode("latin-1")
    return found


def client_of(context: Context) -> tuple[str, int]:
    """From "ipv4:127.0.0.1:4711" or "ipv6:%5B::1%5D:4711"."""
    place, _, port = context.peer().partition(":")[2].rpartition(":")
    host = place.replace("%5B", "").replace("%5D", "").strip("[]")
    return host, int(port) if port.isdecimal() else 0
