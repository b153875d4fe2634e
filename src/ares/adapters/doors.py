"""Unix sockets in the directories of attempts (`ports.executor.Doors`)."""

import asyncio
import os
import socket
import struct
from typing import Final

_PEER: Final = struct.Struct("3i")
_WAITING_MAX: Final = 4


class UnixCaller:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.setblocking(False)
        shown = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        self.pid, self.uid, _ = _PEER.unpack(shown)

    async def read(self, size: int) -> bytes:
        loop, found = asyncio.get_running_loop(), bytearray()
        while len(found) < size:
            data = await loop.sock_recv(self._connection, size - len(found))
            if not data:
                raise EOFError("the job hung up")
            found += data
        return bytes(found)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._connection, data)

    def close(self) -> None:
        self._connection.close()


class UnixDoor:
    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening

    async def caller(self) -> UnixCaller:
        connection, _ = await asyncio.get_running_loop().sock_accept(self._listening)
        return UnixCaller(connection)

    def close(self) -> None:
        self._listening.close()


class UnixDoors:
    def open(self, folder: str, name: str) -> UnixDoor:
        """By way of the directory's descriptor: the name of a socket has at most 107 bytes."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            made.setblocking(False)
            made.bind(f"/proc/self/fd/{directory}/{name}")
            made.listen(_WAITING_MAX)
        except BaseException:
            made.close()
            raise
        finally:
            os.close(directory)
        return UnixDoor(made)
