"""A catalogue of prices, in a file or behind an address."""

import asyncio
import http.client
import urllib.request
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from ares.core.net import is_loopback

_TIMEOUT_S: Final = 10.0
_BYTES_MAX: Final = 4 * 1024 * 1024


class _OnePlace(urllib.request.HTTPRedirectHandler):
    """The operator named one place."""

    def redirect_request(self, *args: Any, **named: Any) -> None:
        return None


class CatalogueFile:
    """`place` is a path, or an address that begins with https://."""

    def __init__(self, place: str) -> None:
        self.place = place

    async def read(self) -> bytes:
        return await asyncio.to_thread(self._read)

    def _read(self) -> bytes:
        found = self._fetched() if is_address(self.place) else _of_file(Path(self.place))
        if len(found) > _BYTES_MAX:
            raise OSError(f"it has more than {_BYTES_MAX >> 20} MiB")
        return found

    def _fetched(self) -> bytes:
        opener = urllib.request.build_opener(_OnePlace(), urllib.request.ProxyHandler({}))
        try:
            with opener.open(self.place, timeout=_TIMEOUT_S) as answer:
                return bytes(answer.read(_BYTES_MAX + 1))
        except http.client.HTTPException as error:
            raise OSError(repr(error)) from None


def _of_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_BYTES_MAX + 1)


def is_address(place: str) -> bool:
    return place.startswith(("https://", "http://"))


def flaw(place: str) -> str:
    """Why prices are not read from there; empty when they are."""
    parts = urlsplit(place)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        return f"{place} is not https: prices decide what is bought, and anybody on the way could write them"
    return ""
