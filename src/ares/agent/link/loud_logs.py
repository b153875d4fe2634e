"""Output of attempts that write much, which goes to the control plane by a stream of its own.

The stream of the session carries renewals, commands and reports: what a job writes must not stand before them in its
flow-control window. Little output stays there, as a second connection for it would cost more than it spares.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeVar

from ares.agent.files.spool import Tail
from ares.agent.link.outbox import Key
from ares.model.link import LogChunk
from ares.model.telemetry.log_stream import LogFrame

# An attempt with more than this to send at once is loud; and the most output in a frame of the session.
INLINE_BYTES: Final = 64 * 1024
INLINE_FRAME_BYTES: Final = 128 * 1024
LOUD_FRAME_BYTES: Final = 256 * 1024


class Speaker(Protocol):
    """One rank of an attempt whose output is sent."""

    @property
    def key(self) -> Key: ...

    @property
    def number(self) -> int:
        """Which of its job's attempts it is."""
        ...

    @property
    def tail(self) -> Tail: ...


_S = TypeVar("_S", bound=Speaker)


def pieces(talking: dict[Key, _S], room: int) -> Iterator[LogChunk]:
    """Output by turns, about as much as there is room for."""
    for key, attempt in list(talking.items()):
        if room <= 0:
            break
        # It moves to the end of the queue, or leaves it while its window is full or nothing is new.
        del talking[key]
        if (piece := attempt.tail.chunk()) is not None:
            talking[key] = attempt
            room -= len(piece[1])
            yield LogChunk(
                ref=key[0], rank=key[1], attempt=attempt.number, offset=piece[0], data=piece[1], stderr=piece[2]
            )


class LoudLogs:
    """Attempts whose output goes by the other stream. An attempt is here or in the session, never in both: pieces must
    arrive in order. `ready` is called when a report that waited for output may go."""

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready
        # The control plane takes such a stream, and the session can open one.
        self.offered = False
        self._attempts: dict[Key, Speaker] = {}
        # Those with something to send, in the order of their turns. Invariant: `_wake` is set while there are any.
        self._talking: dict[Key, Speaker] = {}
        # Those of which the session still has output under way: nothing is sent before that is acknowledged.
        self._moving: set[Key] = set()
        self._wake = asyncio.Event()

    def __contains__(self, key: Key) -> bool:
        return key in self._attempts

    def take(self, talking: dict[Key, _S]) -> None:
        """Takes the loud ones out of the session's queue, if the control plane takes a stream for them."""
        if self.offered:
            for key in [key for key, attempt in talking.items() if attempt.tail.unsent > INLINE_BYTES]:
                self._add(talking.pop(key))

    def _add(self, attempt: Speaker) -> None:
        self._attempts[attempt.key] = attempt
        self._moving.add(attempt.key)
        self.output(attempt)

    def output(self, attempt: Speaker) -> bool:
        """False for an attempt that is not here."""
        if attempt.key not in self._attempts:
            return False
        if attempt.tail.settled:
            self._ready()
        elif attempt.key not in self._moving or not attempt.tail.in_flight:
            self._moving.discard(attempt.key)
            self._talking[attempt.key] = attempt
            self._wake.set()
        return True

    def forget(self, key: Key) -> None:
        self._attempts.pop(key, None)
        self._talking.pop(key, None)
        self._moving.discard(key)

    def clear(self) -> tuple[Speaker, ...]:
        """All of them go back to the session."""
        before = tuple(self._attempts.values())
        self._attempts.clear()
        self._talking.clear()
        self._moving.clear()
        return before

    def rewind(self) -> None:
        """The stream broke: what was not acknowledged may be lost."""
        for attempt in self._attempts.values():
            if attempt.key not in self._moving:
                attempt.tail.rewind()
                self.output(attempt)

    @property
    def idle(self) -> bool:
        return not self._talking and all(attempt.tail.in_flight == 0 for attempt in self._attempts.values())

    async def waiting(self) -> None:
        while not self._talking:
            self._wake.clear()
            await self._wake.wait()

    def frame(self) -> LogFrame | None:
        """The next frame, None when nothing may be sent now."""
        chunks = tuple(pieces(self._talking, LOUD_FRAME_BYTES))
        return LogFrame(chunks=chunks) if chunks else None
