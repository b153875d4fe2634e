"""An answer read with tolerance: of a server that is newer than this client, or older."""

import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

# What a field is when an older server does not know of it.
_EMPTY: dict[Any, Callable[[], Any]] = {kind: kind for kind in (str, int, float, bool, tuple, dict)}


def read(value: Any, kind: Any) -> Any:
    """A value of JSON as `kind`: as it is written if the server is of this version, and with tolerance otherwise."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        try:
            return _tolerant(value, kind)
        except msgspec.ValidationError:
            raise error from None


def _tolerant(value: Any, kind: Any) -> Any:
    """A closed list of words is open here: a word that was added to it since is taken as it is. A field that is missing
    is empty, unless every field that the record needs is missing: then it is another record."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _tolerant(value, inner[0])
    if origin is Literal:
        return msgspec.convert(value, str)
    if origin in (Union, types.UnionType):
        return _either(value, inner)
    if origin is tuple:
        return tuple(_tolerant(item, inner[0]) for item in msgspec.convert(value, list[Any]))
    if origin is dict:
        table = msgspec.convert(value, dict[Any, Any])
        return {_tolerant(key, inner[0]): _tolerant(item, inner[1]) for key, item in table.items()}
    return _record(msgspec.convert(value, dict[str, Any]), kind) if _is_record(kind) else msgspec.convert(value, kind)


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _either(value: Any, kinds: Sequence[Any]) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    *others, last = (kind for kind in kinds if kind is not types.NoneType)
    for kind in others:
        try:
            return _tolerant(value, kind)
        except msgspec.ValidationError:
            continue
    return _tolerant(value, last)


def _record(value: dict[str, Any], kind: type[msgspec.Struct]) -> msgspec.Struct:
    fields = msgspec.structs.fields(kind)
    needed = [field for field in fields if field.required]
    if needed and not any(field.encode_name in value for field in needed):
        raise msgspec.ValidationError(f"Object missing required field `{needed[0].encode_name}`")
    given = {field.name: _tolerant(value[name], field.type) for field in fields if (name := field.encode_name) in value}
    missing = {field.name: _empty(field) for field in needed if field.encode_name not in value}
    # What is made this way is not checked again: that lets in the words that are not known here.
    return kind(**given, **missing)


def _empty(field: msgspec.structs.FieldInfo) -> Any:
    kind = field.type
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if types.NoneType in get_args(kind):
        return None
    if _is_record(kind) and not any(inner.required for inner in msgspec.structs.fields(kind)):
        return kind()
    made = str if get_origin(kind) is Literal else get_origin(kind) or kind
    if made not in _EMPTY:
        raise msgspec.ValidationError(f"Object missing required field `{field.encode_name}`")
    return _EMPTY[made]()
