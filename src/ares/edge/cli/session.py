"""A session in a running job at this terminal: keys go in, output comes out, the exit code is the command's."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

import click

from ares.archive import BadArchive, Unpacking, pack

if TYPE_CHECKING:
    from ares.edge.client.aio import AsyncClient
    from ares.edge.client.job_session import AttachedSession
    from ares.model.job_session import SessionExit, SessionSpec, SessionView


# As ssh has it: the session is over, and how the command ended is not known.
LOST: Final = 255
_READ_BYTES: Final = 32 * 1024


def async_client(ctx: click.Context) -> "AsyncClient":
    """A client of the same server, for one event loop."""
    from ares.edge.client.aio import AsyncClient
    from ares.edge.client.retry import Retry

    root = ctx.find_root()
    return AsyncClient(
        root.obj,
        retry=Retry(attempts=3, base_s=0.1, cap_s=0.5),
        tenant=root.params.get("tenant"),
        break_glass=root.params.get("break_glass"),
    )


def enter(ctx: click.Context, job_id: str, spec: "SessionSpec", keys: bytes, *, stdin: bool) -> "SessionExit | None":
    """Opens a session and stays in it."""

    async def stay() -> "SessionExit | None":
        async with async_client(ctx) as client:
            session = await client.open_session(job_id, spec)
            return await attached(client, job_id, session, keys, stdin=stdin)

    return asyncio.run(stay())


def exit_code(end: "SessionExit | None") -> int:
    """The code that stands for how a session ended; says so where the command did not end by itself."""
    if end is None:
        return 0
    if end.code is None:
        click.echo(f"the session is over: {end.reason}", err=True)
        return LOST
    return end.code


async def attached(
    client: "AsyncClient", job_id: str, session: "SessionView", keys: bytes, *, stdin: bool
) -> "SessionExit | None":
    """Stays in a session. None when it was left by the detach keys."""
    from ares.edge.client.job_session import attached as attach

    def notice(text: str) -> None:
        sys.stderr.write(f"\r\n[ares: {text}]\r\n" if session.tty else f"[ares: {text}]\n")
        sys.stderr.flush()

    link = attach(client, job_id, session, _write, notice)
    typing = _Keys(link, keys if session.tty else b"")
    with _raw_terminal() if session.tty else contextlib.nullcontext():
        if session.tty:
            _follow_size(link)
        if stdin:
            typing.start(asyncio.get_running_loop())
        else:
            await link.end_input()
        end = await _run(link)
    if end is None:
        click.echo(f"\ndetached; the session goes on. ares attach {job_id} goes back to it", err=True)
    return end


async def _run(link: "AttachedSession") -> "SessionExit | None":
    from ares.edge.client.errors import SessionLost
    from ares.model.job_session import SessionExit

    try:
        return await link.run()
    except SessionLost as lost:
        return SessionExit(reason=lost.detail)


async def _write(stream: str, data: bytes) -> None:
    """In a thread: a reader that is slow must not keep the connection from being served."""
    await asyncio.to_thread(_write_all, 2 if stream == "err" else 1, data)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class _Keys:
    """What is typed, or comes from a pipe or a file. The detach keys are not passed on."""

    def __init__(self, link: "AttachedSession", keys: bytes) -> None:
        self._link = link
        self._keys = keys
        self._held = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """A thread of its own, for files too. It ends with the program."""
        threading.Thread(target=self._run, args=(loop,), daemon=True).start()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        # The program may end while this waits for a key.
        with contextlib.suppress(RuntimeError, asyncio.CancelledError):
            while data := os.read(0, _READ_BYTES):
                data, leaves = self._passed(data)
                if data:
                    asyncio.run_coroutine_threadsafe(self._link.write(data), loop).result()
                if leaves:
                    asyncio.run_coroutine_threadsafe(self._link.detach(), loop).result()
                    return
            asyncio.run_coroutine_threadsafe(self._link.end_input(), loop).result()

    def _passed(self, data: bytes) -> tuple[bytes, bool]:
        """What is to be sent, and whether the detach keys were typed."""
        if not self._keys:
            return data, False
        found = bytearray()
        for byte in data:
            if byte == self._keys[self._held]:
                self._held += 1
                if self._held == len(self._keys):
                    return bytes(found), True
                continue
            found += self._keys[: self._held]
            self._held = 1 if byte == self._keys[0] else 0
            if not self._held:
                found.append(byte)
        return bytes(found), False


@contextlib.contextmanager
def _raw_terminal() -> Generator[None]:
    """Keys are the session's, Ctrl-C too. Put back however the session ends."""
    if not os.isatty(0):
        yield
        return
    before = termios.tcgetattr(0)
    # Not flushed: what was typed ahead is for the session.
    tty.setraw(0, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _follow_size(link: "AttachedSession") -> None:
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def changed() -> None:
        size = shutil.get_terminal_size()
        task = loop.create_task(link.resize(size.lines, size.columns))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGWINCH, changed)


def terminal_size() -> tuple[int, int]:
    """Rows and columns."""
    size = shutil.get_terminal_size()
    return size.lines, size.columns


# ---- copies into a running job, and out of it


class FileCopy:
    def __init__(self, target: str, name: str) -> None:
        self._unpacking = Unpacking(target, name) if target else None

    async def take(self, stream: str, data: bytes) -> None:
        if stream == "err":
            sys.stderr.buffer.write(data)
            sys.stderr.flush()
        elif self._unpacking is not None:
            self._unpacking.feed(data)

    async def run(self, link: "AttachedSession", source: str) -> int:
        sending = asyncio.create_task(_send(link, source))
        try:
            end = await link.run()
            code = LOST if end is None or end.code is None else end.code
            if code == 0 and self._unpacking is not None:
                self._unpacking.finish()
            if sending.done() and not sending.cancelled():
                sending.result()
            return code
        except BadArchive as error:
            raise click.ClickException(str(error)) from None
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, BadArchive, OSError):
                await sending
            if self._unpacking is not None:
                self._unpacking.close()


def local_name(remote: str) -> str:
    """What a copy of that path in a job is called in a directory here."""
    name = os.path.basename(remote.rstrip("/"))
    return "copy" if name in ("", ".", "..") else name


async def _send(link: "AttachedSession", source: str) -> None:
    if source:
        for data in pack(source, lambda path: click.echo(f"left out: {path}", err=True)):
            await link.write(data)
    await link.end_input()
