"""The log of one attempt on the node: how much was written, sent, and stored by the control plane."""

import os
import stat

from ares.agent.files.stderr_index import Range, StderrIndex
from ares.ports.clock import Clock

CHUNK_BYTES_MAX = 256 * 1024
WINDOW_BYTES = 1024 * 1024
# Pause before output that could not be stored is sent again. It doubles each time, up to the second value.
_PAUSE_S, _PAUSE_MAX_S = 0.5, 15.0

# A program may write faster than its rate for this long.
_BURST_S = 2.0


class OutputPace:
    """The rate limit of one attempt's output, a token bucket."""

    def __init__(self, clock: Clock, bytes_per_s: int) -> None:
        self._clock = clock
        self._bytes_per_s = bytes_per_s
        self._left, self._at = bytes_per_s * _BURST_S, clock.monotonic()

    def excess(self, grown: int) -> int:
        """How many of the `grown` bytes since the last call are over the limit."""
        now = self._clock.monotonic()
        more = (now - self._at) * self._bytes_per_s
        self._left, self._at = min(self._bytes_per_s * _BURST_S, self._left + more), now
        kept = min(grown, int(self._left))
        self._left -= kept
        return grown - kept


class Tail:
    """Reads a growing file for shipping, by absolute offsets. Output beyond `cap` bytes is dropped, on disk too."""

    def __init__(self, path: str, cap: int, pace: OutputPace | None = None) -> None:
        self._path = path
        self._stderr = StderrIndex(path)
        self._cap = cap
        self._pace = pace
        # Bytes dropped at the cap, as far as they were seen.
        self._dropped = 0
        self._fd = -1
        self._size = 0
        self._marker = b""
        self._sent = 0
        self._acked = 0
        self._final = False
        self._failed = False
        # How often in a row the control plane could not store a piece, and until when nothing is sent.
        self._tries = 0
        self._rests_until: float | None = None
        # Since when a log that is complete waits to be stored.
        self._waits_since: float | None = None
        # Send an empty piece next, to ask how much is stored.
        self._asking = False
        # Bytes given up.
        self.lost = 0

    def poll(self) -> bool:
        """Reads the size of the file. True when there is something to send."""
        if not self._failed:
            if self._fd < 0 and not self._open():
                return False
            try:
                self._look()
            except OSError as error:
                self._fail(self._size, error)
        return self._rests_until is None and (self._sent < self._end or self._asking)

    def _look(self) -> None:
        size = os.fstat(self._fd).st_size
        if self._pace is not None and (excess := self._pace.excess(max(0, size - self._size))):
            size -= excess
            os.ftruncate(self._fd, size)
            self._stderr.cut(size)
            # Appended, like the output that the job writes meanwhile.
            size += os.write(
                self._fd, f"\n[ares: {excess:,} bytes of output were dropped: too many at once]\n".encode()
            )
        self._size = max(self._size, min(size, self._cap))
        if size > self._cap:
            # Writers append: they continue at the cap, and the disk does not fill.
            os.ftruncate(self._fd, self._cap)
            self._dropped += size - self._cap
            self._marker = f"\n[ares: output beyond {self._cap} bytes was dropped]\n".encode()

    def _fail(self, size: int, error: OSError) -> None:
        """A disk that fails loses the rest of the output, but never the report of the attempt's end."""
        self._failed = True
        self._size = size
        self._marker = f"\n[ares: output beyond {size} bytes is lost: {error.strerror}]\n".encode()

    def _open(self) -> bool:
        try:
            if not stat.S_ISREG((seen := os.lstat(self._path)).st_mode) or seen.st_size == 0:
                return False
            self._fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        return True

    def finish(self) -> None:
        """Called when no process can write any more."""
        self.poll()
        if self._dropped and not (self._final or self._failed):
            self._marker += f"[ares: {self._dropped:,} bytes of it in all]\n".encode()
        self._final = True

    @property
    def _end(self) -> int:
        return self._size + len(self._marker)

    @property
    def unsent(self) -> int:
        return self._end - self._sent

    @property
    def in_flight(self) -> int:
        """Bytes that were sent and not acknowledged."""
        return self._sent - self._acked

    def chunk(self) -> tuple[int, bytes, tuple[Range, ...]] | None:
        """The next piece to send, and what of it was written to stderr, within the window of bytes that the control
        plane has not stored yet."""
        room = min(CHUNK_BYTES_MAX, self._acked + WINDOW_BYTES - self._sent)
        offset = self._sent
        if self._rests_until is not None or room <= 0:
            return None
        asking, self._asking = self._asking, False
        if offset >= self._end:
            return (offset, b"", ()) if asking else None
        ranges: tuple[Range, ...] = ()
        if offset < self._size:
            try:
                # After the size was read: bytes that are in the log now are in the index, or announced there.
                known, ranges = self._stderr.upto(offset, min(offset + room, self._size), final=self._final)
                if known == offset:
                    return (offset, b"", ()) if asking else None
                data = os.pread(self._fd, known - offset, offset)
            except OSError as error:
                self._fail(offset, error)
                return self.chunk()
            if not data:
                # The job truncated its own log.
                self._size = offset
                return self.chunk()
        else:
            data = self._marker[offset - self._size :]
        self._sent += len(data)
        return offset, data, ranges

    def acked(self, offset: int) -> None:
        """The control plane stores everything below `offset`. If that is less than before, the rest is sent again."""
        if offset < self._acked:
            self._sent = offset
        elif offset > self._acked:
            self._tries, self._waits_since = 0, None
        self._acked = offset
        self._sent = max(self._sent, min(offset, self._end))
        self._stderr.forget(min(offset, self._sent))

    def rewind(self) -> None:
        """A new session: what was not acknowledged may be lost."""
        self._sent, self._rests_until = self._acked, None

    # ---- output that cannot be stored now

    @property
    def resting(self) -> bool:
        return self._rests_until is not None

    def rest(self, offset: int, now: float) -> None:
        """The control plane stores what is below `offset` and could not store the rest, which is sent again later."""
        if self._rests_until is None and not self.lost:
            self._acked = self._sent = min(offset, self._end)
            self._rests_until = now + min(_PAUSE_MAX_S, _PAUSE_S * 2 ** min(self._tries, 10))
            self._tries += 1

    def wake(self, now: float, patience_s: float) -> bool:
        """Whether the pause is over. A complete log that waited for `patience_s` is given up instead of sent again."""
        if self._rests_until is None:
            return False
        if self._final:
            self._waits_since = now if self._waits_since is None else self._waits_since
            if now - self._waits_since >= patience_s:
                self.lost = max(1, self._end - self._acked)
                self._sent = self._acked = self._end
                self._rests_until = None
                return True
        if now < self._rests_until:
            return False
        self._rests_until, self._asking = None, True
        return True

    @property
    def drained(self) -> bool:
        """The log is complete and all of it was sent."""
        return self._final and self._sent >= self._end and not (self._asking or self.resting)

    @property
    def settled(self) -> bool:
        return self._final and self._acked >= self._end and not (self._asking or self.resting)

    def close(self) -> None:
        self._stderr.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
