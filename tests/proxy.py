"""A TCP proxy that can fall silent: how tests cut two processes off from each other."""

import contextlib
import select
import socket
import threading
from types import TracebackType
from typing import Self

_CHUNK = 64 * 1024
_LOOK_S = 0.05


class Proxy:
    """Carries bytes to `target`. While cut, connections stay open and nothing arrives, as behind a dead switch."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._through = threading.Event()
        self._through.set()
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_LOOK_S)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        self._through.clear()

    def heal(self) -> None:
        self._through.set()

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._through.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                near, _ = self._listener.accept()
                carrier = threading.Thread(target=self._carry, args=(near,), daemon=True)
                self._threads.append(carrier)
                carrier.start()

    def _carry(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            while not self._through.wait(_LOOK_S):
                if self._ended.is_set():
                    return
            with socket.create_connection(self._target) as far:
                other = {near: far, far: near}
                while not self._ended.is_set():
                    ready = select.select([near, far], [], [], _LOOK_S)[0] if self._through.wait(_LOOK_S) else []
                    for side in ready:
                        data = side.recv(_CHUNK)
                        # What was on its way when the cut came is held back too.
                        while not self._through.wait(_LOOK_S):
                            if self._ended.is_set():
                                return
                        if not data:
                            return
                        other[side].sendall(data)
