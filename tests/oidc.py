"""A small OpenID Connect provider on loopback, with keys of its own: JWKS, logins of devices and browsers, refresh, all
over HTTP."""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
import warnings
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey

from ares.model.access import Provider

Key = RSAKey | ECKey | OKPKey
_EVERY = ["RS256", "ES256", "EdDSA", "PS256"]


class Idp:
    """`pending` are the answers that a device gets before somebody agrees."""

    def __init__(self) -> None:
        self.keys: dict[str, Key] = {
            "rsa": RSAKey.generate_key(2048, {"kid": "rsa"}, private=True),
            "ec": ECKey.generate_key("P-256", {"kid": "ec"}, private=True),
            "ed": OKPKey.generate_key("Ed25519", {"kid": "ed"}, private=True),
        }
        self.asked: Counter[str] = Counter()
        self.up = True
        self.pending: list[str] = []
        self.subject = "alice-sub"
        self.lasts_s = 300.0
        self.refresh_tokens: set[str] = set()
        # What browsers asked for, by the code that each got. A person who declines gets none.
        self.codes: dict[str, dict[str, str]] = {}
        self.agrees = True
        # Claims that are not as they should be.
        self.lies: dict[str, Any] = {}
        idp = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                idp.asked[self.path.partition("?")[0]] += 1
                if self.path.startswith("/authorize?"):
                    self.send_response(303)
                    self.send_header("location", idp.agreed(_form(urlsplit(self.path).query)))
                    self.end_headers()
                    return
                public = [key.as_dict(private=False) for key in idp.keys.values()]
                self._say(200 if idp.up else 503, {"keys": public} if self.path == "/keys" else {})

            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                form = _form(self.rfile.read(size).decode())
                idp.asked[self.path] += 1
                self._say(*idp.answer(self.path, form))

            def _say(self, status: int, body: Any) -> None:
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def provider(self) -> Provider:
        return Provider(
            name="corp",
            issuer=self.url,
            audience="ares",
            jwks_url=f"{self.url}/keys",
            client_id="ares-cli",
            device_url=f"{self.url}/device",
            token_url=f"{self.url}/token",
            authorize_url=f"{self.url}/authorize",
        )

    def identity(self, subject: str = "alice-sub") -> str:
        return f"{self.url} {subject}"

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = time.time()
        known = {"iss": self.url, "aud": "ares", "sub": self.subject, "iat": now, "exp": now + self.lasts_s}
        return {key: value for key, value in {**known, **changes}.items() if value is not None}

    def token(
        self, key: str = "rsa", alg: str = "RS256", header: dict[str, Any] | None = None, **claims: Any
    ) -> str:  # fmt: skip
        return sign(self.keys[key], {"alg": alg, "kid": key, **(header or {})}, self.claims(**claims))

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, Any]:
        if path == "/device":
            uri = {"verification_uri": f"{self.url}/agree", "verification_uri_complete": f"{self.url}/agree?c=WXYZ"}
            return 200, {"device_code": "dev", "user_code": "WX-YZ", **uri, "expires_in": 600, "interval": 0}
        if not self.up:
            return 503, {}
        if form["grant_type"] == "authorization_code":
            return self._redeemed(form)
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.refresh_tokens:
                return 400, {"error": "invalid_grant"}
            self.refresh_tokens.remove(form["refresh_token"])
        elif form.get("device_code") != "dev" or form.get("client_id") != "ares-cli":
            return 400, {"error": "invalid_request"}
        elif self.pending:
            return 400, {"error": self.pending.pop(0)}
        self.refresh_tokens.add(refresh := secrets.token_hex(8))
        # No two alike, as a real one's differ by their times.
        token = self.token(jti=secrets.token_hex(4))
        return 200, {
            "id_token": token, "access_token": "opaque", "refresh_token": refresh, "expires_in": self.lasts_s,
        }  # fmt: skip

    def agreed(self, asked: dict[str, str]) -> str:
        """Where the browser of a person who is asked goes next."""
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        if not self.agrees:
            given = {"error": "access_denied", "error_description": "not today"}
        else:
            self.codes[code := secrets.token_hex(8)] = asked
            given = {"code": code}
        return f"{asked['redirect_uri']}?{urlencode({**given, 'state': asked['state']})}"

    def _redeemed(self, form: dict[str, str]) -> tuple[int, Any]:
        """Once, and only for the one who asked."""
        asked = self.codes.pop(form["code"], {})
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        named = (asked.get("code_challenge"), asked.get("client_id"), asked.get("redirect_uri"))
        if named != (_text(digest), form["client_id"], form["redirect_uri"]):
            return 400, {"error": "invalid_grant"}
        claims: dict[str, Any] = {"nonce": asked["nonce"], **self.lies}
        return 200, {"id_token": self.token(**claims), "access_token": "opaque", "token_type": "Bearer"}


@contextmanager
def running() -> Generator[Idp]:
    idp = Idp()
    try:
        yield idp
    finally:
        idp.close()


def sign(key: Key, header: dict[str, Any], claims: dict[str, Any]) -> str:
    """Whatever the header says is said, also what no honest provider would."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)
        return jws.serialize_compact(header, json.dumps(claims).encode(), key, algorithms=_EVERY, registry=_LAX)


def unsigned(claims: dict[str, Any], header: dict[str, Any] | None = None) -> str:
    parts = (json.dumps(header or {"alg": "none", "typ": "JWT"}), json.dumps(claims))
    return ".".join([*(_text(part.encode()) for part in parts), ""])


def by_shared_secret(secret: bytes, header: dict[str, Any], claims: dict[str, Any]) -> str:
    """As libraries that take any key for a shared secret would accept it."""
    text = unsigned(claims, {**header, "alg": "HS256"})
    return text + _text(hmac.digest(secret, text.rstrip(".").encode(), "sha256"))


def _form(text: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(text).items()}


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


# Lets headers through that are not registered.
_LAX = jws.JWSRegistry(algorithms=_EVERY, strict_check_header=False)
