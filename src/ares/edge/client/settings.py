"""Which server to talk to, and as whom: arguments, then the environment, then client.json.

Standard library only: the command line reads this before anything heavy is loaded.
"""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from ares.edge.client.errors import NotConfigured

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
CLIENT_FILE = "client.json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, by the addresses of its replicas, and a credential, each with where it was found."""

    urls: tuple[str, ...]
    url_from: str
    token: str = field(repr=False)
    token_from: str

    @property
    def url(self) -> str:
        """The first address."""
        return self.urls[0]

    @property
    def shown(self) -> str:
        """The addresses as a person reads them."""
        return ", ".join(self.urls)

    @property
    def loopback(self) -> bool:
        """Whether all of it is on this machine."""
        return all(_host(url) in LOOPBACK for url in self.urls)

    @property
    def loopback_hosts(self) -> frozenset[str]:
        """The hosts that are this machine, as a URL has them."""
        own = {_host(url) for url in self.urls} & LOOPBACK
        return frozenset(f"[{host}]" if ":" in host else host for host in own)


def home(env: Mapping[str, str] = os.environ) -> Path:
    """The directory for Ares' own files of this user."""
    return Path(env.get("ARES_HOME") or Path.home() / ".ares")


def discover(url: str | None = None, token: str | None = None, env: Mapping[str, str] = os.environ) -> Endpoint:
    """Finds both values, each from the first place that has it."""
    path = home(env) / CLIENT_FILE
    saved = _read_client_file(path)
    found_url, url_from = _first((url, "argument"), (env.get("ARES_URL"), "ARES_URL"), (saved.get("url"), str(path)))
    if not found_url:
        raise NotConfigured(f"no URL is given, ARES_URL is not set and {path} does not exist")
    urls = _addresses(found_url, url_from)
    # The saved token belongs to the saved addresses: it is never shown to another one.
    known = _addresses(saved["url"], str(path)) if saved.get("url") else ()
    own = saved.get("token") if set(urls) <= set(known) else None
    found_token, token_from = _first(
        (token, "argument"), (env.get("ARES_TOKEN"), "ARES_TOKEN"), _token_file(env), (own, str(path))
    )
    if not found_token:
        raise NotConfigured(
            f"no token for {', '.join(urls)} (from {url_from})",
            fix="set ARES_TOKEN or ARES_TOKEN_FILE to a token of that server",
        )
    if not found_token.isascii() or not found_token.isprintable() or " " in found_token:
        raise NotConfigured(f"the token from {token_from} has characters no token has", fix="copy the token again")
    return Endpoint(urls, url_from, found_token, token_from)


def _first(*candidates: tuple[str | None, str]) -> tuple[str, str]:
    return next(((value.strip(), origin) for value, origin in candidates if value and value.strip()), ("", ""))


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _addresses(text: str, origin: str) -> tuple[str, ...]:
    """One URL, or several separated by commas."""
    parts = [part.strip() for part in text.split(",") if part.strip()] or [text]
    return tuple(dict.fromkeys(_check_url(part, origin) for part in parts))


def _check_url(url: str, origin: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise NotConfigured(
            f"{url!r} from {origin} is not an http:// or https:// URL", fix="write it as https://host:port"
        )
    return url.rstrip("/")


def _token_file(env: Mapping[str, str]) -> tuple[str | None, str]:
    name = env.get("ARES_TOKEN_FILE")
    if not name:
        return None, ""
    try:
        return Path(name).read_text(encoding="utf-8"), f"ARES_TOKEN_FILE {name}"
    except (OSError, UnicodeError) as error:
        raise NotConfigured(f"ARES_TOKEN_FILE {name} cannot be read: {error}", fix="correct ARES_TOKEN_FILE") from error


def _read_client_file(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise NotConfigured(f"{path} cannot be read: {error.strerror}", fix=f"make {path} readable for you") from error
    if mode & 0o077:
        raise NotConfigured(f"{path} holds a token and others may read it", fix=f"chmod 600 {path}")
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise NotConfigured(f"{path} is not JSON", fix=f"remove {path} and run `ares up` again") from error
    pairs = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {key: item for key, item in pairs.items() if isinstance(item, str)}
