"""A session in a running job, attached to: it goes on after a lost connection, with nothing lost and nothing twice."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from ares.edge.client.addresses import Addresses
from ares.edge.client.calls.calls import Reply, Request, read_problem
from ares.edge.client.calls.job_sessions import ExecResult, session_path
from ares.edge.client.errors import SessionLost, Unreachable
from ares.edge.client.http import Bearer
from ares.edge.client.sending import AsyncSends, Sends
from ares.edge.client.settings import Endpoint
from ares.model.job_session import (
    PIECE_BYTES_MAX,
    WINDOW_BYTES,
    ClientFrame,
    SessionDetach,
    SessionExit,
    SessionFrame,
    SessionInput,
    SessionOutput,
    SessionSpec,
    SessionTaken,
    SessionView,
    TerminalSize,
)

_decode: Final[Callable[[bytes], SessionFrame]] = msgspec.msgpack.Decoder[SessionFrame](SessionFrame).decode
_encode: Final = msgspec.msgpack.Encoder().encode
# Output is confirmed after so much of it, or when there is no more for now.
_CONFIRM_BYTES: Final = 64 * 1024
_MESSAGE_BYTES_MAX: Final = 64 * 1024
_OPEN_S: Final = 10.0
_AGAIN_S: Final = 0.2
_AGAIN_MAX_S: Final = 2.0
# The server's close codes after which attaching again is of no use.
_FINAL: Final = frozenset({4400, 4401, 4409})

Sink = Callable[[str, bytes], Awaitable[None]]
Notice = Callable[[str], None]


@dataclass(slots=True)
class _Typed:
    """Input that the command may not have been given yet."""

    offset: int
    data: bytes
    end: bool = False


class AttachedSession:
    """`sink` takes the output, in order. `notice` is told when the connection is lost and when it is back."""

    def __init__(
        self,
        endpoint: Endpoint,
        addresses: Addresses,
        job_id: str,
        session: SessionView,
        sink: Sink,
        *,
        notice: Notice | None = None,
        patience_s: float = 60.0,
    ) -> None:
        self._endpoint = endpoint
        self._addresses = addresses
        self._bearer = Bearer(endpoint)
        self._job_id = job_id
        self._session = session
        self._sink = sink
        self._notice = notice
        self._patience_s = patience_s
        # Output below it has gone to the sink; below the other it was confirmed.
        self._received = self._confirmed = 0
        self._typed: deque[_Typed] = deque()
        self._end = session.input_offset
        self._given = session.input_offset
        self._room = asyncio.Event()
        self._size: TerminalSize | None = None
        self._link: ClientConnection | None = None
        self._detached = False

    @property
    def session_id(self) -> str:
        return self._session.id

    # ---- what the caller says

    async def write(self, data: bytes) -> None:
        """Sends input, in order. Waits while the command does not take it."""
        for at in range(0, len(data), PIECE_BYTES_MAX):
            piece = data[at : at + PIECE_BYTES_MAX]
            while self._end + len(piece) - self._given > WINDOW_BYTES:
                self._room.clear()
                await self._room.wait()
            typed = _Typed(self._end, piece)
            self._end += len(piece)
            self._typed.append(typed)
            await self._say(SessionInput(offset=typed.offset, data=piece))

    async def end_input(self) -> None:
        self._typed.append(_Typed(self._end, b"", end=True))
        await self._say(SessionInput(offset=self._end, end=True))

    async def resize(self, rows: int, cols: int) -> None:
        self._size = TerminalSize(rows=rows, cols=cols)
        await self._say(self._size)

    async def detach(self) -> None:
        """Leaves the session as it is: `run` returns None."""
        self._detached = True
        await self._say(SessionDetach())
        if self._link is not None:
            await self._link.close()

    async def _say(self, frame: ClientFrame) -> None:
        # What is lost now is said again by the next connection.
        if self._link is not None:
            with contextlib.suppress(ConnectionClosed):
                await self._link.send(_encode(frame))

    # ---- the connection

    async def run(self) -> SessionExit | None:
        """Until the session has ended, or was detached from. Raises SessionLost when it cannot be gone on with."""
        lost_at: float | None = None
        failures = 0
        while not self._detached:
            try:
                async with await self._connected() as link:
                    if lost_at is not None:
                        self._tell("connected again")
                    lost_at, failures = None, 0
                    end = await self._talk(link)
                    if end is not None:
                        return end
                if link.close_code in _FINAL and not self._detached:
                    raise SessionLost(link.close_reason or "")
            except (OSError, InvalidHandshake, TimeoutError, Unreachable) as error:
                self._addresses.leave(self._addresses.current)
                if lost_at is not None and time.monotonic() - lost_at > self._patience_s:
                    raise SessionLost(f"no connection for {self._patience_s:g} s: {error}") from None
            finally:
                self._link = None
            if self._detached:
                return None
            if lost_at is None:
                lost_at = time.monotonic()
                self._tell("connection lost; connecting again")
            failures += 1
            await asyncio.sleep(min(_AGAIN_MAX_S, _AGAIN_S * 2 ** min(failures, 5)))
        return None

    def _tell(self, text: str) -> None:
        if self._notice is not None:
            self._notice(text)

    async def _connected(self) -> ClientConnection:
        url = self._addresses.current
        request = Request("GET", session_path(self._job_id, self._session.id))
        query = f"?offset={self._received}&rank={self._session.rank}"
        token = await asyncio.to_thread(self._bearer.fresh)
        headers = {"authorization": f"Bearer {token}"}
        if self._endpoint.tenant:
            headers["x-ares-tenant"] = self._endpoint.tenant
        if self._endpoint.break_glass:
            headers["x-ares-break-glass"] = self._endpoint.break_glass
        options: dict[str, Any] = {} if not self._endpoint.loopback else {"proxy": None}
        try:
            return await connect(
                f"ws{url.removeprefix('http')}{request.path}{query}", additional_headers=headers,
                max_size=_MESSAGE_BYTES_MAX, open_timeout=_OPEN_S, compression=None, close_timeout=1.0, **options,
            )  # fmt: skip
        except InvalidStatus as refused:
            answer = refused.response
            reply = Reply(
                answer.status_code, {k.lower(): v for k, v in answer.headers.raw_items()}, bytes(answer.body or b"")
            )
            if reply.status in (429, 503):
                raise Unreachable(str(read_problem(reply, request))) from None
            raise _problem(reply, request) from None

    async def _talk(self, link: ClientConnection) -> SessionExit | None:
        """None when the connection is lost. The first message says how far input has come; the rest is sent again."""
        first = await _next(link)
        if first is None:
            return None
        greeting = _decode(first)
        if not isinstance(greeting, SessionTaken):
            raise SessionLost("the server did not begin as sessions begin")
        self._taken(greeting.offset)
        self._link = link
        for typed in tuple(self._typed):
            await self._say(SessionInput(offset=typed.offset, data=typed.data, end=typed.end))
        if self._size is not None:
            await self._say(self._size)
        while (message := await _next(link)) is not None:
            frame: SessionFrame = _decode(message)
            match frame:
                case SessionOutput():
                    await self._take(frame)
                case SessionTaken(offset=offset):
                    self._taken(offset)
                case SessionExit():
                    # Confirmed by leaving.
                    await self._say(SessionDetach())
                    return frame
        return None

    async def _take(self, frame: SessionOutput) -> None:
        data = frame.data[max(0, self._received - frame.offset) :]
        if frame.offset > self._received and self._received:
            self._tell(f"{frame.offset - self._received} bytes of output were lost meanwhile")
        if data:
            await self._sink(frame.stream, data)
        self._received = max(self._received, frame.offset + len(frame.data))
        if self._received - self._confirmed >= _CONFIRM_BYTES or len(frame.data) < PIECE_BYTES_MAX:
            self._confirmed = self._received
            await self._say(SessionTaken(offset=self._received))

    def _taken(self, offset: int) -> None:
        self._given = max(self._given, offset)
        while self._typed and self._typed[0].offset + len(self._typed[0].data) <= self._given:
            if self._typed[0].end:
                break
            self._typed.popleft()
        self._room.set()


async def _next(link: ClientConnection) -> bytes | None:
    """The next message; None when the connection is closed."""
    try:
        return await link.recv(decode=False)
    except ConnectionClosed:
        return None


def _problem(reply: Reply, request: Request) -> Exception:
    error = read_problem(reply, request)
    if reply.status == 404:
        return SessionLost("it has ended, or the job runs elsewhere by now")
    return error


def attached(
    client: Sends | AsyncSends, job_id: str, session: SessionView, sink: Sink, notice: Notice | None = None
) -> AttachedSession:
    """A session's input and output: `sink` takes the output, in order, and `run` carries it."""
    return AttachedSession(client.endpoint, client.addresses, job_id, session, sink, notice=notice)


class AsyncExecution:
    """A command in a session of its own, from its start to its end."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def run(self, job_id: str, command: Sequence[str], stdin: bytes, rank: int) -> ExecResult:
        from ares.edge.client.aio import AsyncClient

        found: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}

        async def keep(stream: str, data: bytes) -> None:
            found[stream] += data

        async with AsyncClient(endpoint=self._endpoint) as client:
            session = await client.open_session(job_id, SessionSpec(command=tuple(command), rank=rank))
            link = attached(client, job_id, session, keep)
            feeding = asyncio.create_task(_feed(link, stdin))
            try:
                end = await link.run()
            finally:
                feeding.cancel()
        if end is None or end.code is None:
            raise SessionLost("" if end is None else end.reason)
        return ExecResult(end.code, bytes(found["out"]), bytes(found["err"]))


class Execution:
    """The same for a caller that waits. In a thread of its own: the caller may be inside an event loop, as in a
    notebook."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def run(self, job_id: str, command: Sequence[str], stdin: bytes, rank: int) -> ExecResult:
        with ThreadPoolExecutor(max_workers=1) as pool:
            return pool.submit(asyncio.run, AsyncExecution(self._endpoint).run(job_id, command, stdin, rank)).result()


async def _feed(link: AttachedSession, data: bytes) -> None:
    await link.write(data)
    await link.end_input()
