"""Decisions of the scheduler in segment files of bounded total size. The oldest segment is removed first.

One thread writes. Every process begins a new segment, so a torn tail is only ever the end of one, and is skipped.
A record: sizes and checksum, the names it is found by, then the body, compressed.
"""

import asyncio
import contextlib
import os
import queue
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

import structlog

from ares.adapters.disk import TenantRoom

log = structlog.get_logger()

TOTAL_BYTES = 256 * 1024 * 1024
SEGMENT_BYTES = 8 * 1024 * 1024
# With this many records waiting for the disk, new ones are dropped.
_WAITING_MAX = 4096
_MAGIC = b"ArD1"
# Magic, checksum of what follows the header, size of the names, size of the body.
_HEADER = Struct("<4sIII")
_ENDING = ".decisions"

_Item = tuple[str, str, Callable[[], bytes]]


class FileDecisions:
    """Writes and finds records. `dropped` is called with the number of records that were not stored."""

    def __init__(
        self,
        directory: Path,
        dropped: Callable[[int], None],
        total_bytes: int = TOTAL_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        room: TenantRoom | None = None,
    ) -> None:
        self._directory = directory
        self._dropped = dropped
        self._total_bytes = total_bytes
        self._segment_bytes = segment_bytes
        self._room = room or TenantRoom()
        self._items: queue.Queue[_Item | None] = queue.Queue(_WAITING_MAX)
        self._segment: Path | None = None
        self._size = 0
        self._thread: threading.Thread | None = None

    # ---- keeping

    def append(self, decision: str, job: str, make: Callable[[], bytes]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="decisions", daemon=True)
            self._thread.start()
        try:
            self._items.put_nowait((decision, job, make))
        except queue.Full:
            self._dropped(1)

    def close(self) -> None:
        """Returns when every record accepted so far is written or dropped."""
        if self._thread is not None:
            self._items.put(None)
            self._thread.join()

    def _write_all(self) -> None:
        failing = False
        while (item := self._items.get()) is not None:
            try:
                self._write(item)
                failing = False
            except Exception as error:
                # A full disk is no reason to stop scheduling, nor to fill the log.
                self._dropped(1)
                if not failing:
                    log.warning("decisions.dropped", error=str(error))
                failing = True

    def _write(self, item: _Item) -> None:
        record = _record(item)
        self._room.spare(len(record))
        if self._segment is None or self._size + len(record) > self._segment_bytes:
            self._segment, self._size = self._new_segment(), 0
            self._make_room()
        try:
            with self._segment.open("ab") as file:
                file.write(record)
        except OSError:
            # A record that is half written is a torn tail: the segment must end there.
            self._segment = None
            raise
        self._size += len(record)

    def _new_segment(self) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True)
        known = self._segments()
        number = int(known[-1].name.removesuffix(_ENDING)) + 1 if known else 1
        while True:
            path = self._directory / f"{number:012d}{_ENDING}"
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                return path
            except FileExistsError:
                number += 1

    def _make_room(self) -> None:
        """Removes the oldest segments, so that all of them, with the new one, stay within `total_bytes`."""
        segments = self._segments()
        sizes = [path.stat().st_size for path in segments]
        over = sum(sizes) + self._segment_bytes - self._total_bytes
        for path, size in zip(segments[:-1], sizes[:-1], strict=True):
            if over <= 0:
                break
            path.unlink(missing_ok=True)
            over -= size

    # ---- finding

    async def find(self, name: str) -> bytes | None:
        return await asyncio.to_thread(self._find, name.encode())

    def _find(self, name: bytes) -> bytes | None:
        for path in reversed(self._segments()):
            # The oldest segment may be removed meanwhile.
            with contextlib.suppress(OSError):
                found = [body for names, body in _records(path.read_bytes()) if name in names]
                if found:
                    return zlib.decompress(found[-1])
        return None

    def _segments(self) -> list[Path]:
        return sorted(self._directory.glob(f"*{_ENDING}"))


def _record(item: _Item) -> bytes:
    decision, job, make = item
    names, body = f"{decision} {job}".encode(), zlib.compress(make(), 1)
    return _HEADER.pack(_MAGIC, zlib.crc32(names + body), len(names), len(body)) + names + body


def _records(data: bytes) -> Iterator[tuple[list[bytes], bytes]]:
    """The records of a segment, up to the first that is torn."""
    at = 0
    while at + _HEADER.size <= len(data):
        magic, checksum, names_size, body_size = _HEADER.unpack_from(data, at)
        begin, end = at + _HEADER.size, at + _HEADER.size + names_size + body_size
        if magic != _MAGIC or end > len(data) or zlib.crc32(data[begin:end]) != checksum:
            return
        yield data[begin : begin + names_size].split(b" "), data[begin + names_size : end]
        at = end
