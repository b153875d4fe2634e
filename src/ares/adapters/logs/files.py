"""Job output as plain files: `root/tenant/xx/job/attempt-rank.log`.

Durability: a returned size is in the operating system's hands, so the death of this process loses
nothing that was acknowledged. There is no fsync: a power failure may lose the last moments of
output. The state of record never depends on a log.
"""

import contextlib
import os
import re
import struct
import time
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from ares.adapters.disk import TenantRoom, entered, of_job, write_all

_LOG_NAME = re.compile(r"(\d{1,9})-(\d{1,9})\.log", re.ASCII)
_SPANS_NAME = re.compile(r"(\d{1,9})-(\d{1,9})\.spans", re.ASCII)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NUMBER_MAX = 999_999_999
# A mark is written when output goes on in another minute: when, and at which offset.
_MARK_S = 60.0
_MARK = struct.Struct("<dQ")
# Begin and end of what was written to stderr.
_RANGE = struct.Struct("<QQ")
_RANGES_MAX = 100_000
_RANGES_READ = 1024
# More than two months of output in every minute.
_MARKS_MAX = 100_000


class FileLogs:
    """The Logs port. Every step of a path is opened without following links."""

    def __init__(self, root: Path, room: TenantRoom | None = None) -> None:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = root
        self._room = room or TenantRoom()

    def append(
        self,
        tenant: str,
        job: str,
        attempt: int,
        rank: int,
        offset: int,
        data: bytes,
        *,
        note: bool = False,
        stderr: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Keeps only bytes beyond the end: a repeat changes nothing. With a gap nothing is written, and
        the returned size says where to go on from."""
        name = _log_name(attempt, rank)
        if offset < 0:
            raise ValueError(f"log offset {offset} is negative")
        if data and not note:
            self._room.spare(len(data))
        with self._job_dir(tenant, job, create=True) as folder:
            assert folder is not None
            fd = os.open(name, _WRITE, 0o600, dir_fd=folder)
            try:
                known = os.fstat(fd)
                size = known.st_size
                fresh = memoryview(data)[max(0, size - offset) :]
                if offset > size or not fresh:
                    return size
                if not note:
                    self._room.charge(tenant, len(fresh), files=not size)
                now = time.time()
                if size and known.st_mtime // _MARK_S != now // _MARK_S:
                    self._mark(folder, tenant, f"{attempt}-{rank}.times", now, size)
                if stderr:
                    # Ahead of the bytes: a reader that finds those finds what they are.
                    self._tell_apart(folder, tenant, f"{attempt}-{rank}.err", stderr, size, size + len(fresh))
                return write_all(fd, fresh, size)
            finally:
                os.close(fd)

    def read(self, tenant: str, job: str, attempt: int, rank: int, offset: int, limit: int) -> bytes:
        with self._log(tenant, job, attempt, rank) as fd:
            return b"" if fd is None else os.pread(fd, max(0, limit), max(0, offset))

    def size(self, tenant: str, job: str, attempt: int, rank: int) -> int:
        with self._log(tenant, job, attempt, rank) as fd:
            return 0 if fd is None else os.fstat(fd).st_size

    def _mark(self, folder: int, tenant: str, name: str, now: float, size: int) -> None:
        """At which offset a minute's output begins. A short job never writes one; one that is lost only makes
        `offset_since` less exact."""
        with contextlib.suppress(OSError):
            fd = os.open(name, _WRITE | os.O_APPEND, 0o600, dir_fd=folder)
            try:
                self._room.charge(tenant, _MARK.size, files=not os.fstat(fd).st_size)
                os.write(fd, _MARK.pack(now, size))
            finally:
                os.close(fd)

    def _tell_apart(
        self, folder: int, tenant: str, name: str, ranges: Sequence[tuple[int, int]], begin: int, end: int
    ) -> None:
        """Notes the ranges between `begin` and `end`. They stay in order and apart, whatever an agent says: of a piece
        that came twice, the first counts. Where there is no room for that, the output is kept all the same."""
        with contextlib.suppress(OSError):
            fd = os.open(name, _WRITE, 0o600, dir_fd=folder)
            try:
                records = os.fstat(fd).st_size // _RANGE.size
                if records:
                    last = _RANGE.unpack(os.pread(fd, _RANGE.size, (records - 1) * _RANGE.size))
                    begin = max(begin, last[1])
                fresh = list[bytes]()
                for low, high in ranges[: max(0, _RANGES_MAX - records)]:
                    if max(begin, low) < min(end, high):
                        fresh.append(_RANGE.pack(max(begin, low), min(end, high)))
                        begin = high
                if fresh:
                    self._room.charge(tenant, len(fresh) * _RANGE.size, files=not records)
                    # Over what is left of a record that a full disk cut off.
                    write_all(fd, memoryview(b"".join(fresh)), records * _RANGE.size)
            finally:
                os.close(fd)

    def stderr(
        self, tenant: str, job: str, attempt: int, rank: int, begin: int, end: int
    ) -> tuple[tuple[int, int], ...]:
        with self._job_dir(tenant, job) as folder:
            if folder is None:
                return ()
            try:
                fd = os.open(f"{attempt}-{rank}.err", _READ, dir_fd=folder)
            except FileNotFoundError:
                return ()
            with open(fd, "rb", buffering=0) as file:
                return tuple(_between(file.fileno(), begin, end))

    def offset_since(self, tenant: str, job: str, attempt: int, rank: int, at: float) -> int:
        with self._job_dir(tenant, job) as folder:
            if folder is None:
                return 0
            try:
                last = os.stat(_log_name(attempt, rank), dir_fd=folder, follow_symlinks=False)
                if last.st_mtime < at:
                    return last.st_size
                fd = os.open(f"{attempt}-{rank}.times", _READ, dir_fd=folder)
            except FileNotFoundError:
                return 0
            with open(fd, "rb") as file:
                raw = file.read(_MARKS_MAX * _MARK.size)
        marks = _MARK.iter_unpack(raw[: len(raw) // _MARK.size * _MARK.size])
        # The newest mark that is not later; output between two marks has the time of the first.
        return max((offset for marked_at, offset in marks if marked_at <= at), default=0)

    def ranks(self, tenant: str, job: str, attempt: int) -> tuple[int, ...]:
        with self._job_dir(tenant, job) as folder:
            if folder is None:
                return ()
            found = (_LOG_NAME.fullmatch(name) for name in os.listdir(folder))
            return tuple(sorted(int(log[2]) for log in found if log is not None and int(log[1]) == attempt))

    def append_spans(self, tenant: str, job: str, attempt: int, rank: int, data: bytes, most: int) -> bool:
        name = f"{_log_name(attempt, rank).removesuffix('.log')}.spans"
        self._room.spare(len(data) + 1)
        with self._job_dir(tenant, job, create=True) as folder:
            assert folder is not None
            fd = os.open(name, _WRITE, 0o600, dir_fd=folder)
            try:
                size = os.fstat(fd).st_size
                if size + len(data) + 1 > most:
                    return False
                self._room.charge(tenant, len(data) + 1, files=not size)
                write_all(fd, memoryview(data + b"\n"), size)
            finally:
                os.close(fd)
        return True

    def spans(self, tenant: str, job: str, most: int) -> list[tuple[int, int, bytes]]:
        found: list[tuple[int, int, bytes]] = []
        with self._job_dir(tenant, job) as folder:
            names = () if folder is None else map(_SPANS_NAME.fullmatch, os.listdir(folder))
            places = sorted((int(name[1]), int(name[2])) for name in names if name is not None)
            for attempt, rank in places:
                with contextlib.suppress(FileNotFoundError):
                    fd = os.open(f"{attempt}-{rank}.spans", _READ, dir_fd=folder)
                    with open(fd, "rb", buffering=0) as file:
                        data = file.read(most) or b""
                    most -= len(data)
                    found.append((attempt, rank, data))
        return found

    def delete(self, tenant: str, job: str) -> None:
        with self._job_dir(tenant, job) as folder:
            if folder is None:
                return
            for name in os.listdir(folder):
                self._room.give_back(tenant, os.stat(name, dir_fd=folder, follow_symlinks=False).st_size, 1)
                os.unlink(name, dir_fd=folder)
        with entered(self._root, of_job(tenant, job)[:-1]) as above:
            if above is not None:
                os.rmdir(job, dir_fd=above)

    # ---- paths

    @contextlib.contextmanager
    def _log(self, tenant: str, job: str, attempt: int, rank: int) -> Generator[int | None]:
        name = _log_name(attempt, rank)
        with self._job_dir(tenant, job) as folder, contextlib.ExitStack() as stack:
            fd = None
            if folder is not None:
                with contextlib.suppress(FileNotFoundError):
                    fd = os.open(name, _READ, dir_fd=folder)
                    stack.callback(os.close, fd)
            yield fd

    def _job_dir(self, tenant: str, job: str, *, create: bool = False) -> contextlib.AbstractContextManager[int | None]:
        return entered(self._root, of_job(tenant, job), create=create)


def _between(fd: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges of an index that lie there, cut to it."""

    def ends(place: int) -> int:
        return _RANGE.unpack(os.pread(fd, _RANGE.size, place * _RANGE.size))[1]

    records = min(_RANGES_MAX, os.fstat(fd).st_size // _RANGE.size)
    place = bisect_right(range(records), begin, key=ends)
    while place < records:
        raw = os.pread(fd, min(_RANGES_READ, records - place) * _RANGE.size, place * _RANGE.size)
        for low, high in _RANGE.iter_unpack(raw):
            if low >= end:
                return
            yield max(begin, low), min(end, high)
        place += _RANGES_READ


def _log_name(attempt: int, rank: int) -> str:
    if not (0 <= attempt <= _NUMBER_MAX and 0 <= rank <= _NUMBER_MAX):
        raise ValueError(f"attempt {attempt} rank {rank} is out of range")
    return f"{attempt}-{rank}.log"
