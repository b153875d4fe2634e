"""Ports that stay with the process that chose them: from the choice until its server has bound them, and after.

The kernel gives ports for outgoing connections and for `bind(0)` from its ephemeral range; those below are only taken
on purpose. They are shared out in blocks: a process that wants one binds an abstract socket of the block's name, which
no other process can bind while it lives and which ends with it, also by SIGKILL. No process hands a port out twice.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from itertools import islice

# Below Linux's ephemeral range (from 32,768), below the ports where gangs meet (from 29,400), above well-known servers.
FIRST, LAST = 12_000, 29_000
BLOCK = 50

_held: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, and nobody else will be given while this process lives."""
    return list(islice(_ports, count))


def _begin_anew() -> None:
    """In a fork, which is a process of its own: what it was given before is its parent's."""
    global _ports  # noqa: PLW0603 - one for each process
    _held.clear()
    _ports = _hand_out()


def _hand_out() -> Iterator[int]:
    for first in range(FIRST, LAST, BLOCK):
        if (holder := _hold(first)) is not None:
            _held.append(holder)
            yield from (port for port in range(first, first + BLOCK) if _unused(port))
    raise RuntimeError(f"all {(LAST - FIRST) // BLOCK} blocks of ports from {FIRST} to {LAST} are held by other tests")


def _hold(first: int) -> socket.socket | None:
    holder = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError):
        holder.bind(f"\0ares-test-ports-{first}")
        return holder
    holder.close()
    return None


def _unused(port: int) -> bool:
    """Programs that are no tests of ours may have a port of a block."""
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return True
    return False


_ports = _hand_out()
os.register_at_fork(after_in_child=_begin_anew)
