"""What an attempt writes to stderr: the slot passes it on to the log, and notes in an index beside it where it lies.

stdout is the log file itself. An attempt that writes nothing to stderr costs a pipe, and nothing else. For one that
does, a thread of the slot writes, from the first byte to the attempt's end: a disk that hangs must not keep the slot
from ending the attempt. No command is started and no user changed while the thread is there; sessions are forked, and a
fork takes none but the calling thread along.
"""

import _thread
import contextlib
import os
import select
import stat
import struct
import time
from collections.abc import Generator
from typing import Final

# As `ports.executor` describes it.
SUFFIX: Final = ".err"
RECORD: Final = struct.Struct("<QQ")
UNKNOWN: Final = 2**64 - 1
# An index has at most so many records. What comes after counts as stdout.
RECORDS_MAX: Final = 100_000

_READ_BYTES: Final = 64 * 1024
# At the end of an attempt as much is passed on as a pipe can hold: a process elsewhere may have it open and go on.
_LAST_READS: Final = 16
# For so long the end of an attempt waits until its stderr is on a disk that may hang.
_LAST_WRITES_S: Final = 5.0
# No tenant is charged for the slot's time: so many small reads are made at once and in each second, then each waits.
_SMALL_BYTES: Final = 4096
_SMALL_READS: Final = 200
_REST_MS: Final = 5
_INDEX: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
_LOG: Final = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK


class StderrRelay:
    """A pipe for each attempt in turn. A poll tells the slot of the first byte, and no more."""

    def __init__(self, poll: select.epoll) -> None:
        self._poll = poll
        self._user = os.geteuid()
        self._path, self._owner = "", -1
        # The log, opened once more: only so it is known where in it a write of the slot has come to lie.
        self._reader = self._writer = self._own = self._index = -1
        # Held by the thread, which ends when the bell is rung. The files and records are its own until then.
        self._busy: _thread.LockType | None = None
        self._bell = -1
        self._records = 0
        # Where the last record begins and ends.
        self._begin = self._end = -1

    @contextlib.contextmanager
    def lent(self, log_path: str, stderr_path: str, uid: int) -> Generator[int, None, None]:
        """A file for the stderr of an attempt that starts in the block: the one that is named, or a new pipe. The user
        owns it, and may open it by name; -1: the slot's own."""
        if stderr_path:
            with appending(stderr_path, uid) as stderr:
                yield stderr
            return
        self._path, self._owner = log_path, uid if uid >= 0 else self._user
        # The slot keeps the end to write to as well: otherwise the end of the attempt would wake it twice.
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._poll.register(self._reader, select.EPOLLIN)
        try:
            if uid >= 0:
                os.fchown(self._writer, uid, uid)
            yield self._writer
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Called when there is something to read: from now on the thread reads."""
        busy = _thread.allocate_lock()
        busy.acquire()
        bell = -1
        try:
            bell = os.eventfd(0)
            self._bell, self._busy = bell, busy
            _thread.start_new_thread(self._serve, (busy, bell))
        except (OSError, RuntimeError):
            # The attempt has all the processes that it may have, and the slot is still one of its group; or it took
            # the slot's right to open files.
            if bell >= 0:
                os.close(bell)
            self._busy, self._bell = None, -1
            self._pump()
            return
        self._poll.unregister(self._reader)

    def finish(self) -> bool:
        """Passes on the rest, when the attempt has no process left. False when the disk hangs: the slot is of no use
        any more."""
        if self._busy is None:
            self._drain()
        else:
            os.eventfd_write(self._bell, 1)
            if not self._busy.acquire(timeout=_LAST_WRITES_S):
                # The files stay open: their numbers are not free while the thread may use them.
                return False
        self.close()
        return True

    def close(self) -> None:
        """Closes the files. The slot's poll forgets a file that no process has open; forks of the slot close theirs
        too, and must not change the poll, which is the slot's own."""
        for fd in (self._reader, self._writer, self._own, self._index, self._bell):
            if fd >= 0:
                os.close(fd)
        self._reader = self._writer = self._own = self._index = self._bell = -1
        self._busy = None
        self._records, self._begin, self._end = 0, -1, -1

    # ---- reading

    def _serve(self, busy: "_thread.LockType", bell: int) -> None:
        """What the thread does until the bell is rung."""
        ended, some = select.poll(), select.poll()
        ended.register(bell, select.POLLIN)
        some.register(bell, select.POLLIN)
        some.register(self._reader, select.POLLIN)
        left, at = float(_SMALL_READS), time.monotonic()
        try:
            while all(fd != bell for fd, _ in some.poll()):
                small = self._pump() < _SMALL_BYTES
                now = time.monotonic()
                left, at = min(_SMALL_READS, left + (now - at) * _SMALL_READS) - small, now
                if left < 1:
                    ended.poll(_REST_MS)
            self._drain()
        finally:
            busy.release()

    def _drain(self) -> None:
        for _ in range(_LAST_READS):
            if not self._pump():
                break

    def _pump(self) -> int:
        """Passes on what is there. Returns how much that is."""
        if self._reader < 0:
            return 0
        try:
            data = os.read(self._reader, _READ_BYTES)
        except BlockingIOError:
            return 0
        self._keep(data)
        return len(data)

    # ---- the log and its index

    def _keep(self, data: bytes) -> None:
        # A full disk loses output, as it does for what the attempt writes to the log itself.
        with contextlib.suppress(OSError):
            if self._own < 0:
                self._open()
            if self._index < 0 or self._records >= RECORDS_MAX:
                while data and self._own >= 0:
                    data = data[os.write(self._own, data) :]
                return
            self._put(self._records, os.fstat(self._own).st_size, UNKNOWN)
            try:
                while data:
                    data = data[self._append(data) :]
            finally:
                # A reader waits behind a record whose place is not known.
                os.ftruncate(self._index, self._records * RECORD.size)

    def _append(self, data: bytes) -> int:
        """Writes to the log, and then where that was. It grows the last record if nothing came in between."""
        written = os.write(self._own, data)
        end = os.lseek(self._own, 0, os.SEEK_CUR)
        if end - written != self._end:
            self._begin = end - written
            self._records += 1
        self._end = end
        self._put(self._records - 1, self._begin, end - self._begin)
        if data[written:]:
            self._put(self._records, end, UNKNOWN)
        return written

    def _put(self, place: int, begin: int, length: int) -> None:
        os.pwrite(self._index, RECORD.pack(begin, length), place * RECORD.size)

    def _open(self) -> None:
        """Opens the log and its index. The attempt may have put something else in their place, to which nothing is
        written."""
        if (log := _opened(self._path, _LOG, self._owner)) is None:
            return
        self._own = log[0]
        if (index := _opened(self._path + SUFFIX, _INDEX, self._user)) is not None:
            # What was written before the attempt's own command came by the same way.
            self._index, self._records = index[0], index[1] // RECORD.size


def _opened(path: str, flags: int, owner: int) -> tuple[int, int] | None:
    """The file and its size. None when it is not a file of this user, or has another name elsewhere."""
    fd = os.open(path, flags, 0o600)
    seen = os.fstat(fd)
    if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1 and seen.st_uid == owner:
        return fd, seen.st_size
    os.close(fd)
    return None


@contextlib.contextmanager
def appending(path: str, uid: int) -> Generator[int, None, None]:
    """The file for output, open."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if uid >= 0 and os.fstat(fd).st_uid != uid:
            os.fchown(fd, uid, uid)
    except OSError as error:
        raise ValueError(f"cannot write the log {path}: {error.strerror}") from None
    try:
        yield fd
    finally:
        os.close(fd)
