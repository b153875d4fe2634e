"""Secrets in what a job writes: found in every form we say we find, however the output is cut."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ares.core.secrets import LINES_MAX, MASK, Masker, forms

# Few letters, so that values overlap, repeat and begin within each other.
TEXTS = st.binary(max_size=12)
VALUES = st.lists(TEXTS.map(lambda raw: bytes(b"ab\n"[byte % 3] for byte in raw)), max_size=3)
OUTPUTS = st.lists(TEXTS.map(lambda raw: bytes(b"ab"[byte % 2] for byte in raw)), max_size=8)


def plainly(values: list[bytes], data: bytes) -> bytes:
    """The same by brute force: whatever lies in any occurrence of any form is covered."""
    wanted = {form for value in values for form in forms(value)}
    shown, at = b"", 0
    for start in range(len(data)):
        end = max((start + len(form) for form in wanted if data.startswith(form, start)), default=0)
        if end:
            shown += data[at:start] + MASK if start >= at else b""
            at = max(at, end)
    return shown + data[at:]


@settings(max_examples=300, deadline=None)
@given(VALUES, OUTPUTS)
def test_cuts_make_no_difference(values: list[bytes], pieces: list[bytes]) -> None:
    masker = Masker(values)
    shown = b"".join(masker.feed(piece) for piece in pieces) + masker.end()
    assert shown == plainly(values, b"".join(pieces))
    assert masker.whole(b"".join(pieces)) == shown


def test_what_cannot_be_part_of_a_secret_is_shown_at_once() -> None:
    masker = Masker([b"hunter2!"])
    assert masker.feed(b"epoch 1\nloss hunt") == b"epoch 1\nloss "
    assert masker.feed(b"ing season\n") == b"hunting season\n"
    assert masker.feed(b"hunter2") == b""
    assert masker.feed(b"!\n") == MASK + b"\n"
    assert masker.feed(b"hun") == b""
    assert masker.end() == b"hun"


SECRET = b'p&ss/w"rd+with=\xc3\xbcmlaut\\'


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        base64.b64encode(SECRET),
        base64.urlsafe_b64encode(SECRET),
        quote(SECRET, safe="").encode(),
        quote(SECRET).encode(),
        quote_plus(SECRET).encode(),
        json.dumps(SECRET.decode()).encode()[1:-1],
        json.dumps(SECRET.decode(), ensure_ascii=False).encode()[1:-1],
    ],
)
def test_every_form_is_found(shown: bytes) -> None:
    assert Masker([SECRET]).whole(b"<" + shown + b">") == b"<***>"


@pytest.mark.parametrize("before", [b"u:", b"us:", b"use:", b"user:"])
def test_base64_of_something_longer_shows_nothing_of_it(before: bytes) -> None:
    secret = b"correct-horse-battery-staple"
    shown = Masker([secret]).whole(base64.b64encode(before + secret + b"@host"))
    assert MASK in shown
    # Characters at the edges also say something about their neighbours.
    assert len(shown.replace(MASK, b"")) <= len(base64.b64encode(before + b"@host")) + 4


def test_lines_of_a_value_are_found_one_by_one() -> None:
    key = b"-----BEGIN KEY-----\n  MIIEvQIBADANBg\nabc\n-----END KEY-----\n"
    masker = Masker([key])
    assert masker.whole(b"x MIIEvQIBADANBg y abc z") == b"x *** y abc z"
    assert len(forms(b"\n".join(b"line-%04d" % n for n in range(5000)))) < 8 * LINES_MAX


def test_short_values_are_left_alone() -> None:
    assert Masker([b"abc", b""]).feed(b"abcabc") == b"abcabc"


def test_json_stays_json() -> None:
    masker = Masker([b"hunter2!"])
    value = {"hunter2!": ["a hunter2! b", 1, None, {"x": True}], "loss": 0.5}
    assert masker.value(value) == {"***": ["a *** b", 1, None, {"x": True}], "loss": 0.5}
