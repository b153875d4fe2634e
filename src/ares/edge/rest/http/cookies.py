"""The cookie of a browser's session, and whether a request that carries it comes from our own pages."""

from typing import Any, Final, cast
from urllib.parse import urlsplit

from litestar.types import Scope

from ares.edge.rest.http.wire import header

# Sent by our pages with every change. A page of another origin cannot send it without being asked for first.
SESSION_HEADER: Final = b"x-ares-session"
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def session_cookie(scope: Scope) -> str:
    """The text of the session, empty without one."""
    return _cookie(scope, _name(scope))


def _cookie(scope: Scope, name: str) -> str:
    for part in (header(scope, b"cookie") or "").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return ""


def keep_session(scope: Scope, text: str, lasts_s: float) -> str:
    """The header that gives a browser its cookie; with an empty text, the one that takes it away."""
    secure = "; Secure" if _is_tls(scope) else ""
    age = max(0, int(lasts_s)) if text else 0
    return f"{_name(scope)}={text}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"


# A login by an identity provider is ended within this time.
LOGIN_S: Final = 600


def login_cookie(scope: Scope) -> str:
    """What this browser keeps of a login that it began, empty without one."""
    return _cookie(scope, f"{_name(scope)}-login")


def keep_login(scope: Scope, text: str) -> str:
    secure = "; Secure" if _is_tls(scope) else ""
    return f"{_name(scope)}-login={text}; Path=/; Max-Age={LOGIN_S}; HttpOnly; SameSite=Strict{secure}"


def own_origin(scope: Scope) -> str:
    """How the browser calls this server: a name that this server answers to."""
    return f"{'https' if _is_tls(scope) else 'http'}://{(header(scope, b'host') or '').lower()}"


def from_own_page(scope: Scope) -> bool:
    """Whether a request with the cookie was made by a page of this server. SameSite keeps other sites out; this also
    keeps out other ports of the same host, and browsers that know no SameSite."""
    is_safe = scope["type"] == "http" and scope["method"] in _SAFE_METHODS
    site = header(scope, b"sec-fetch-site")
    if site is not None and site != "same-origin" and not (is_safe and site == "none"):
        return False
    origin = header(scope, b"origin")
    if origin is not None and _place_of(origin) != (header(scope, b"host") or "").lower():
        return False
    if scope["type"] == "websocket":
        # A browser always says where a socket comes from, and can say no more.
        return origin is not None
    return is_safe or header(scope, SESSION_HEADER) is not None


def _place_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_tls(scope: Scope) -> bool:
    return str(cast("Any", scope).get("scheme", "")) in ("https", "wss")


def _name(scope: Scope) -> str:
    """Cookies do not know ports: two servers on one host must not take each other's."""
    if _is_tls(scope):
        return "__Host-ares"
    port = (header(scope, b"host") or "").rpartition(":")[2]
    return f"ares-{port}" if port.isdecimal() else "ares"
