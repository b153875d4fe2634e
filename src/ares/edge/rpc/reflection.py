"""Reflection: the proto files for clients that do not have them. It needs no credential, as the OpenAPI document."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import grpc

from ares.edge.rpc.calls import Context, client_of, read_or_abort
from ares.edge.rpc.health import HEALTH
from ares.edge.rpc.messages import file_set, message_class, pool
from ares.edge.rpc.methods import PACKAGE, SERVICES
from ares.edge.rpc.visitors import Visitors

# Tools ask by the older name still.
REFLECTIONS: Final = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
_REQUESTS_MAX: Final = 1000


class ReflectionService:
    """Both versions of it; they say the same."""

    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        return tuple(
            grpc.method_handlers_generic_handler(
                f"{package}.ServerReflection",
                {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(partial(self._serve, package))},
            )
            for package in REFLECTIONS
        )

    async def _serve(self, package: str, requests: AsyncIterator[bytes], context: Context) -> None:
        with self._visitors.one(client_of(context)[0]) as room:
            if not room:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many such streams are open")
            left = _REQUESTS_MAX
            async for data in requests:
                if not left:
                    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"over {_REQUESTS_MAX} questions")
                left -= 1
                request: Any = await read_or_abort(f"{package}.ServerReflectionRequest", data, context)
                await context.write(_answer(package, request))


def _answer(package: str, request: Any) -> bytes:
    answer: Any = message_class(f"{package}.ServerReflectionResponse")()
    answer.valid_host = request.host
    answer.original_request.CopyFrom(request)
    match request.WhichOneof("message_request"):
        case "list_services":
            for name in _services():
                answer.list_services_response.service.add(name=name)
        case "file_by_filename":
            _files(answer, request.file_by_filename)
        case "file_containing_symbol":
            _files(answer, _file_of(request.file_containing_symbol))
        case "all_extension_numbers_of_type":
            answer.all_extension_numbers_response.base_type_name = request.all_extension_numbers_of_type
        case _:
            _missing(answer, "nothing of that kind")
    return answer.SerializeToString()


def _services() -> tuple[str, ...]:
    own = (f"{PACKAGE}.{name}" for name in SERVICES)
    return tuple(sorted((*own, HEALTH, *(f"{package}.ServerReflection" for package in REFLECTIONS))))


def _file_of(symbol: str) -> str:
    try:
        return pool().FindFileContainingSymbol(symbol).name
    except KeyError:
        return ""


def _files(answer: Any, name: str) -> None:
    """The file and all that it needs, so that a client need not ask for each."""
    known = file_set()
    if name not in known:
        _missing(answer, "there is no such file or name")
        return
    wanted, found = [name], dict[str, bytes]()
    while wanted:
        file = known[wanted.pop()]
        if file.name not in found:
            found[file.name] = file.SerializeToString()
            wanted.extend(file.dependency)
    answer.file_descriptor_response.file_descriptor_proto.extend(found.values())


def _missing(answer: Any, text: str) -> None:
    answer.error_response.error_code = grpc.StatusCode.NOT_FOUND.value[0]
    answer.error_response.error_message = text
