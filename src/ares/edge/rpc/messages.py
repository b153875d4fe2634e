"""Messages of gRPC and the plain values of the API, the one made from the other by the descriptors of the proto files.

The files are read from `descriptors.binpb` into a pool of their own: they meet no others of the process.
"""

import base64
import math
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Any, cast

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ares.control.state.pacing import WORKED_ON, breathe

# Their JSON is what they hold, not their fields.
_VALUES = frozenset({"google.protobuf.Value", "google.protobuf.Struct", "google.protobuf.ListValue"})
_MESSAGE, _BYTES = FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_BYTES
# Of messages within a request: a job with all that it may name has fewer. And of what is no message of ours.
PARTS_MAX = 4096
_VALUE_BYTES_MAX = 64 * 1024
_FLOATS = frozenset({FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT})


class BadMessage(Exception):
    """The bytes of a caller are no such message. `path`: where in it."""

    def __init__(self, detail: str, path: str = "$") -> None:
        super().__init__(detail)
        self.path = path


@cache
def file_set() -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """The compiled proto files by name, each after those it needs."""
    raw = (files("ares.edge.rpc") / "descriptors.binpb").read_bytes()
    return {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(raw).file}


@cache
def pool() -> descriptor_pool.DescriptorPool:
    made = descriptor_pool.DescriptorPool()
    for file in file_set().values():
        made.Add(file)
    return made


@cache
def message_class(name: str) -> type[Message]:
    return message_factory.GetMessageClass(pool().FindMessageTypeByName(name))


def read(kind: type[Message], data: bytes) -> Message:
    """Raises BadMessage also for fields that the server does not know: what a client asks for is never left out."""
    message = parsed(kind, data)
    refuse_unknown(message)
    return message


def parsed(kind: type[Message], data: bytes) -> Message:
    """What the bytes say, whatever that is: cheap, also for bytes of a caller that is not known yet."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise BadMessage(f"not a message of {kind.DESCRIPTOR.full_name}: {str(error)[:200]}") from None


def refuse_unknown(message: Message) -> None:
    """Raises BadMessage for fields that the server does not know, and for more messages than any request has."""
    _refuse_unknown(message, "$", PARTS_MAX)


def _type(field: FieldDescriptor) -> Descriptor:
    """Of a field that holds messages."""
    return cast("Descriptor", field.message_type)


def _value(field: FieldDescriptor) -> FieldDescriptor | None:
    """What a table holds; None when the field is no table."""
    kind = _type(field)
    return kind.fields_by_name["value"] if kind.GetOptions().map_entry else None


def _refuse_unknown(message: Message, path: str, left: int) -> int:
    """How many of the messages that it may have are left."""
    if left <= 0:
        raise BadMessage(f"over {PARTS_MAX:,} messages in one", path)
    left -= 1
    for unknown in UnknownFieldSet(message):
        raise BadMessage(f"{message.DESCRIPTOR.full_name} has no field {unknown.field_number} here", path)
    for field, value in message.ListFields():
        if field.type != _MESSAGE or _type(field).full_name in _VALUES:
            continue
        below = f"{path}.{field.json_name}"
        if (inner := _value(field)) is not None:
            if inner.type == _MESSAGE:
                for key, item in value.items():
                    left = _refuse_unknown(item, f"{below}.{key}", left)
        elif field.is_repeated:
            for number, item in enumerate(value):
                left = _refuse_unknown(item, f"{below}[{number}]", left)
        else:
            left = _refuse_unknown(value, below, left)
    return left


def plain(message: Message, path: str = "$", names: Collection[str] | None = None) -> dict[str, Any]:
    """What was set, under the names that JSON has for it; of `names` alone where they are given."""
    return {
        field.json_name: _plain(field, value, f"{path}.{field.json_name}")
        for field, value in message.ListFields()
        if names is None or field.json_name in names
    }


def _plain(field: FieldDescriptor, value: Any, path: str) -> Any:
    if field.type == _MESSAGE and (inner := _value(field)) is not None:
        return {key: _plain_item(inner, item, path) for key, item in value.items()}
    if field.is_repeated:
        return [_plain_item(field, item, path) for item in value]
    return _plain_item(field, value, path)


def _plain_item(field: FieldDescriptor, value: Any, path: str) -> Any:
    if field.type == _MESSAGE:
        if _type(field).full_name not in _VALUES:
            return plain(value, path)
        if value.ByteSize() > _VALUE_BYTES_MAX:
            raise BadMessage(f"over {_VALUE_BYTES_MAX:,} bytes", path)
        try:
            return json_format.MessageToDict(value)
        except (ValueError, json_format.Error, RecursionError) as error:
            raise BadMessage(str(error)[:200], path) from None
    if field.type in _FLOATS and not math.isfinite(value):
        raise BadMessage("numbers are finite", path)
    return value


async def written(kind: type[Message], data: bytes) -> bytes:
    """The message that JSON of the API is, in strides where it is long."""
    message = kind()
    values: dict[str, Any] = msgspec.json.decode(data)
    for name, value in values.items():
        field = _by_json_name(kind.DESCRIPTOR).get(name)
        if field is None or value is None:
            continue
        items = cast("list[Any]", value) if isinstance(value, list) else []
        if len(items) > WORKED_ON:
            for first in range(0, len(items), WORKED_ON):
                _fill_field(message, field, items[first : first + WORKED_ON])
                await breathe()
        else:
            _fill_field(message, field, value)
    return message.SerializeToString()


def fill(message: Message, values: dict[str, Any]) -> None:
    """A field that the proto files do not have yet is left out: older clients never knew it."""
    known = _by_json_name(message.DESCRIPTOR)
    for name, value in values.items():
        if value is not None and (field := known.get(name)) is not None:
            _fill_field(message, field, value)


def _fill_field(message: Message, field: FieldDescriptor, value: Any) -> None:
    if field.type != _MESSAGE:
        if field.is_repeated:
            getattr(message, field.name).extend(value)
        else:
            setattr(message, field.name, base64.b64decode(value) if field.type == _BYTES else value)
        return
    target = getattr(message, field.name)
    if (inner := _value(field)) is not None:
        for key, item in value.items():
            if inner.type == _MESSAGE:
                _fill_message(target[key], item)
            else:
                target[key] = item
    elif field.is_repeated:
        for item in value:
            _fill_message(target.add(), item)
    else:
        # A message without a field set is there all the same.
        target.SetInParent()
        _fill_message(target, value)


def _fill_message(message: Message, value: Any) -> None:
    if message.DESCRIPTOR.full_name in _VALUES:
        json_format.ParseDict(value, message)
    else:
        fill(message, value)


@cache
def _by_json_name(descriptor: Any) -> dict[str, FieldDescriptor]:
    return {field.json_name: field for field in descriptor.fields}
