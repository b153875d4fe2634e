"""Query strings and bodies into values, each as strictly as the other."""

from typing import Any
from urllib.parse import parse_qsl

import msgspec
from litestar.types import Receive, Scope

from ares.edge.rest.api import ApiSettings
from ares.edge.rest.http.operation import Body
from ares.edge.rest.http.problems import Problem
from ares.edge.rest.http.strict import StrictDecoder, invalid
from ares.edge.rest.http.wire import body_size, header, read_body

QUERY_FIELDS_MAX = 100
JSON, BYTES = "application/json", "application/octet-stream"


class QueryReader:
    """Query strings into a struct, as strictly as bodies."""

    def __init__(self, type_: type[msgspec.Struct]) -> None:
        self._type = type_
        fields = {f.encode_name: f for f in msgspec.structs.fields(type_)}
        self._names = frozenset(fields)
        self._many = frozenset(name for name, f in fields.items() if getattr(f.type, "__origin__", None) is tuple)
        required = any(f.required for f in fields.values())
        self._default = None if required else type_()

    def read(self, scope: Scope) -> Any:
        raw = scope["query_string"]
        if not raw and self._default is not None:
            return self._default
        try:
            pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
        except ValueError as error:
            raise Problem("bad-request", detail=f"query string: {error}") from None
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name not in self._names:
                known = ", ".join(sorted(self._names)) or "none"
                raise Problem("unknown-field", detail=f"unknown parameter {name[:100]!r}; known: {known}", path="query")
            if name in self._many:
                found.setdefault(name, []).extend(value.split(",") if name == "phase" else [value])
            elif name in found:
                raise Problem("invalid", detail="given more than once", path=f"query.{name}")
            else:
                found[name] = value
        try:
            return msgspec.convert(found, self._type, strict=False)
        except msgspec.ValidationError as error:
            raise invalid(error, "query") from None


class BodyReader:
    """Reads and decodes a body within its limits."""

    def __init__(self, body: Body) -> None:
        self._decoder = StrictDecoder(body.type, body.shared) if body.typed else None
        self._default = None if body.required else body.type()
        self._batch = body.batch
        self._media_type = BYTES if body.binary else JSON

    def size(self, scope: Scope, settings: ApiSettings) -> int:
        """The memory to reserve for the body. Raises Problem when it is too large for any body."""
        return body_size(scope, self._bytes_max(settings))

    async def receive(self, scope: Scope, receive: Receive, settings: ApiSettings) -> bytes:
        """The whole body, not decoded yet."""
        return await read_body(scope, receive, self._bytes_max(settings), settings.body_timeout_s)

    def _bytes_max(self, settings: ApiSettings) -> int:
        return settings.batch_bytes_max if self._batch else settings.body_bytes_max

    def decode(self, scope: Scope, raw: bytes) -> tuple[Any, Any]:
        """The typed value and the plain value."""
        if not raw and self._default is not None:
            return self._default, {}
        _check_media_type(scope, self._media_type)
        return (None, None) if self._decoder is None else self._decoder.decode(raw)


def _check_media_type(scope: Scope, wanted: str) -> None:
    declared = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    encoding = (header(scope, b"content-encoding") or "").strip().lower()
    if declared != wanted or encoding not in ("", "identity"):
        shown = f"{declared or 'no content type'}{f', {encoding}' if encoding else ''}"
        fix = f"Send 'Content-Type: {wanted}' without a content encoding."
        raise Problem("unsupported-media-type", detail=f"got {shown[:200]!r}", fix=fix)
