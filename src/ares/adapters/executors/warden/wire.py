"""The protocol between the agent and its slots. Standard library only, like everything in this folder.

agent -> slot   L launch (marshal) · S signal number · T the same, for those with a handler · D new deadline · K kill
                N new session (marshal), with its keeper's socket and the command's stdin, stdout and stderr
slot -> agent   R ready · S started · E error text · B error text, and it ends · X expired before the start
                F finished · Q started and finished
keeper -> agent S started, with the terminal or the connection · E error text · F ended, with its exit code
agent -> keeper nothing: when the agent closes the socket, the session ends

The sender's pid travels as socket credentials, so the kernel translates it out of the namespace.
"""

import mmap
import socket
import struct
from typing import Final

FINISHED: Final = struct.Struct("<cibbbbqd")  # tag, wait status, oom, crowded, expired, retire, KiB, CPU seconds
DEADLINE: Final = struct.Struct("<cd")
CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid
EXIT: Final = struct.Struct("<ci")  # tag, exit code
FILES_MAX: Final = 4
MESSAGE_BYTES_MAX: Final = 1 << 20


def receive(sock: socket.socket, into: mmap.mmap | None = None) -> bytes:
    """The next message, empty when the other side is gone, also when it died with our messages unread. `into`: room for
    the largest message, which is otherwise taken from the system and given back each time."""
    try:
        if into is None:
            return sock.recv(MESSAGE_BYTES_MAX)
        return bytes(memoryview(into)[: sock.recv_into(into)])
    except ConnectionResetError:
        return b""


def receive_files(sock: socket.socket) -> tuple[bytes, list[int]]:
    """The same, with the files that came with it."""
    try:
        data, files, _, _ = socket.recv_fds(sock, MESSAGE_BYTES_MAX, FILES_MAX, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return b"", []
    return data, files
