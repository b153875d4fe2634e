"""Listening with TLS: connections are counted before their handshake, and given up when that takes too long.

The server of an event loop shows a connection only after its handshake: connections that never begin one would
take open files and memory without any limit."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

import structlog

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
