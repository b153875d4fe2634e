"""The protocol between the agent and its slots. Standard library only, like everything in this folder.

agent -> slot   L launch (marshal) · S signal number · D new deadline · K kill
slot -> agent   R ready · S started · E error text · B error text, and it ends · X expired before the start
                F finished · Q started and finished

The sender's pid travels as socket credentials, so the kernel translates it out of the namespace.
"""

import socket
import struct
from typing import Final

FINISHED: Final = struct.Struct("<cibbbbqd")  # tag, wait status, oom, crowded, expired, retire, KiB, CPU seconds
DEADLINE: Final = struct.Struct("<cd")
CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid
MESSAGE_BYTES_MAX: Final = 1 << 20


def receive(sock: socket.socket) -> bytes:
    """The next message, empty when the other side is gone, also when it died with our messages unread."""
    try:
        return sock.recv(MESSAGE_BYTES_MAX)
    except ConnectionResetError:
        return b""
