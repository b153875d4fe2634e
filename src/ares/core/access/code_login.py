"""Logins in a browser by an identity provider: authorization code with PKCE (RFC 7636), all of it on the server.

One secret, which only the browser that began has, is all that is kept of a login: what the provider is sent follows
from it. So any replica ends what another began, and a login that is never ended leaves nothing behind.
"""

import base64
import hashlib
import hmac
import re
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from ares.model.access import Provider
from ares.model.base import Record

SECRET_BYTES: Final = 32
_TEXT: Final = re.compile(r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\.([A-Za-z0-9_-]{43})", re.ASCII)


class CodeLogin(Record, frozen=True):
    """A login that was begun: with whom, and the secret of it."""

    provider: str
    secret: str

    @property
    def text(self) -> str:
        return f"{self.provider}.{self.secret}"

    @property
    def state(self) -> str:
        """Ties the provider's answer to the browser that asked."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """Ties the provider's token to this login."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """Ties the code to this login: without it the provider gives nothing for the code."""
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        return _encoded(hashlib.sha256(self.verifier.encode()).digest())

    def answers(self, state: str) -> bool:
        return hmac.compare_digest(self.state.encode(), state.encode())

    def _derived(self, word: str) -> str:
        return _encoded(hashlib.sha256(f"ares-login {word} {self.text}".encode()).digest())


def read(text: str) -> CodeLogin | None:
    """As `CodeLogin.text` wrote it."""
    match = _TEXT.fullmatch(text)
    return None if match is None else CodeLogin(provider=match[1], secret=match[2])


def address(login: CodeLogin, provider: Provider, redirect_url: str) -> str:
    """Where the browser goes to log in."""
    asked = urlencode(
        {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": redirect_url,
            "scope": _scopes(provider),
            "state": login.state,
            "nonce": login.nonce,
            "code_challenge": login.challenge,
            "code_challenge_method": "S256",
        }
    )
    joint = "&" if urlsplit(provider.authorize_url).query else "?"
    return f"{provider.authorize_url}{joint}{asked}"


def is_for(login: CodeLogin, claims: dict[str, Any]) -> bool:
    """Whether a token was made for this login, and not taken from another one."""
    nonce = claims.get("nonce")
    return isinstance(nonce, str) and hmac.compare_digest(login.nonce.encode(), nonce.encode())


def _scopes(provider: Provider) -> str:
    """A session is not renewed by the provider: nothing is asked for that would."""
    return " ".join(scope for scope in provider.scopes.split() if scope != "offline_access")


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
