"""What agents send, read off their streams: every field within its bounds, or refused."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
import msgspec

from ares.control.execution.enrolment import SessionRefused
from ares.model.job_session import SideMessage
from ares.model.link import AgentFrame
from ares.model.telemetry.log_stream import LogMessage

M = TypeVar("M")
Context = grpc.aio.ServicerContext[Any, Any]

_decode_frame: Final = msgspec.msgpack.Decoder(AgentFrame).decode
_decode_side: Final = msgspec.msgpack.Decoder[SideMessage](SideMessage).decode
_decode_log: Final = msgspec.msgpack.Decoder[LogMessage](LogMessage).decode
_WHY_MAX: Final = 300


def read_frame(data: bytes) -> AgentFrame:
    return decoded(_decode_frame, data)


def decoded(decode: Callable[[bytes], M], data: bytes) -> M:
    """Every field within its bounds; raises SessionRefused for the whole frame when a message says what no machine can
    mean, or is none."""
    try:
        return decode(data)
    except (ValueError, RecursionError) as error:
        raise SessionRefused(f"what the agent sent cannot be taken: {str(error)[:_WHY_MAX]}", "malformed") from None


async def frames(context: Context) -> AsyncIterator[AgentFrame]:
    """Read one by one: grpc's own iterator and its generator hold each other, and the last frame too, for ever."""
    while (data := await context.read()) is not grpc.aio.EOF:
        yield read_frame(data)


async def log_messages(context: Context) -> AsyncIterator[LogMessage]:
    while (data := await context.read()) is not grpc.aio.EOF:
        yield decoded(_decode_log, data)


async def side_messages(context: Context) -> AsyncIterator[SideMessage]:
    while (data := await context.read()) is not grpc.aio.EOF:
        yield decoded(_decode_side, data)
