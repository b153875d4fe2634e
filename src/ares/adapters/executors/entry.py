"""The agent's end of a session in a running attempt."""

import asyncio
import contextlib
import errno
import marshal
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence

from ares.adapters.executors.warden import wire
from ares.adapters.executors.warden.keeper import set_size
from ares.ports.executor import CannotStart, Entry, OutputStream

_READ_BYTES = 32 * 1024
# A command that was handed over and did not start within this is stuck.
_START_S = 15.0

Hand = Callable[[bytes, Sequence[int]], None]


async def opened(entry: Entry, hand: Hand) -> "EntryProcess | CannotStart":
    """Hands the session to the slot, and waits until it has begun."""
    with contextlib.ExitStack() as failing:
        try:
            control, kept = _handed(entry, hand, failing)
        except OSError as error:
            return CannotStart(f"cannot hand the session to its slot: {error.strerror}")
        try:
            async with asyncio.timeout(_START_S):
                answer, files = await _answer(control)
        except TimeoutError:
            return CannotStart(f"the session did not begin within {_START_S:g} s")
        if answer[:1] != b"S":
            why = answer[1:].decode(errors="replace")
            return CannotStart(why or "the attempt has ended, or has as many processes as it may have")
        if not files and not kept:
            return CannotStart("the agent of this node has as many files open as it may have; try again later")
        failing.pop_all()
    if files:
        # A terminal or a connection: one file for both directions.
        return EntryProcess(control, files[0], (files[0],), tty=entry.tty)
    return EntryProcess(control, kept[0], tuple(kept[1:]), tty=False)


def _handed(entry: Entry, hand: Hand, failing: contextlib.ExitStack) -> tuple[socket.socket, list[int]]:
    """Makes the session's files, gives the slot its ends, and returns the others. Raises OSError."""
    with contextlib.ExitStack() as theirs:
        control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        failing.callback(control.close)
        theirs.callback(far.close)
        control.setblocking(False)
        kept, given = list[int](), [far.fileno()]
        for number in range(0 if entry.tty or entry.port else 3):
            reading, writing = os.pipe2(os.O_CLOEXEC)
            near, distant = (writing, reading) if number == 0 else (reading, writing)
            failing.callback(os.close, near)
            theirs.callback(os.close, distant)
            kept.append(near)
            given.append(distant)
        order = (
            list(entry.argv),
            dict(entry.env),
            entry.cwd,
            entry.tty,
            entry.rows,
            entry.cols,
            entry.port,
            entry.script,
        )
        hand(b"N" + marshal.dumps(order), given)
    return control, kept


async def _answer(control: socket.socket) -> tuple[bytes, list[int]]:
    await _readable(control.fileno())
    return wire.receive_files(control)


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


class EntryProcess:
    """One session (`ports.executor.Entered`). Each file is read only when what was read before is taken."""

    def __init__(self, control: socket.socket, input_fd: int, outputs: tuple[int, ...], *, tty: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._control = control
        self._input = input_fd
        self._tty = tty
        self._open = dict[int, OutputStream](zip(outputs, ("out", "err"), strict=False))
        # The same file in both directions is closed once, at the end of both.
        self._duplex = input_fd in self._open
        self._input_open = True
        self._got: deque[tuple[int, bytes]] = deque()
        self._ready = asyncio.Event()
        self._over = False
        self._code: asyncio.Future[int | None] = self._loop.create_future()
        for fd in {input_fd, *outputs}:
            os.set_blocking(fd, False)
        for fd in outputs:
            self._loop.add_reader(fd, self._read, fd)
        self._loop.add_reader(control.fileno(), self._ended)

    async def read(self) -> tuple[OutputStream, bytes]:
        while True:
            while not self._got:
                if not self._open:
                    return "out", b""
                self._ready.clear()
                await self._ready.wait()
            fd, data = self._got.popleft()
            if data:
                self._loop.add_reader(fd, self._read, fd)
                return self._open[fd], data
            del self._open[fd]
            if not self._duplex:
                os.close(fd)

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            # A terminal whose last process ended; a connection that was reset.
            data = b""
        self._loop.remove_reader(fd)
        self._got.append((fd, data))
        self._ready.set()

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._input_open:
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                await self._writable()
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.EIO, errno.ECONNRESET):
                    raise
                return

    async def _writable(self) -> None:
        taken = asyncio.Event()
        self._loop.add_writer(self._input, taken.set)
        try:
            await taken.wait()
        finally:
            if self._input_open:
                self._loop.remove_writer(self._input)

    def end_input(self) -> None:
        if not self._input_open or self._tty:
            # The end of a terminal's input is a character that its user types.
            return
        self._input_open = False
        if self._duplex:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._input)) as sock:
                sock.shutdown(socket.SHUT_WR)
        else:
            os.close(self._input)

    def resize(self, rows: int, cols: int) -> None:
        if self._tty and self._input_open:
            set_size(self._input, rows, cols)

    async def exit_code(self) -> int | None:
        return await asyncio.shield(self._code)

    def _ended(self) -> None:
        """The keeper said how the command ended, or is gone. It is gone after every process of the session."""
        try:
            data = self._control.recv(wire.MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data[:1] == b"F" and not self._code.done():
            self._code.set_result(wire.EXIT.unpack(data)[1])
        elif not data:
            self._loop.remove_reader(self._control.fileno())
            if not self._code.done():
                self._code.set_result(None)

    def hang_up(self) -> None:
        if self._over:
            return
        self._over = True
        self._loop.remove_reader(self._control.fileno())
        for fd in self._open:
            self._loop.remove_reader(fd)
        if self._input_open:
            self._loop.remove_writer(self._input)
        for fd in {*self._open, *((self._input,) if self._input_open or self._duplex else ())}:
            os.close(fd)
        self._input_open = False
        self._open.clear()
        self._got.clear()
        self._control.close()
        if not self._code.done():
            self._code.set_result(None)
        self._ready.set()
