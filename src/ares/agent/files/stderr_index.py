"""Which bytes of an attempt's log were written to stderr, read from the index that the executor keeps beside it."""

import os
import stat

from ares.model.link import STDERR_RANGES_MAX
from ares.ports.executor import STDERR_INDEX, STDERR_RECORD, STDERR_RECORDS_MAX, STDERR_UNKNOWN

# Begin and end.
Range = tuple[int, int]
_READ_BYTES = 4096 * STDERR_RECORD.size


class StderrIndex:
    """Read from the front to the back, as far as the log is sent. An attempt may spoil its own index: then its stderr
    is not told apart, and no other harm is done."""

    def __init__(self, log: str) -> None:
        self._path = log + STDERR_INDEX
        self._fd = -1
        # Records that were read for good.
        self._read = 0
        # What may be asked for still.
        self._ranges: list[Range] = []
        self._forgotten = 0

    def upto(self, begin: int, end: int, *, final: bool) -> tuple[int, tuple[Range, ...]]:
        """How far the log is known between `begin` and `end`, and its ranges up to there. `final`: it is complete."""
        known = end
        if self._open():
            if begin < self._forgotten:
                self._read, self._ranges, self._forgotten = 0, [], 0
            pending = self._look(end)
            known = end if final else max(begin, min(end, pending))
        found = [(max(begin, low), min(known, high)) for low, high in self._ranges if low < known and high > begin]
        if len(found) > STDERR_RANGES_MAX:
            known = found[STDERR_RANGES_MAX][0]
        return known, tuple(found[:STDERR_RANGES_MAX])

    def _look(self, end: int) -> int:
        """Reads records up to one behind `end`. Returns from where on it is not known yet."""
        while self._read < STDERR_RECORDS_MAX:
            raw = os.pread(self._fd, _READ_BYTES, self._read * STDERR_RECORD.size)
            # The last record may still grow: it is read again each time.
            whole = len(raw) // STDERR_RECORD.size
            for place, (low, length) in enumerate(STDERR_RECORD.iter_unpack(raw[: whole * STDERR_RECORD.size])):
                if length == STDERR_UNKNOWN:
                    return low
                self._take(low, low + length)
                if place + 1 < whole:
                    self._read += 1
                if low >= end:
                    return end
            if whole <= 1:
                break
        return end

    def _take(self, low: int, high: int) -> None:
        """The ranges stay in order and apart, whatever the records say: each piece of the log then gets further, though
        a message has room for a few of them only."""
        if self._ranges and low <= (last := self._ranges[-1])[1]:
            # It has grown, or the log was cut and goes on.
            self._ranges[-1] = (last[0], max(last[1], high))
        else:
            self._ranges.append((low, high))

    def forget(self, begin: int) -> None:
        """What lies before is not asked for again, unless the control plane has lost it."""
        if self._ranges and self._ranges[0][1] <= begin:
            self._ranges = [span for span in self._ranges if span[1] > begin]
            self._forgotten = begin

    def cut(self, at: int) -> None:
        """The log was cut there, and goes on with something else: no record that is there now grows any more."""
        if self._open():
            announced = self._look(STDERR_UNKNOWN) != STDERR_UNKNOWN
            self._read = os.fstat(self._fd).st_size // STDERR_RECORD.size - announced
            self._ranges = [(low, min(at, high)) for low, high in self._ranges if low < at]

    def _open(self) -> bool:
        if self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                return False
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                self.close()
                return False
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
