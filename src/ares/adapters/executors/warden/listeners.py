"""Which process listens on a port. A session connects to a port only if processes of its own attempt listen there:
on a shared network the port may be the agent's, or another job's."""

import contextlib
import os
import socket
from collections.abc import Generator
from typing import Final, NamedTuple

from ares.adapters.executors.warden import kernel

_LISTENING: Final = "0A"
# Addresses as the kernel writes them, and the one to connect to. The first that is listened on is taken.
_ADDRESSES: Final = {
    "0100007F": (socket.AF_INET, "127.0.0.1"),
    # The same as an address of IPv6.
    "0000000000000000FFFF00000100007F": (socket.AF_INET, "127.0.0.1"),
    "00000000": (socket.AF_INET, "127.0.0.1"),
    "0000000000000000FFFF000000000000": (socket.AF_INET, "127.0.0.1"),
    "00000000000000000000000001000000": (socket.AF_INET6, "::1"),
    "0" * 32: (socket.AF_INET6, "::1"),
}


class PortListener(NamedTuple):
    address: str
    inode: int


@contextlib.contextmanager
def connected(port: int, slot: int, timeout_s: float) -> Generator[socket.socket, None, None]:
    """A connection to what the attempt listens with. Raises ValueError or OSError that says why there is none."""
    before = _own(port, slot)
    family, address = _ADDRESSES[before[0].address]
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout_s)
        try:
            sock.connect((address, port))
        except OSError as error:
            raise ValueError(f"cannot connect to port {port} of the job: {error.strerror or error}") from None
        # The listener may have changed in between, and the connection be another's.
        if _own(port, slot) != before:
            raise ValueError(f"what listens on port {port} changed just now; try again")
        sock.settimeout(None)
        yield sock


def _own(port: int, slot: int) -> list[PortListener]:
    """The listeners on the port, all of them the attempt's own."""
    if not sees_itself():
        raise ValueError(f"this node cannot tell whether port {port} is the job's own, so it is not forwarded")
    found = _listening(port)
    if not found:
        raise ValueError(f"no process of the job listens on port {port} of 127.0.0.1, ::1 or every address")
    held = _sockets(slot)
    if any(listener.inode not in held for listener in found):
        raise ValueError(f"port {port} belongs to another program of this machine, not to the job")
    return found


def sees_itself() -> bool:
    """Whether /proc shows processes by the numbers that they have here."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def _listening(port: int) -> list[PortListener]:
    """Every listener that could take a connection to the port of this machine itself."""
    found = list[PortListener]()
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/self/net/{name}") as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            address, _, at = fields[1].partition(":")
            if fields[3] == _LISTENING and int(at, 16) == port and address in _ADDRESSES:
                found.append(PortListener(address, int(fields[9])))
    return sorted(found, key=lambda listener: list(_ADDRESSES).index(listener.address))


def _sockets(slot: int) -> set[int]:
    """Inodes of the sockets that processes below the slot have open."""
    found = set[int]()
    for pid in kernel.descendants(slot):
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    kind, _, inode = os.readlink(entry.path).partition(":[")
                    if kind == "socket":
                        found.add(int(inode[:-1]))
    return found
