"""Clusters' streams on the agents' port: frames decoded within their bounds, handed to the federation's services."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from ares.edge.grpc.frames import Context, decoded
from ares.edge.grpc.services import AskService, ClusterService
from ares.model.access import Principal
from ares.model.cluster_link import AskMessage, ClusterFrame

_SERVICE: Final = "ares.v1.ClusterLink"
_decode_frame = msgspec.msgpack.Decoder(ClusterFrame).decode
_decode_answer = msgspec.msgpack.Decoder(AskMessage).decode

# What becomes of a cluster whose credential is taken back: its name joins anew, as another generation.
LEAVE_FIRST = "`ares cluster leave --force` there, then join with a new token of `ares token join --cluster NAME`"


def cluster_handlers(
    stream: Callable[..., Any], clusters: ClusterService | None, asks: AskService | None
) -> tuple[grpc.GenericRpcHandler, ...]:
    """`stream` authenticates and watches over the credential: a cluster's own. A node's is good for none of this."""
    if clusters is None or asks is None:
        return ()
    encode = msgspec.msgpack.Encoder().encode
    serving: dict[str, Any] = {"Session": partial(_serve, clusters), "Asks": partial(_serve_asks, asks)}
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        name: grpc.stream_stream_rpc_method_handler(partial(stream, serve, "cluster"), response_serializer=encode)
        for name, serve in serving.items()
    }
    return (grpc.method_handlers_generic_handler(_SERVICE, handlers),)


async def _serve(service: ClusterService, who: Principal, context: Context) -> None:
    async with aclosing(service.serve(who, _frames(context))) as answers:
        async for frame in answers:
            await context.write(frame)


async def _serve_asks(service: AskService, who: Principal, context: Context) -> None:
    async with aclosing(service.serve(who, _answers(context))) as commands:
        async for command in commands:
            await context.write(command)


async def _frames(context: Context) -> AsyncIterator[ClusterFrame]:
    while (data := await context.read()) is not grpc.aio.EOF:
        yield decoded(_decode_frame, data)


async def _answers(context: Context) -> AsyncIterator[AskMessage]:
    while (data := await context.read()) is not grpc.aio.EOF:
        yield decoded(_decode_answer, data)
