"""The client of a command. It lives for a call or two, so what it loads is most of what it costs.

Over plain HTTP without a proxy it speaks by a socket; TLS, proxies, logins to renew and streams are the whole client's.
"""

import os
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlencode, urlsplit

from ares.edge.client.addresses import Addresses
from ares.edge.client.calls.calls import Call, Reply, Request
from ares.edge.client.flows import Flows
from ares.edge.client.retry import Retry
from ares.edge.client.settings import Endpoint, discover
from ares.edge.client.steps import Broken, Flow, Pause, Send

if TYPE_CHECKING:
    from ares.edge.client.sync import Client

T = TypeVar("T")
TIMEOUT_S = 30.0
CONNECT_S = 5.0
_PIECE = 1 << 16
_NO_HTTP = "not an HTTP answer"
# No answer of a server is near this; a peer that sends without end must not fill the caller's memory.
ANSWER_BYTES_MAX = 256 * 1024 * 1024


class Sender(Protocol):
    """What sends calls."""

    def send(self, call: Call[T]) -> T: ...


class BriefClient:
    """Sends calls, each on a connection of its own."""

    def __init__(self, url: str | None, *, retry: Retry, tenant: str | None, break_glass: str | None) -> None:
        self.endpoint = discover(url, tenant=tenant, break_glass=break_glass)
        self._url, self._retry, self._tenant, self._break_glass = url, retry, tenant, break_glass
        self._flows = Flows(Addresses(self.endpoint.urls), self.endpoint.url_from, retry)
        self._whole: Client | None = None

    @property
    def whole(self) -> "Client":
        """The client that can do everything; loaded when first asked for."""
        if self._whole is None:
            from ares.edge.client.sync import Client

            self._whole = Client(
                self._url, retry=self._retry, tenant=self._tenant, break_glass=self._break_glass, timeout_s=TIMEOUT_S
            )
        return self._whole

    def close(self) -> None:
        if self._whole is not None:
            self._whole.close()

    def send(self, call: Call[T]) -> T:
        """The typed answer, or what went wrong as an exception."""
        if self._whole is None and direct(self.endpoint):
            return _run(self._flows.exchange(call), self.endpoint)
        return self.whole.send(call)


def direct(endpoint: Endpoint, env: Mapping[str, str] = os.environ) -> bool:
    """Whether a socket is enough: plain HTTP, no proxy on the way, and a token that stays as it is."""
    plain = all(url.startswith("http:") for url in endpoint.urls) and endpoint.login is None
    return plain and (endpoint.loopback or not any(name.lower().endswith("_proxy") for name in env))


def _run(flow: Flow[T], endpoint: Endpoint) -> T:
    answer: Any = None
    try:
        while True:
            match flow.send(answer):
                case Send(request, to):
                    answer = _ask(request, to, endpoint)
                case Pause(seconds):
                    answer = time.sleep(seconds)
                case step:
                    raise AssertionError(f"an exchange does not {step}")
    except StopIteration as end:
        return end.value


def _ask(request: Request, to: str, endpoint: Endpoint) -> Reply | Broken:
    url = urlsplit(to)
    try:
        # As bytes: for text the codec of international names would be loaded.
        name = url.hostname or ""
        host: Any = name.encode() if name.isascii() else name
        line = socket.create_connection((host, url.port or 80), CONNECT_S)
    except OSError as error:
        return Broken("connect", str(error) or type(error).__name__)
    with line:
        try:
            line.settimeout(TIMEOUT_S)
            line.sendall(_head(request, url.netloc.rpartition("@")[2], url.path, endpoint) + (request.body or b""))
            text = bytearray()
            while piece := line.recv(_PIECE):
                text += piece
                if len(text) > ANSWER_BYTES_MAX:
                    return Broken("sent", f"the answer is longer than {ANSWER_BYTES_MAX:,} bytes")
        except OSError as error:
            return Broken("sent", str(error) or type(error).__name__)
    try:
        return _reply(bytes(text))
    except ValueError:
        return Broken("sent", _NO_HTTP)


def _head(request: Request, host: str, prefix: str, endpoint: Endpoint) -> bytes:
    target = prefix + request.path + (f"?{urlencode(request.params)}" if request.params else "")
    headers = {
        "host": host, "authorization": f"Bearer {endpoint.token}", "connection": "close", **endpoint.headers,
        **({} if request.body is None else {"content-length": str(len(request.body))}), **dict(request.headers),
    }  # fmt: skip
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join((*lines, "", "")).encode()


def _reply(text: bytes) -> Reply | Broken:
    head, ended, body = text.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if not ended or len(words) < 2 or not words[1].isdecimal():
        return Broken("sent", "Server disconnected without sending a response." if not text else _NO_HTTP)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    whole = _joined(body) if headers.get("transfer-encoding", "").lower() == "chunked" else body
    if whole is None or len(whole) < int(headers.get("content-length", 0)):
        return Broken("sent", "the connection was closed within the answer")
    return Reply(int(words[1]), headers, whole)


def _joined(body: bytes) -> bytes | None:
    """The chunks of a body as one; None when the last is missing."""
    found, at = bytearray(), 0
    while (end := body.find(b"\r\n", at)) >= 0:
        size = int(body[at:end].partition(b";")[0], 16)
        if size == 0:
            return bytes(found)
        found += body[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
    return None
