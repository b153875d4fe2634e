"""Audit chains in files: `CHAIN/NUMBER-TIME.jsonl`, each named by its first entry and by when it was begun.

One thread writes. Every process begins a new segment, and so does every day: whole segments are what retention removes.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from ares.model.audit import AuditHead, AuditStub
from ares.ports.audit import AuditUnavailable, Segment

SEGMENT_BYTES = 8 * 1024 * 1024
# With less free space no new action is begun, so that actions under way can still be recorded.
RESERVE_BYTES = 16 * 1024 * 1024
# On a small disk no more than this part of it: half of the reserve that jobs' files leave free.
_RESERVE_SHARE = 20
DAY_S = 86_400.0
_NAME = re.compile(r"(\d{16})-(\d{13,16})\.jsonl")
_STUB = "stub.json"
_LOCK = "lock"
_CHAINS_MAX = 16
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


T = TypeVar("T")


class _Open(NamedTuple):
    fd: int
    path: Path
    day: int


class FileAudit:
    """`ports.audit.AuditLog`. `wanted` is the name of the chain to go on with, if no other process has it open."""

    def __init__(
        self,
        directory: Path,
        wanted: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        statvfs: Callable[[Path], os.statvfs_result] = os.statvfs,
    ) -> None:
        self.chain = wanted
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._statvfs = statvfs
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._lock = -1
        self._open: _Open | None = None
        # The size of the open segment. All of it is durable.
        self._size = 0
        # A segment to be cut to its durable size before anything else is written.
        self._torn: tuple[Path, int] | None = None

    async def open(self) -> int:
        return await self._away(self._begin)

    async def append(self, first: int, at: float, lines: Sequence[bytes]) -> None:
        await self._away(lambda: self._append(first, at, b"".join(lines)))

    async def cut(self, stub: AuditStub) -> int:
        return await self._away(lambda: self._cut(stub))

    async def close(self) -> None:
        await self._away(self._end)
        self._thread.shutdown()

    async def _away(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except OSError as error:
            raise AuditUnavailable(
                f"{self._directory / self.chain}: {error.strerror}", full=error.errno in _FULL
            ) from error

    # ---- the replica's own chain

    @property
    def _home(self) -> Path:
        return self._directory / self.chain

    def _begin(self) -> int:
        self._lock_chain()
        known = self.segments(self.chain)
        if not known:
            return 0
        last = self._path(known[-1])
        data = last.read_bytes()
        torn = len(data) - (data.rfind(b"\n") + 1)
        if torn:
            _cut_to(last, len(data) - torn)
        return torn

    def _lock_chain(self) -> None:
        wanted = self.chain
        for number in range(1, _CHAINS_MAX + 1):
            self.chain = wanted if number == 1 else f"{wanted}-{number}"
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self._home / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # Another server shares this directory: it has its own chain.
                os.close(fd)
                continue
            self._lock = fd
            return
        raise AuditUnavailable(f"{self._directory / wanted} and {_CHAINS_MAX - 1} more are in use by other processes")

    def _append(self, first: int, at: float, data: bytes) -> None:
        try:
            if self._torn is not None:
                _cut_to(*self._torn)
                self._torn = None
            opened = self._segment(first, at)
            view = memoryview(data)
            while view:
                view = view[os.write(opened.fd, view) :]
            os.fdatasync(opened.fd)
        except OSError:
            self._give_up()
            raise
        self._size += len(data)

    def _segment(self, first: int, at: float) -> _Open:
        opened = self._open
        if opened is not None and self._size < self._segment_bytes and opened.day == int(at // DAY_S):
            return opened
        if opened is not None:
            os.close(opened.fd)
            self._open = None
        millis = int(at * 1000)
        while True:
            path = self._home / f"{first:016d}-{millis:013d}.jsonl"
            try:
                fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
                break
            except FileExistsError:
                millis += 1
        self._open, self._size = _Open(fd, path, int(at // DAY_S)), 0
        _sync_folder(self._home)
        return self._open

    def _give_up(self) -> None:
        """After a failed write: how much of it is on the disk is unknown, so the segment is cut to its durable size."""
        if self._open is not None:
            self._torn = (self._open.path, self._size)
            with contextlib.suppress(OSError):
                os.close(self._open.fd)
            self._open = None

    def _end(self) -> None:
        if self._torn is not None:
            with contextlib.suppress(OSError):
                _cut_to(*self._torn)
        for fd in (*([self._open.fd] if self._open else []), *([self._lock] if self._lock >= 0 else [])):
            os.close(fd)
        self._open, self._lock = None, -1

    def _cut(self, stub: AuditStub) -> int:
        _replace(self._home / _STUB, msgspec.json.encode(stub))
        known = self.segments(self.chain)
        gone = [segment for segment, after in pairwise(known) if after.seq - 1 <= stub.seq]
        for segment in gone:
            self._path(segment).unlink(missing_ok=True)
        return len(gone)

    def has_room(self) -> bool:
        try:
            disk = self._statvfs(self._home)
        except OSError:
            return False
        reserve = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // _RESERVE_SHARE)
        return disk.f_bavail * disk.f_frsize >= reserve

    # ---- any chain

    def chains(self) -> Sequence[str]:
        if not self._directory.is_dir():
            return ()
        return sorted(path.name for path in self._directory.iterdir() if path.is_dir() and not path.is_symlink())

    def segments(self, chain: str) -> Sequence[Segment]:
        folder = self._directory / chain
        names = os.listdir(folder) if folder.is_dir() else []
        found = (_NAME.fullmatch(name) for name in names)
        return sorted(Segment(chain, int(match[1]), int(match[2]) / 1000) for match in found if match)

    def lines(self, segment: Segment) -> Iterator[bytes]:
        try:
            return _lines(self._path(segment).read_bytes())
        except FileNotFoundError:
            return iter(())

    def stub(self, chain: str) -> AuditStub | None:
        try:
            return msgspec.json.decode((self._directory / chain / _STUB).read_bytes(), type=AuditStub)
        except FileNotFoundError:
            return None

    def _path(self, segment: Segment) -> Path:
        return self._directory / segment.chain / f"{segment.seq:016d}-{round(segment.at * 1000):013d}.jsonl"


class FileHeads:
    """`ports.audit.HeadCopy`: heads as lines, in a file or in one file per chain of a directory."""

    def __init__(self, where: Path) -> None:
        self._where = where

    def keep(self, head: AuditHead) -> None:
        path = self._where / f"{head.chain}.heads.jsonl" if self._where.is_dir() else self._where
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, msgspec.json.encode(head) + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)


def read_heads(where: Path) -> list[AuditHead]:
    """The heads that `FileHeads` wrote there."""
    paths = sorted(where.glob("*.heads.jsonl")) if where.is_dir() else [where]
    return [msgspec.json.decode(line, type=AuditHead) for path in paths for line in path.read_bytes().splitlines()]


def _lines(data: bytes) -> Iterator[bytes]:
    """Lines ended by line feeds only: other line breaks are part of the text."""
    parts = data.split(b"\n")
    yield from (part + b"\n" for part in parts[:-1])
    if parts[-1]:
        yield parts[-1]


def _cut_to(path: Path, size: int) -> None:
    if size == 0:
        path.unlink(missing_ok=True)
        _sync_folder(path.parent)
        return
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        os.fsync(fd)
    finally:
        os.close(fd)


def _replace(path: Path, data: bytes) -> None:
    new = path.with_suffix(".new")
    fd = os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    new.replace(path)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
