"""The files of the dashboard, from memory: what a path of a browser is answered with."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

PREFIX: Final = "/ui"
STATIC: Final = Path(__file__).parent / "static"
_PAGE: Final = "index.html"
# Files below it carry a hash of their content in their name: they never change.
_HASHED: Final = "assets/"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing from elsewhere, no script in the page itself, no text that becomes a script, no frame around it.
_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_SAFE: Final = MappingProxyType(
    {
        "content-security-policy": _POLICY,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
        "vary": "accept-encoding",
    }
)


@dataclass(frozen=True, slots=True)
class StaticFile:
    media_type: str
    plain: bytes
    packed: bytes
    headers: Mapping[str, str]


def static_file(path: str) -> StaticFile | None:
    """The file below `PREFIX`; for the address of a page, the page that draws it. None: there is no such file."""
    found = _files()
    if path in found:
        return found[path]
    # A page's address is no hashed file; the page looks at the address itself.
    return None if path.startswith(_HASHED) else found.get(_PAGE)


@cache
def _files() -> Mapping[str, StaticFile]:
    """Read at the first request: most servers are never asked."""
    found = {
        str(file.relative_to(STATIC)): _read(file)
        for file in sorted(STATIC.rglob("*"))
        if file.is_file() and file.suffix in _TYPES
    }
    return MappingProxyType(found)


def _read(file: Path) -> StaticFile:
    plain, is_hashed = file.read_bytes(), str(file.relative_to(STATIC)).startswith(_HASHED)
    kept = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
    return StaticFile(_TYPES[file.suffix], plain, gzip.compress(plain, 9, mtime=0), {**_SAFE, "cache-control": kept})
