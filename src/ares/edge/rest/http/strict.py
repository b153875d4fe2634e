"""Reads JSON from strangers: typed by msgspec, and stricter than it.

On top of types and bounds this refuses unknown fields (by name), duplicate keys, NaN, and depth
beyond a limit. Records themselves ignore unknown fields, because two versions share a store; this
border must not.
"""

import json
import re
from types import UnionType
from typing import Annotated, Any, Generic, NamedTuple, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from ares.edge.rest.http.problems import Problem
from ares.model.access import UserName
from ares.model.base import Slug
from ares.model.quota import Measure

DEPTH_MAX = 32

T = TypeVar("T")
# A struct's fields with their shapes, a list's elements, or None: a value without structs inside.
Shape: TypeAlias = "dict[str, Shape] | _Each | None"

_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_NOT_QUOTED = bytes(set(_NOT_BRACKETS) - set(b'"'))
# Parts of requests that are kept, and the longest of them.
_PARTS_MAX = 512
_PART_BYTES_MAX = 1024
_PATH = re.compile(r"^(.*) - at (`key` in )?`(\$.*)`$", re.DOTALL)


class _Each:
    """The shape of every element of a list of structs, or of every value of a map of them."""

    __slots__ = ("shape",)

    def __init__(self, shape: "dict[str, Shape]") -> None:
        self.shape = shape


class _Duplicate(Exception):
    pass


class _KnownPart(NamedTuple):
    """A part of a request that was read before: its value, what was said, and the colons in it."""

    value: Any
    plain: Any
    colons: int


class _Shared(Generic[T]):
    """Requests whose part `name` came before with the same bytes. The rest of them is texts; all others are read as a
    whole. Equal parts are one object, so that what follows from them can be known by it."""

    def __init__(self, type_: type[T], name: str) -> None:
        fields = msgspec.structs.fields(cast("type[msgspec.Struct]", type_))
        rest = [(field.name, field.encode_name, field.type | UnsetType) for field in fields if field.name != name]
        parts: list[Any] = [(name, msgspec.Raw)]
        parts += [(own, kind, msgspec.field(name=text, default=UNSET)) for own, text, kind in rest]
        self._shell = msgspec.json.Decoder(msgspec.defstruct("Shell", parts, forbid_unknown_fields=True)).decode
        self._type = type_
        self._name = name
        self._said_as = {own: text for own, text, _ in rest}
        self._known: dict[bytes, _KnownPart] = {}

    def find(self, raw: bytes) -> tuple[bytes, tuple[T, dict[str, Any]] | None]:
        """The bytes of the part, and the whole request where that part is known and nothing else is to be checked."""
        try:
            said = msgspec.structs.asdict(self._shell(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return b"", None
        part = bytes(said.pop(self._name))
        known = self._known.get(part)
        if known is None:
            return part, None
        rest = {name: value for name, value in said.items() if value is not UNSET}
        # No colons but those of the part and of the keys beside it: no key was lost as a duplicate.
        if raw.count(b":") != known.colons + 1 + len(rest) or any(type(value) is not str for value in rest.values()):
            return b"", None
        plain = {self._name: known.plain, **{self._said_as[name]: value for name, value in rest.items()}}
        return part, (self._type(**{self._name: known.value}, **rest), plain)

    def keep(self, part: bytes, value: T, plain: dict[str, Any]) -> None:
        if not part or len(part) > _PART_BYTES_MAX:
            return
        if len(self._known) >= _PARTS_MAX:
            self._known.clear()
        self._known[part] = _KnownPart(getattr(value, self._name), plain[self._name], part.count(b":"))


class StrictDecoder(Generic[T]):
    """Decodes one struct. `decode` also gives the plain object, to see what was really said. `shared` names a part of
    it that is decoded once for equal bytes."""

    def __init__(self, type_: type[T], shared: str = "") -> None:
        self._decode = msgspec.json.Decoder(type_).decode
        shape = _shape_of(type_)
        assert isinstance(shape, dict), f"{type_}: a request is an object"
        self._shape = shape
        self._shared = _Shared(type_, shared) if shared else None

    def decode(self, raw: bytes) -> tuple[T, dict[str, Any]]:
        if self._shared is None:
            return self._whole(raw)
        part, found = self._shared.find(raw)
        if found is None:
            found = self._whole(raw)
            self._shared.keep(part, *found)
        return found

    def _whole(self, raw: bytes) -> tuple[T, dict[str, Any]]:
        check_depth(raw)
        try:
            value = self._decode(raw)
            # Also what the types let pass unread has to be JSON.
            plain = msgspec.json.decode(raw)
        except msgspec.ValidationError as error:
            raise invalid(error) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Problem("malformed-json", detail=str(error)) from None
        named = _count_known(plain, self._shape, "$")
        # Each key brings one colon: as many colons as keys means no key was lost as a duplicate.
        if raw.count(b":") != named:
            _refuse_duplicates(raw)
        return value, plain


def check_depth(raw: bytes) -> None:
    """Without building anything: take the strings out, then remove innermost pairs level by level."""
    if raw.count(b"{") + raw.count(b"[") <= DEPTH_MAX:
        return
    brackets = _outside_strings(raw)
    for _ in range(DEPTH_MAX):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    if b"[]" in brackets or brackets.count(b"[") > DEPTH_MAX:
        raise Problem("too-deep", detail=f"more than {DEPTH_MAX} levels")


def _outside_strings(raw: bytes) -> bytes:
    """The brackets that are in no string. A pair of quotes with nothing in between changes nothing about what is inside
    and what is not; without escapes that makes it ten times as fast as looking for strings."""
    if b"\\" in raw:
        return _STRINGS.sub(b"", raw).translate(_BRACKETS, _NOT_BRACKETS)
    return b"".join(raw.translate(_BRACKETS, _NOT_QUOTED).replace(b'""', b"").split(b'"')[::2])


# What the patterns that people meet most mean; the others are shown as they are.
_MEANINGS = {
    get_args(Slug)[1].pattern: "lower-case letters, digits and dashes, such as vision-lab",
    get_args(UserName)[1].pattern: "letters, digits and . _ @ + -, such as ann or ann@example.org",
    get_args(Measure)[
        1
    ].pattern: "cpu, memory, gpus, gpus.MODEL, gpu-hours, jobs, jobs-queued, storage, egress, transfer or budget",
}
_MATCHING = "Expected `str` matching regex "


def in_words(text: str) -> str:
    """What was expected, said to a person instead of in a regular expression."""
    for pattern, meaning in _MEANINGS.items():
        text = text.replace(f"{_MATCHING}{pattern!r}", f"Expected {meaning}")
    return text


def invalid(error: msgspec.ValidationError, root: str = "$") -> Problem:
    """msgspec's own words, with the path moved to its own field."""
    text = in_words(str(error))
    found = _PATH.match(text)
    if found is None:
        return Problem("invalid", detail=text, path=root)
    detail = f"{found[1]} (a key of the object)" if found[2] else found[1]
    return Problem("invalid", detail=detail, path=root + found[3][1:])


def _count_known(fields: dict[str, Any], shape: dict[str, "Shape"], path: str) -> int:
    """Refuses names that are not in the shape; returns how many keys there are, at all depths."""
    if not fields.keys() <= shape.keys():
        name = next(key for key in fields if key not in shape)
        raise Problem(
            "unknown-field", detail=f"unknown field {name[:100]!r}; known: {', '.join(sorted(shape))}", path=path
        )
    count = len(fields)
    for key, below in fields.items():
        kind = below.__class__
        if kind is dict:
            inner = shape[key]
            if isinstance(inner, _Each):
                # A value may also be null, where the type says so.
                structs = ((name, item) for name, item in below.items() if item.__class__ is dict)
                count += sum(_count_known(item, inner.shape, f"{path}.{key}.{name}") for name, item in structs)
            count += _count_known(below, inner, f"{path}.{key}") if isinstance(inner, dict) else len(below)
        elif kind is list:
            inner = shape[key]
            if isinstance(inner, _Each):
                structs = ((n, item) for n, item in enumerate(below) if item.__class__ is dict)
                count += sum(_count_known(item, inner.shape, f"{path}.{key}[{n}]") for n, item in structs)
    return count


def _refuse_duplicates(raw: bytes) -> None:
    try:
        _PAIRS.decode(raw.decode())
    except _Duplicate as error:
        raise Problem("duplicate-key", detail=f"the key {str(error)[:100]!r} appears twice in one object") from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise _Duplicate(next(key for key in keys if keys.count(key) > 1))


_PAIRS = json.JSONDecoder(object_pairs_hook=_no_duplicates)


def _shape_of(type_: Any) -> Shape:
    """Structs by their encoded names; unions of one struct and plain types by that struct; free maps are free."""
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return {f.encode_name: _shape_of(f.type) for f in msgspec.structs.fields(type_)}
    origin = get_origin(type_)
    arguments = get_args(type_)
    if origin in (Union, UnionType):
        shapes = [shape for shape in map(_shape_of, arguments) if shape is not None]
        assert len(shapes) <= 1, f"{type_}: a request may not choose between structs"
        return shapes[0] if shapes else None
    if origin is Annotated:
        return _shape_of(arguments[0])
    if origin in (list, tuple):
        inner = _shape_of(arguments[0])
        assert not isinstance(inner, _Each), f"{type_}: a request holds no lists of lists of structs"
        return None if inner is None else _Each(inner)
    if origin is dict:
        inner = _shape_of(arguments[1])
        return _Each(inner) if isinstance(inner, dict) else None
    return None
