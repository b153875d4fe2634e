"""Runs the app on uvicorn inside the process's own event loop, with TLS or without."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Protocol, cast

import structlog
import uvicorn
from litestar import Litestar

from ares.core.net import is_loopback
from ares.edge.rest.api import ApiSettings
from ares.edge.rest.app import STREAMS
from ares.edge.rest.http.connections import Connections
from ares.edge.rest.http.streaming import Streams

log = structlog.get_logger()

# Pause when no open files are left: some are closed soon.
_ACCEPT_AGAIN_S = 0.5
# After so many, other tasks have their turn.
_ACCEPTED_AT_ONCE = 32


class ConnectionCounter(Protocol):
    """Where connections are counted."""

    def opened(self, address: str) -> Any:
        """Counts one more; not None when it is one too many."""
        ...

    def closed(self, address: str) -> None: ...


class AdmittedConnection(Protocol):
    """A connection's protocol. One that is `admitted` was counted before."""

    admitted: bool


class TlsListener:
    """Accepts until `close`. What `make` returns is given its connection after the handshake."""

    def __init__(
        self,
        listening: socket.socket,
        tls: ssl.SSLContext,
        counted: ConnectionCounter,
        make: Callable[[], AdmittedConnection],
        handshake_s: float,
    ) -> None:
        self._listening = listening
        self._tls = tls
        self._counted = counted
        self._make = make
        self._handshake_s = handshake_s
        self._shaking: set[asyncio.Task[None]] = set()
        self._closed = False
        listening.setblocking(False)
        self._listen()

    async def close(self) -> None:
        """Accepts no more, and ends connections that are still in their handshake."""
        if self._closed:
            return
        self._closed = True
        asyncio.get_running_loop().remove_reader(self._listening)
        ended = tuple(self._shaking)
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        self._listening.close()

    def _listen(self) -> None:
        if not self._closed:
            asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            for _ in range(_ACCEPTED_AT_ONCE):
                sock, peer = self._listening.accept()
                self._greet(sock, str(peer[0]))
        except BlockingIOError:
            return
        except OSError as error:
            log.warning("http.accept_failed", error=str(error))
            loop.remove_reader(self._listening)
            loop.call_later(_ACCEPT_AGAIN_S, self._listen)

    def _greet(self, sock: socket.socket, address: str) -> None:
        if self._counted.opened(address) is not None:
            # Before the handshake no answer can be sent.
            self._counted.closed(address)
            sock.close()
            return
        sock.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._shake(sock))
        self._shaking.add(task)
        task.add_done_callback(partial(self._shaken, sock, address))

    async def _shake(self, sock: socket.socket) -> None:
        protocol = self._make()
        protocol.admitted = True
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: cast("asyncio.Protocol", protocol), sock, ssl=self._tls, ssl_handshake_timeout=self._handshake_s
        )

    def _shaken(self, sock: socket.socket, address: str, task: asyncio.Task[None]) -> None:
        """A failed handshake is not counted any more. The protocol of a good one goes on to count it."""
        self._shaking.discard(task)
        if task.cancelled() or task.exception() is not None:
            self._counted.closed(address)
            sock.close()


_BACKLOG = 1024
_WEBSOCKET_BYTES_MAX = 64 * 1024


class BindRefused(Exception):
    """Listening there would put credentials on the network in the clear."""


class _Embedded(uvicorn.Server):
    """A server without signal handlers: they belong to the program that runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class HttpServer:
    """`start` returns when connections are accepted; `port` is then known."""

    def __init__(self, app: Litestar, settings: ApiSettings) -> None:
        self._app = app
        self._settings = settings
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._connections = Connections(settings.limits, settings.body_timeout_s, settings.send_timeout_s)
        self._watching: asyncio.Task[None] | None = None
        self._tls: TlsListener | None = None
        self.port = settings.port

    @property
    def url(self) -> str:
        scheme = "http" if self._settings.tls_cert is None else "https"
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"{scheme}://{host}:{self.port}"

    async def start(self) -> None:
        refuse_open_bind(self._settings)
        listening = _listen(self._settings.host, self._settings.port)
        self.port = listening.getsockname()[1]
        config = _config(self._app, self._settings, self._connections)
        server = self._server = _Embedded(config)
        # With TLS the library does not listen. It gets connections after their handshake.
        self._serving = asyncio.create_task(server.serve(sockets=[listening] if config.ssl is None else []))
        while not self._server.started:
            if self._serving.done():
                self._serving.result()
                raise RuntimeError(f"the HTTP server on {self.url} stopped while starting")
            await asyncio.sleep(0.005)
        if config.ssl is not None:
            self._tls = self._secured(listening, config.ssl, server)
        self._watching = asyncio.create_task(self._connections.run())

    def _secured(self, listening: socket.socket, tls: ssl.SSLContext, server: uvicorn.Server) -> TlsListener:
        config, http = server.config, self._connections.protocols()[0]

        def make() -> AdmittedConnection:
            return http(config=config, server_state=server.server_state, app_state=server.lifespan.state)

        return TlsListener(listening, tls, self._connections, make, self._settings.limits.head_s)

    async def stop(self) -> None:
        """Ends streams, lets requests finish for a while, and returns when everything is closed."""
        if self._server is None or self._serving is None:
            return
        streams: Streams = self._app.state[STREAMS]
        # Before the library hears of it, which closes sockets at once and with a code of its own. A client that
        # does not read takes half of the time at most: requests have the other half.
        await streams.close(self._settings.shutdown_s / 2)
        if self._tls is not None:
            await self._tls.close()
        self._server.should_exit = True
        await self._serving
        if self._watching is not None:
            self._watching.cancel()


def refuse_open_bind(settings: ApiSettings) -> None:
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise BindRefused("TLS needs both a certificate and a key: set http.tls_cert and http.tls_key")
    if settings.tls_cert is None and not is_loopback(settings.host):
        raise BindRefused(
            f"{settings.host} is reachable from outside: set http.tls_cert and http.tls_key, or bind 127.0.0.1"
        )


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    # With its protocol named, asyncio knows it is TCP and sends without delay (TCP_NODELAY).
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot listen on {host} port {port}: {error.strerror}") from None
    return listening


def _config(app: Litestar, settings: ApiSettings, connections: Connections) -> uvicorn.Config:
    http, ws = connections.protocols()
    config = uvicorn.Config(
        # What the framework does around it is for apps that are started and stopped by it.
        app.asgi_handler,
        http=http,
        ws=ws,
        lifespan="off",
        log_config=None,
        # Otherwise every bad request would be a line in the log.
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_s / 2)),
        ws_max_size=_WEBSOCKET_BYTES_MAX,
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        # A caller with a machine's certificate is told that it gives no access here.
        ssl_cert_reqs=ssl.CERT_NONE if settings.machines_ca is None else ssl.CERT_OPTIONAL,
        ssl_ca_certs=None if settings.machines_ca is None else str(settings.machines_ca),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=None if settings.tls_key is None else str(settings.tls_key),
    )
    config.load()
    return config
