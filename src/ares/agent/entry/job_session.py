"""One session in a running attempt: it outlives its clients' connections, and keeps what they have not confirmed."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from ares.model.job_session import (
    PIECE_BYTES_MAX,
    RING_BYTES,
    WINDOW_BYTES,
    ClientFrame,
    SessionDetach,
    SessionExit,
    SessionFrame,
    SessionId,
    SessionInput,
    SessionOutput,
    SessionSpec,
    SessionTaken,
    SessionView,
    TerminalSize,
)
from ares.model.link import AttemptRef
from ares.ports.clock import Clock
from ares.ports.executor import Entered

# How long the end of a session is kept for a client that lost its connection.
_END_KEPT_S: Final = 60.0

# Pieces that wait to be confirmed, where the two outputs take turns.
_PIECES_MAX: Final = 1024

# Of its command, what is told of a session: an answer tells of many.
_TOLD_WORDS_MAX: Final = 16
_TOLD_WORD_CHARS_MAX: Final = 200

Say = Callable[[SessionFrame], Awaitable[None]]
Drop = Callable[[str], None]


class JobSession:
    def __init__(
        self, session_id: SessionId, ref: AttemptRef, spec: SessionSpec, entered: Entered, clock: Clock
    ) -> None:
        self.id = session_id
        self.ref = ref
        self.spec = spec
        self._entered = entered
        self._clock = clock
        self._opened_at = clock.wall()
        # Output that is kept. Invariant: the pieces follow each other, and end at `_end`.
        self._pieces: deque[SessionOutput] = deque()
        self._begin = self._end = 0
        # Output below it has arrived at a client.
        self._confirmed = 0
        # Input that the command was given, and how far input has come here.
        self._given = self._received = 0
        self._input: deque[SessionInput] = deque()
        # Whether the client said that no more input comes.
        self._input_ended = False
        self._input_ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._over: SessionExit | None = None
        # The client that is attached: what ends it, and the task that sends to it.
        self._drop: Drop | None = None
        self._sending: asyncio.Task[None] | None = None
        self._say: Say | None = None
        self._left_at = self._used_at = clock.monotonic()
        self._keep_s = spec.keep_s
        # Set when it is to be forgotten.
        self._forget = False
        self._tasks = [asyncio.create_task(self._pump()), asyncio.create_task(self._type())]

    def view(self) -> SessionView:
        told = tuple(word[:_TOLD_WORD_CHARS_MAX] for word in self.spec.command[:_TOLD_WORDS_MAX])
        return SessionView(
            id=self.id, kind=self.spec.kind, command=told, tty=self.spec.tty,
            rank=self.spec.rank, port=self.spec.port, opened_at=self._opened_at, attached=self._drop is not None,
            input_offset=self._given,
        )  # fmt: skip

    @property
    def over(self) -> bool:
        return self._over is not None

    # ---- clients

    def attach(self, offset: int, say: Say, drop: Drop) -> None:
        """A client that has the output below the offset; it takes the place of another."""
        self.detach("another client attached to the session")
        self._drop, self._say = drop, say
        self._confirmed = max(self._confirmed, min(offset, self._end))
        self._changed.set()
        self._sending = asyncio.create_task(self._send(offset, say))

    def detach(self, why: str = "") -> None:
        """The client has gone, or must go: then it is told why."""
        drop, self._drop, self._say = self._drop, None, None
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        if drop is not None:
            self._left_at = self._clock.monotonic()
            if why:
                drop(why)
        self._changed.set()

    def take(self, frame: ClientFrame) -> None:
        match frame:
            case SessionInput():
                self._take_input(frame)
            case SessionTaken(offset=offset):
                self._confirmed = max(self._confirmed, min(offset, self._end))
                self._trim()
                self._changed.set()
            case TerminalSize(rows=rows, cols=cols):
                if not self.over:
                    self._entered.resize(rows, cols)
            case SessionDetach():
                self._forget = self.over
                self._keep_s = float("inf")
                self.detach("detached")

    def _take_input(self, frame: SessionInput) -> None:
        """Bytes that came before are not taken again. After a gap nothing is: the client sends it anew."""
        if frame.offset > self._received or self.over or self._input_ended:
            return
        data = frame.data[self._received - frame.offset :]
        if self._received + len(data) - self._given > WINDOW_BYTES:
            self.detach(f"more than {WINDOW_BYTES} bytes of input ahead of what the command has read")
            return
        self._used_at = self._clock.monotonic()
        self._received += len(data)
        if data or frame.end:
            self._input_ended = frame.end
            # Small pieces are joined: input that comes byte by byte takes no more room than other input.
            if self._input and len(self._input[-1].data) + len(data) <= PIECE_BYTES_MAX:
                data = self._input.pop().data + data
            self._input.append(SessionInput(offset=0, data=data, end=frame.end))
            self._input_ready.set()

    def overdue(self) -> str:
        """Why the session must end now; empty while it may go on."""
        now = self._clock.monotonic()
        if self.over:
            return "over" if self._forget or (self._drop is None and now - self._left_at > _END_KEPT_S) else ""
        if self._drop is None and now - self._left_at > self._keep_s:
            return f"no client was attached for {self._keep_s:g} s"
        if self.spec.idle_s and now - self._used_at > self.spec.idle_s:
            return f"nothing was typed or shown for {self.spec.idle_s:g} s"
        return ""

    def close(self, why: str) -> None:
        """Ends it with all its processes."""
        self.detach(why)
        for task in self._tasks:
            task.cancel()
        self._entered.hang_up()

    def end(self, why: str) -> None:
        """Ends its processes. A client that is attached is told."""
        for task in self._tasks:
            task.cancel()
        self._entered.hang_up()
        self._finish(SessionExit(reason=why))

    # ---- output

    async def _pump(self) -> None:
        while True:
            await self._room()
            stream, data = await self._entered.read()
            if not data:
                break
            self._keep(SessionOutput(offset=self._end, data=data, stream=stream))
            self._end += len(data)
            self._used_at = self._clock.monotonic()
            self._trim()
            self._changed.set()
        code = 0 if self.spec.kind == "forward" else await self._entered.exit_code()
        self._entered.hang_up()
        self._finish(SessionExit(code=code, reason="" if code is not None else "the attempt ended"))

    def _keep(self, piece: SessionOutput) -> None:
        """Small pieces are joined: a command may write byte by byte."""
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.stream == piece.stream and len(last.data) + len(piece.data) <= PIECE_BYTES_MAX:
            piece = SessionOutput(offset=last.offset, data=last.data + piece.data, stream=last.stream)
            self._pieces.pop()
        self._pieces.append(piece)

    def _finish(self, end: SessionExit) -> None:
        if self._over is None:
            self._over = end
            self._left_at = self._clock.monotonic()
        self._changed.set()

    async def _room(self) -> None:
        """A command waits while its client does not read. With a terminal it goes on while there is no client."""
        while not (self.spec.tty and self._drop is None):
            if self._end - self._confirmed < WINDOW_BYTES and len(self._pieces) < _PIECES_MAX:
                return
            await self._change()

    async def _change(self) -> None:
        # Several tasks wait so. Each clears the event and waits in one step, so none misses what comes after.
        self._changed.clear()
        await self._changed.wait()

    def _trim(self) -> None:
        """Forgets output that has arrived at the client. A terminal's is kept for the next one, within the ring."""
        keep_from = self._confirmed
        if self.spec.tty:
            keep_from = self._end - RING_BYTES
            keep_from = min(keep_from, self._confirmed) if self._drop is not None else keep_from
        while self._pieces and self._pieces[0].offset + len(self._pieces[0].data) <= keep_from:
            self._pieces.popleft()

    async def _send(self, offset: int, say: Say) -> None:
        """All output from the offset on, then the end."""
        while True:
            piece = next((kept for kept in self._pieces if kept.offset + len(kept.data) > offset), None)
            if piece is not None:
                cut = max(0, offset - piece.offset)
                offset = piece.offset + len(piece.data)
                await say(SessionOutput(offset=piece.offset + cut, data=piece.data[cut:], stream=piece.stream))
            elif self._over is not None:
                await say(self._over)
                return
            else:
                await self._change()

    # ---- input

    async def _type(self) -> None:
        while True:
            while self._input:
                piece = self._input.popleft()
                await self._entered.write(piece.data)
                if piece.end:
                    self._entered.end_input()
                self._given += len(piece.data)
                if self._say is not None and piece.data:
                    await self._say(SessionTaken(offset=self._given))
            self._input_ready.clear()
            await self._input_ready.wait()
