"""The keeper of a session: a child of the slot that starts a command in the running attempt, or connects to a port of
it. When the command ends, or the agent closes the keeper's socket, it ends every process that the command left."""

import contextlib
import fcntl

# Scripts need them: in an image nothing can be imported any more.
import hashlib  # noqa: F401  # pyright: ignore[reportUnusedImport]
import json  # noqa: F401  # pyright: ignore[reportUnusedImport]
import os
import select
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn

from ares.adapters.executors.warden import kernel, listeners, privileges
from ares.adapters.executors.warden.launch import spawn
from ares.adapters.executors.warden.wire import EXIT

# Processes of a session that was hung up have this long to end by themselves.
HANG_UP_S: Final = 1.0
_SETTLE_S: Final = 0.01
_CONNECT_S: Final = 5.0
_ERROR_BYTES: Final = 4000


class EntryOrder(NamedTuple):
    """What the agent asks of a session."""

    argv: list[str]
    env: Mapping[str, str]
    cwd: str
    tty: bool
    rows: int
    cols: int
    # The port of the attempt to connect to. 0: a command is run.
    port: int
    # A program of Ares' own that is run instead of a command, with `argv` as its arguments. In an image there may be no
    # Python to run it.
    script: str


def keep(control: socket.socket, stdio: list[int], order: EntryOrder, slot: int, uid: int) -> NoReturn:
    """Never returns. `slot` is the slot's pid, `uid` the user that the command runs as, -1 for the slot's own."""
    try:
        kernel.die_with_parent(signal.SIGKILL)
        kernel.adopt_orphans()
        if order.port:
            with listeners.connected(order.port, slot, _CONNECT_S) as found:
                socket.send_fds(control, [b"S"], [found.fileno()])
        else:
            _run(control, stdio, order, uid)
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError):
            control.send(b"E" + str(error).encode(errors="replace")[:_ERROR_BYTES])
    finally:
        os._exit(0)


def _run(control: socket.socket, stdio: list[int], order: EntryOrder, uid: int) -> None:
    # Before the command starts: its end must not be missed.
    signals = kernel.signal_fd([signal.SIGCHLD])
    try:
        os.chdir(order.cwd)
    except OSError as error:
        raise ValueError(f"cannot enter the working directory {order.cwd}: {error.strerror}") from None
    with privileges.starting_as(uid):
        main, master = _started(stdio, order, uid)
    for fd in stdio:
        os.close(fd)
    if master >= 0:
        socket.send_fds(control, [b"S"], [master])
        os.close(master)
    else:
        control.send(b"S")
    status = _watched(control, signals, main)
    _end_rest(main, gently=status is None)
    if status is not None:
        code = os.waitstatus_to_exitcode(status)
        # As shells tell it.
        control.send(EXIT.pack(b"F", code if code >= 0 else 128 - code))


def _started(stdio: list[int], order: EntryOrder, uid: int) -> tuple[int, int]:
    """The command's pid, and the master of its terminal or -1."""
    if order.script:
        return _interpreted(stdio, order, uid), -1
    if not order.tty:
        actions = tuple((os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(stdio))
        return spawn(order.argv, order.env, actions, other_user=uid >= 0), -1
    try:
        master, slave = os.openpty()
    except OSError as error:
        raise ValueError(f"this node cannot make a terminal for the job: {error.strerror}") from None
    set_size(master, order.rows, order.cols)
    if uid >= 0:
        os.fchown(slave, uid, -1)
    # The leader of a new session that opens a terminal is controlled by it.
    actions = (
        (os.POSIX_SPAWN_OPEN, 0, os.ttyname(slave), os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, 0, 2),
    )
    try:
        return spawn(order.argv, order.env, actions, other_user=uid >= 0), master
    finally:
        os.close(slave)


def _interpreted(stdio: list[int], order: EntryOrder, uid: int) -> int:
    """Runs a script in a child of this very interpreter, with the rights of the attempt's commands and no others."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        os.setsid()
        for number, fd in enumerate(stdio):
            os.dup2(fd, number)
        # Files of the slot lead out of the image.
        os.closerange(len(stdio), os.sysconf("SC_OPEN_MAX"))
        privileges.give_up(uid)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        sys.argv = ["ares", *order.argv]
        exec(compile(order.script, "ares", "exec"), {"__name__": "__main__"})  # noqa: S102 - Ares' own text
        code = 0
    except SystemExit as ended:
        os.write(2, f"{ended.code}\n".encode(errors="replace"))
    except Exception as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(code)


def set_size(terminal: int, rows: int, cols: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def _watched(control: socket.socket, signals: int, main: int) -> int | None:
    """The wait status of the command; None when the session was hung up first."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(signals, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd != signals:
                return None
            with contextlib.suppress(BlockingIOError):
                os.read(signals, 128 * 8)
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == main:
                    return ended[1]


def _end_rest(main: int, *, gently: bool) -> None:
    """Ends every process below this one. Orphans among them are its children."""
    if gently:
        for pid in _below(main):
            for number in (signal.SIGHUP, signal.SIGCONT):
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        until = time.monotonic() + HANG_UP_S
        while time.monotonic() < until and _any_left():
            time.sleep(_SETTLE_S)
    while _any_left():
        for pid in _below(main):
            kernel.kill(pid)
        time.sleep(_SETTLE_S)


def _any_left() -> bool:
    """Collects children that ended. False when none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _below(main: int) -> list[int]:
    if listeners.sees_itself():
        return kernel.descendants(os.getpid())
    # Without a /proc of its own namespace only the command's own group can be named.
    with contextlib.suppress(OSError):
        os.killpg(main, signal.SIGKILL)
    return [main]
