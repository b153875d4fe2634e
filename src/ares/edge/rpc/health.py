"""The health service of gRPC: whether this replica can serve, as `/readyz` says it. It needs no credential."""

import asyncio
from typing import Any, Final

import grpc

from ares.edge.rest.direct import Direct, DirectRequest
from ares.edge.rpc.calls import Context, client_of, read_or_abort
from ares.edge.rpc.messages import message_class
from ares.edge.rpc.methods import PACKAGE, SERVICES
from ares.edge.rpc.visitors import Visitors

HEALTH: Final = "grpc.health.v1.Health"
_REQUEST: Final = "grpc.health.v1.HealthCheckRequest"
_RESPONSE: Final = "grpc.health.v1.HealthCheckResponse"
_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = 1, 2, 3
_KNOWN: Final = frozenset({"", HEALTH, *(f"{PACKAGE}.{name}" for name in SERVICES)})
# How often a watched state is looked at.
_LOOK_S: Final = 1.0


class HealthService:
    """Check and Watch."""

    def __init__(self, direct: Direct, visitors: Visitors) -> None:
        self._direct = direct
        self._visitors = visitors

    def handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            HEALTH,
            {
                "Check": grpc.unary_unary_rpc_method_handler(self._check),
                "Watch": grpc.unary_stream_rpc_method_handler(self._watch),
            },
        )

    async def _check(self, data: bytes, context: Context) -> bytes:
        request: Any = await read_or_abort(_REQUEST, data, context)
        if request.service not in _KNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {request.service[:100]!r}")
        return _answer(await self._status())

    async def _watch(self, data: bytes, context: Context) -> None:
        request: Any = await read_or_abort(_REQUEST, data, context)
        with self._visitors.one(client_of(context)[0]) as room:
            if not room:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many such streams are open")
            told = 0
            while True:
                status = await self._status() if request.service in _KNOWN else _SERVICE_UNKNOWN
                if status != told:
                    await context.write(_answer(status))
                    told = status
                await asyncio.sleep(_LOOK_S)

    async def _status(self) -> int:
        answer = await self._direct.ask(DirectRequest("readyz", "GRPC"), _as_it_is)
        return _SERVING if isinstance(answer, bytes) else _NOT_SERVING


async def _as_it_is(data: bytes) -> bytes:
    return data


def _answer(status: int) -> bytes:
    return message_class(_RESPONSE)(status=status).SerializeToString()
