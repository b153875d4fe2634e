"""The server and the credential: from arguments, then the environment, then login.json, then client.json.

The command line reads this at every call, so it loads little; records of msgspec take less than dataclasses to make.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from ares.edge.client.errors import NotConfigured

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# What a server leaves for clients on its machine, and what `ares login` left.
CLIENT_FILE = "client.json"
LOGIN_FILE = "login.json"


class Login(Struct, frozen=True):
    """How a login is renewed when its token has ended."""

    path: Path
    token_url: str
    client_id: str
    send: str
    refresh_token: str
    expires_at: float = 0.0

    def __repr__(self) -> str:
        """Without the token."""
        return f"Login(path={self.path!r}, token_url={self.token_url!r}, client_id={self.client_id!r})"


class Endpoint(Struct, frozen=True):
    """A server, by the addresses of its replicas, and a credential, each with where it was found."""

    urls: tuple[str, ...]
    url_from: str
    token: str
    token_from: str
    # Whose delegate to be, and why its contents are looked at: for roles that may.
    tenant: str = ""
    break_glass: str = ""
    login: Login | None = None

    def __repr__(self) -> str:
        """Without the token."""
        return f"Endpoint(urls={self.urls!r}, url_from={self.url_from!r}, token_from={self.token_from!r})"

    @property
    def url(self) -> str:
        """The first address."""
        return self.urls[0]

    @property
    def headers(self) -> dict[str, str]:
        """What every request says: which program asks, in whose name, and why."""
        from ares import __version__

        said = {
            "user-agent": f"ares/{__version__}",
            "x-ares-tenant": self.tenant,
            "x-ares-break-glass": self.break_glass,
        }
        return {name: value for name, value in said.items() if value}

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


def discover(
    url: str | None = None,
    token: str | None = None,
    env: Mapping[str, str] = os.environ,
    *,
    tenant: str | None = None,
    break_glass: str | None = None,
) -> Endpoint:
    """Finds every value, each from the first place that has it."""
    urls, url_from = addresses(url, env)
    paths = [home(env) / LOGIN_FILE, home(env) / CLIENT_FILE]
    saved = {str(path): read_file(path) for path in paths}
    # A saved token belongs to the addresses it was saved with: it is never shown to another one.
    own = [(_own_token(values, path, urls), path) for path, values in saved.items()]
    found_token, token_from = _first((token, "argument"), (env.get("ARES_TOKEN"), "ARES_TOKEN"), _token_file(env), *own)
    if not found_token:
        raise NotConfigured(
            f"no token for {', '.join(urls)} (from {url_from})",
            fix="`ares login`, or set ARES_TOKEN or ARES_TOKEN_FILE to a token of that server",
        )
    if not found_token.isascii() or not found_token.isprintable() or " " in found_token:
        raise NotConfigured(f"the token from {token_from} has characters no token has", fix="copy the token again")
    acting, _ = _first((tenant, "argument"), (env.get("ARES_TENANT"), "ARES_TENANT"))
    glass, _ = _first((break_glass, "argument"), (env.get("ARES_BREAK_GLASS"), "ARES_BREAK_GLASS"))
    login = saved_login(paths[0], saved[str(paths[0])]) if token_from == str(paths[0]) else None
    return Endpoint(urls, url_from, found_token, token_from, _header(acting), _header(glass), login)


def addresses(url: str | None = None, env: Mapping[str, str] = os.environ) -> tuple[tuple[str, ...], str]:
    """The server's addresses, and where they were found."""
    login, client = home(env) / LOGIN_FILE, home(env) / CLIENT_FILE
    found, url_from = _first(
        (url, "argument"),
        (env.get("ARES_URL"), "ARES_URL"),
        *((read_file(path).get("url"), str(path)) for path in (login, client)),
    )
    if not found:
        raise NotConfigured(f"no URL is given, ARES_URL is not set and {client} does not exist")
    return _addresses(found, url_from), url_from


def _own_token(saved: Mapping[str, str], path: str, urls: tuple[str, ...]) -> str | None:
    known = _addresses(saved["url"], path) if saved.get("url") else ()
    return saved.get("token") if set(urls) <= set(known) else None


def saved_login(path: Path, saved: Mapping[str, str]) -> Login | None:
    """How it is renewed, if it can be."""
    if not saved.get("refreshToken") or not saved.get("tokenUrl"):
        return None
    until = saved.get("expiresAt", "")
    return Login(
        path=path,
        token_url=saved["tokenUrl"],
        client_id=saved.get("clientId", ""),
        send=saved.get("send", "id_token"),
        refresh_token=saved["refreshToken"],
        expires_at=float(until) if until.replace(".", "", 1).isdecimal() else 0.0,
    )


def _header(text: str) -> str:
    """As a header can have it."""
    if not text.isprintable():
        raise NotConfigured(f"{text!r} has characters that cannot be sent", fix="write it in one line")
    return text


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


def read_file(path: Path) -> dict[str, str]:
    """What is saved there, empty when nothing is. A file that others may read is refused."""
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
        raise NotConfigured(
            f"{path} is not JSON", fix=f"remove {path} and run `ares up` or `ares login` again"
        ) from error
    pairs = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {key: item for key, item in pairs.items() if isinstance(item, str)}
