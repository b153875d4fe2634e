"""How a secret may show itself in what a job writes."""

import base64
import json
import re
from typing import Final
from urllib.parse import quote, quote_plus

# Anything shorter would be found everywhere.
FORM_BYTES_MIN: Final = 4
# Of base64 in the middle of something longer, whose first and last characters depend on its neighbours.
_INNER_MIN: Final = 8
# Of a value with more lines, the longest are looked for on their own.
LINES_MAX: Final = 256


def forms(value: bytes) -> set[bytes]:
    """A value shorter than four bytes has none."""
    if len(value) < FORM_BYTES_MIN:
        return set()
    # Line ends around it are no secret, and make output hard to read when they are gone.
    inner = value.strip(b"\r\n")
    found = {inner, *_in_text(inner), *_base64(value), *_base64(inner)}
    lines = sorted({line.strip() for line in value.splitlines()}, key=len, reverse=True)
    for line in lines[:LINES_MAX]:
        found |= {line, *_in_text(line)}
    return {form for form in found if len(form) >= FORM_BYTES_MIN}


def _in_text(value: bytes) -> set[bytes]:
    """In URLs and in JSON."""
    quoted = quote(value, safe="").encode()
    lower = re.sub(rb"%..", lambda hexed: hexed[0].lower(), quoted)
    found = {quoted, lower, quote_plus(value).encode(), quote(value).encode()}
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return found
    return found | {json.dumps(text)[1:-1].encode(), json.dumps(text, ensure_ascii=False)[1:-1].encode()}


def _base64(value: bytes) -> set[bytes]:
    """Alone, and within something longer: there are three ways it can lie across the groups of three bytes."""
    whole = base64.b64encode(value)
    found = {whole, whole.rstrip(b"=")}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + value)
        # Characters that also depend on what comes before or after are left out.
        inner = encoded[(8 * before + 5) // 6 : 8 * (before + len(value)) // 6]
        found |= {inner} if len(inner) >= _INNER_MIN else set()
    return found | {form.replace(b"+", b"-").replace(b"/", b"_") for form in found}
