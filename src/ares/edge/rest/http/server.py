"""Runs the app on uvicorn inside the process's own event loop."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Generator

import uvicorn
from litestar import Litestar

from ares.core.net.addresses import is_loopback
from ares.edge.rest.api import ApiSettings
from ares.edge.rest.app import STREAMS
from ares.edge.rest.http.connections import Connections
from ares.edge.rest.http.handshakes import AdmittedConnection, TlsListener
from ares.edge.rest.http.streaming import Streams

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
        streams.close()
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
        app,
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
        timeout_graceful_shutdown=max(1, round(settings.shutdown_s)),
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
