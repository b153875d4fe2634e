"""A registry by its HTTP interface (the OCI distribution specification), as a reader with or without an account.

What a job names decides where the agent connects, so every address is judged before: those of the open internet may be
asked, over TLS; others only where the operator names the registry. Digests are compared by the caller. An account is
shown when the registry asks for one, to it or to where it says tokens are given, and to no place it redirects to.
"""

import copy
import http.client
import json
import re
import socket
import ssl
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urljoin

from ares.core.image.layout import DOCUMENT_BYTES_MAX, MANIFEST_TYPES
from ares.core.net import Target, judged, target_of
from ares.model.secret import RegistryAccount
from ares.ports.link import RegistryBarred, RegistryRefused, RegistryUnreachable

_HUB: Final = {"docker.io": "registry-1.docker.io"}
_TIMEOUT_S: Final = 30.0
_PIECE: Final = 1 << 20
_REDIRECTS_MAX: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_TOKEN_BYTES_MAX: Final = 64 << 10
_CHALLENGE: Final = re.compile(r'([a-z]+)="([^"]*)"')
# Answers that may be different in a moment.
_LATER: Final = frozenset({408, 429, 500, 502, 503, 504})
_UNKNOWN: Final = (401, 403, 404)
_ACCOUNT_FIX: Final = "name an account with --secret NAME:registry={0}"


class HttpRegistry:
    """`allow`: registries the operator names, such as "registry.lab:5000", or "http://10.0.0.5:5000" for one without
    TLS; "*" is any on the open internet."""

    def __init__(self, allow: tuple[str, ...]) -> None:
        self._plain = frozenset(
            entry.removeprefix("http://").rstrip("/") for entry in allow if entry.startswith("http:")
        )
        self._named = self._plain | {entry.removeprefix("https://").rstrip("/") for entry in allow}
        self._only = "*" not in allow
        self._tls = ssl.create_default_context()
        self._account: RegistryAccount | None = None

    def signed_in(self, account: RegistryAccount) -> "HttpRegistry":
        reader = copy.copy(self)
        reader._account = account
        return reader

    def manifest(self, host: str, name: str, version: str) -> bytes:
        path = f"/v2/{name}/manifests/{version}"
        with self._asked(host, name, path, {"Accept": ", ".join(MANIFEST_TYPES)}) as answer:
            raw = answer.read(DOCUMENT_BYTES_MAX + 1)
        if len(raw) > DOCUMENT_BYTES_MAX:
            raise RegistryRefused(f"its manifest takes more than {DOCUMENT_BYTES_MAX:,} bytes")
        return raw

    def save(self, host: str, name: str, digest: str, size: int, path: Path, came: Callable[[int], bool]) -> None:
        left = size
        with self._asked(host, name, f"/v2/{name}/blobs/{digest}", {}) as answer, path.open("xb") as file:
            while data := answer.read(min(_PIECE, left + 1)):
                left -= len(data)
                if not came(len(data)):
                    raise RegistryUnreachable("the attempt was told to end")
                if left < 0:
                    raise RegistryRefused(f"blob {digest} has more than the {size:,} bytes it should have")
                file.write(data)
        if left:
            raise RegistryUnreachable(f"blob {digest} ended {left:,} bytes too soon")

    # ---- one request

    @contextmanager
    def _asked(
        self, host: str, name: str, path: str, headers: Mapping[str, str]
    ) -> Generator[http.client.HTTPResponse]:
        if self._only and host not in self._named:
            named = ", ".join(sorted(self._named)) or "none"
            raise RegistryBarred(f"the node asks only these registries: {named} (node.images.registries)")
        scheme = "http" if host in self._plain else "https"
        url = f"{scheme}://{_HUB.get(host, host)}{path}"
        try:
            connection, answer = self._followed(url, headers, host)
            if answer.status == http.client.UNAUTHORIZED:
                challenge = answer.headers.get("WWW-Authenticate", "")
                _close(connection, answer)
                allowed = {**headers, "Authorization": self._authorization(challenge, name, host)}
                connection, answer = self._followed(url, allowed, host)
            try:
                self._judge(answer.status, host, name)
                yield answer
            finally:
                _close(connection, answer)
        except (OSError, http.client.HTTPException) as error:
            raise RegistryUnreachable(f"{host} does not answer: {error or type(error).__name__}") from None

    def _followed(
        self, url: str, headers: Mapping[str, str], host: str
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        sent = {"User-Agent": "ares", **headers}
        for _ in range(_REDIRECTS_MAX):
            connection, answer = self._request(url, sent, host)
            place = answer.headers.get("Location", "")
            if answer.status not in _REDIRECTS or not place:
                return connection, answer
            _close(connection, answer)
            before, url = url, urljoin(url, place)
            if _authority(url) != _authority(before):
                # A registry may send a reader to where it keeps its blobs, with no claim on the reader's token.
                sent.pop("Authorization", None)
        raise RegistryRefused(f"{host} sends from one address to the next")

    def _request(
        self, url: str, headers: Mapping[str, str], host: str
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        target = target_of(url)
        if isinstance(target, str):
            raise RegistryRefused(f"{host} cannot be asked: {target}")
        if target.scheme == "http" and target.authority not in self._plain:
            raise RegistryBarred(f"{target.authority} is to be asked without TLS, which the operator does not allow")
        connection = self._connection(target)
        connection.request("GET", target.path, headers=dict(headers))
        return connection, connection.getresponse()

    def _connection(self, target: Target) -> http.client.HTTPConnection:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        named = target.authority in self._named or target.host in self._named
        try:
            judged(target.host, addresses, (target.host,) if named else ())
        except ValueError as error:
            raise RegistryBarred(f"{error}; the operator may name the registry in node.images.registries") from None
        # By the address that was judged: the name may lead elsewhere by now.
        sock = socket.create_connection((addresses[0], target.port), _TIMEOUT_S)
        if target.scheme == "https":
            try:
                sock = self._tls.wrap_socket(sock, server_hostname=target.host)
            except BaseException:
                sock.close()
                raise
        connection = http.client.HTTPConnection(target.host, target.port, timeout=_TIMEOUT_S)
        connection.sock = sock
        return connection

    def _authorization(self, challenge: str, name: str, host: str) -> str:
        """What the registry is shown in answer to its challenge."""
        scheme = challenge.partition(" ")[0].lower()
        said = dict(_CHALLENGE.findall(challenge))
        if scheme == "bearer" and "realm" in said:
            return f"Bearer {self._token(said, name, host)}"
        if self._account is None:
            raise RegistryRefused(f"{host} gives {name} to no reader without an account: {_ACCOUNT_FIX.format(host)}")
        if scheme != "basic":
            raise RegistryRefused(f"{host} asks for {scheme[:40]!r}, which is no way to sign in that is known here")
        return self._account.basic

    def _token(self, said: Mapping[str, str], name: str, host: str) -> str:
        """Where a registry wants a token of every reader: what this one gets, by the account if it has one."""
        asked = {key: said[key] for key in ("service",) if key in said} | {"scope": f"repository:{name}:pull"}
        shown = {} if self._account is None else {"Authorization": self._account.basic}
        connection, answer = self._followed(f"{said['realm']}?{urlencode(asked)}", shown, host)
        try:
            self._judge(answer.status, host, name)
            token = json.loads(answer.read(_TOKEN_BYTES_MAX))
            return str(token.get("token") or token["access_token"])
        except (ValueError, KeyError, AttributeError):
            raise RegistryRefused(f"{host} gives no token for {name}") from None
        finally:
            _close(connection, answer)

    def _judge(self, status: int, host: str, name: str) -> None:
        if status == http.client.OK:
            return
        if status in _LATER:
            raise RegistryUnreachable(f"{host} answers {status}")
        if status not in _UNKNOWN:
            why, fix = "refuses", ""
        elif self._account is None:
            why, fix = "has no such image, or does not give it to readers without an account", _ACCOUNT_FIX.format(host)
        elif status == http.client.UNAUTHORIZED:
            why, fix = "does not take the account", "set the secret anew, or have a look at it where you signed in"
        else:
            why, fix = "has no such image, or does not give it to this account", ""
        raise RegistryRefused(f"{host} {why}: it answers {status} for {name}" + (f"; {fix}" if fix else ""))


def _close(connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
    """Both: the socket is the answer's alone where the server will close it."""
    answer.close()
    connection.close()


def _authority(url: str) -> str:
    target = target_of(url)
    return target if isinstance(target, str) else target.authority
