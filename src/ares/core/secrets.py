"""Takes secrets out of what a job writes, however the bytes are cut into pieces.

A value is looked for as it is, line by line, and as base64, URLs and JSON write it. A secret that the job encodes in
other ways is not recognised: this guards against accidents, not against the job.
"""

import base64
import json
import re
from collections.abc import Iterable
from typing import Any, Final, cast
from urllib.parse import quote, quote_plus

import numpy as np

# ---- The forms in which a secret may appear in output.


# Anything shorter would be found everywhere.
FORM_BYTES_MIN: Final = 4
# For base64 inside something longer, whose first and last characters depend on its neighbours.
_INNER_MIN: Final = 8
# If a value has more lines, only the longest are looked for on their own.
LINES_MAX: Final = 256


def forms(value: bytes) -> set[bytes]:
    """All forms of a value. A value shorter than four bytes has none."""
    if len(value) < FORM_BYTES_MIN:
        return set()
    # Line ends around the value are no secret, and output is hard to read without them.
    inner = value.strip(b"\r\n")
    found = {inner, *_in_text(inner), *_base64(value), *_base64(inner)}
    lines = sorted({line.strip() for line in value.splitlines()}, key=len, reverse=True)
    for line in lines[:LINES_MAX]:
        found |= {line, *_in_text(line)}
    return {form for form in found if len(form) >= FORM_BYTES_MIN}


def _in_text(value: bytes) -> set[bytes]:
    """The value as URLs and JSON write it."""
    quoted = quote(value, safe="").encode()
    lower = re.sub(rb"%..", lambda hexed: hexed[0].lower(), quoted)
    found = {quoted, lower, quote_plus(value).encode(), quote(value).encode()}
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return found
    return found | {json.dumps(text)[1:-1].encode(), json.dumps(text, ensure_ascii=False)[1:-1].encode()}


def _base64(value: bytes) -> set[bytes]:
    """The value in base64, alone and inside something longer: it can lie across groups of three bytes in three ways."""
    whole = base64.b64encode(value)
    found = {whole, whole.rstrip(b"=")}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + value)
        # Characters that also depend on what comes before or after are left out.
        inner = encoded[(8 * before + 5) // 6 : 8 * (before + len(value)) // 6]
        found |= {inner} if len(inner) >= _INNER_MIN else set()
    return found | {form.replace(b"+", b"-").replace(b"/", b"_") for form in found}


MASK: Final = b"***"
# Possible beginnings of a form at the end of the data are checked at most so often; then all from there on waits.
_CHECKS_MAX: Final = 64
# Four bytes at a time are hashed into a table of this many bits: a miss costs nothing more.
_TABLE_BITS: Final = 16
_MULTIPLIER: Final = np.uint32(0x9E3779B1)
_SHIFT: Final = np.uint32(32 - _TABLE_BITS)


class Masker:
    """Masks one stream. Holds back what may be the beginning of a secret until more comes."""

    def __init__(self, values: Iterable[bytes]) -> None:
        self._forms = sorted({form for value in values for form in forms(value)}, key=len, reverse=True)
        by_head = dict[bytes, list[bytes]]()
        for form in self._forms:
            by_head.setdefault(form[:FORM_BYTES_MIN], []).append(re.escape(form))
        # The longest first, where several begin at one place.
        self._by_head = {head: re.compile(b"|".join(like)) for head, like in by_head.items()}
        self._table = np.zeros(1 << _TABLE_BITS, dtype=np.bool_)
        self._table[_hashes(np.frombuffer(b"".join(self._by_head), dtype="<u4"))] = True
        self._held = b""
        # So many of the bytes held back are masked already.
        self._covered = 0

    def feed(self, data: bytes) -> bytes:
        """Takes more data; returns what may be shown by now."""
        return self._pass(self._held + data, final=False) if self._forms else data

    def end(self) -> bytes:
        """The bytes held back; nothing follows them."""
        return self._pass(self._held, final=True)

    def whole(self, data: bytes) -> bytes:
        """Masks complete data, apart from the stream."""
        under_way, self._held, self._covered = (self._held, self._covered), b"", 0
        shown = self._pass(data, final=True)
        self._held, self._covered = under_way
        return shown

    def text(self, text: str) -> str:
        return self.whole(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def value(self, value: Any) -> Any:
        """Masks every text in a JSON value, names included."""
        match value:
            case str():
                return self.text(value)
            case dict():
                pairs = cast("dict[str, Any]", value).items()
                return {self.text(name): self.value(inner) for name, inner in pairs}
            case list():
                return [self.value(inner) for inner in cast("list[Any]", value)]
            case _:
                return value

    def _pass(self, data: bytes, *, final: bool) -> bytes:
        cut = len(data) if final else self._unsure(data)
        shown, at = list[bytes](), self._covered
        for start, end in self._found(data):
            if start >= cut:
                break
            if start >= at:
                shown += (data[at:start], MASK)
            at = max(at, end)
        shown.append(data[at:cut])
        # A masked part may still be the beginning of another secret.
        self._held, self._covered = data[cut:], max(0, at - cut)
        return b"".join(shown)

    def _found(self, data: bytes) -> Iterable[tuple[int, int]]:
        """Where secrets are, by their beginning; they may overlap."""
        places = [
            offset + FORM_BYTES_MIN * np.flatnonzero(self._table[_hashes(words)])
            for offset in range(FORM_BYTES_MIN)
            if (count := (len(data) - offset) // FORM_BYTES_MIN) > 0
            for words in (np.frombuffer(data, dtype="<u4", count=count, offset=offset),)
        ]
        if not places:
            return
        for at in cast("list[int]", np.sort(np.concatenate(places)).tolist()):
            like = self._by_head.get(data[at : at + FORM_BYTES_MIN])
            if like is not None and (found := like.match(data, at)) is not None:
                yield at, found.end()

    def _unsure(self, data: bytes) -> int:
        """From where on the data may be the beginning of a secret."""
        cut = len(data)
        for form in self._forms:
            cut = min(cut, _overlap(data, form))
        return cut


def _hashes(words: "np.ndarray[Any, np.dtype[np.uint32]]") -> "np.ndarray[Any, np.dtype[np.uint32]]":
    return (words * _MULTIPLIER) >> _SHIFT


def _overlap(data: bytes, form: bytes) -> int:
    """Where the longest tail of the data begins that is the beginning of the form, but not all of it."""
    head, start = form[:FORM_BYTES_MIN], max(0, len(data) - len(form) + 1)
    at = data.find(head, start)
    for _ in range(_CHECKS_MAX):
        if at < 0:
            # Less than a head is left to look at.
            short = range(max(start, len(data) - FORM_BYTES_MIN + 1), len(data))
            return next((at for at in short if head.startswith(data[at:])), len(data))
        if form.startswith(data[at:]):
            return at
        at = data.find(head, at + 1)
    return len(data) if at < 0 else at
