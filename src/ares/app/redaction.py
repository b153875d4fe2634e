"""Keeps credentials out of logs: by type, by the name they go under, and by what they look like.

Nothing should hand one to a logger; this is for the day when something does.
"""

import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, cast

from ares.model.secret import SHOWN, Secret

_NAMES: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "password", "passwd"})
_LOOKS: Final = (
    # Our own tokens: the id may stay, it is what people look for.
    (re.compile(r"\b(ares_[0-9a-z]+_)[A-Za-z0-9_-]{16,}"), rf"\1{SHOWN}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"), SHOWN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {SHOWN}"),
    (re.compile(r"(://)[^/\s:@]*:[^/\s@]+@"), rf"\1{SHOWN}@"),
    # Query strings hold signatures and tokens of others; none of ours means anything to a reader of logs.
    (re.compile(r"(\bhttps?://[^\s?\"']+\?)[^\s\"']+"), rf"\1{SHOWN}"),
)


def redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor, the last before rendering."""
    for name in event:
        event[name] = SHOWN if name.lower() in _NAMES else _redacted(event[name])
    return event


def _redacted(value: Any) -> Any:
    match value:
        case Secret():
            return SHOWN
        case str():
            return _text(value)
        case bytes():
            return _text(value.decode(errors="replace"))
        case Mapping():
            pairs = cast("Mapping[Any, Any]", value).items()
            return {name: SHOWN if str(name).lower() in _NAMES else _redacted(one) for name, one in pairs}
        case list() | tuple():
            return [_redacted(one) for one in cast("tuple[Any, ...]", value)]
        case _:
            return value


def _text(text: str) -> str:
    for look, instead in _LOOKS:
        text = look.sub(instead, text)
    return text
