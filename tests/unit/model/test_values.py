"""Every record can be read back as it was written: the values that its fields may have are values of their types."""

import importlib
import pkgutil
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

import ares.api
import ares.model
from ares.model.base import Record


def _records() -> Iterator[type[Record]]:
    for package in (ares.model, ares.api):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            found = vars(importlib.import_module(module.name)).values()
            yield from (kind for kind in found if isinstance(kind, type) and issubclass(kind, Record))


def _literals(hint: Any) -> Iterator[tuple[Any, Any]]:
    """What the hint names beside other types, however deep: `Slug | Literal[""]`."""
    for part in typing.get_args(hint):
        if typing.get_origin(hint) in (typing.Union, types.UnionType) and typing.get_origin(part) is typing.Literal:
            yield from ((hint, value) for value in typing.get_args(part))
        yield from _literals(part)


def test_every_word_that_a_field_may_be_can_be_read() -> None:
    """msgspec drops a literal that stands beside a constrained string, and then refuses it."""
    wrong: list[str] = []
    for record in {*_records()}:
        hints = typing.get_type_hints(record, include_extras=True)
        for field in msgspec.structs.fields(record):
            words = [(hints[field.name], field.default)] if isinstance(field.default, str) else []
            for hint, word in (*words, *_literals(hints[field.name])):
                try:
                    msgspec.convert(word, hint)
                except msgspec.ValidationError as error:
                    wrong.append(f"{record.__name__}.{field.name} cannot be {word!r}: {error}")
    assert wrong == []
