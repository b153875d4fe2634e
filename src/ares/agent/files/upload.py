"""The upload of one attempt's output files: how much of each was sent and stored, and which are sealed."""

import contextlib
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from ares.agent.files.outputs import FoundFile, Stamp, opened, stamp_of
from ares.agent.transfer.upload_pace import UploadPace
from ares.model.link import OutputAck
from ares.model.state import OutputFile

CHUNK_BYTES_MAX = 256 * 1024
# How often a file is sent again when the control plane could not store it.
TRIES_MAX = 6
# Pause before the first repetition. It doubles each time, to some ten seconds in all.
PAUSE_S = 0.2


class Piece(msgspec.Struct, frozen=True, gc=False):
    sha256: str
    size: int
    offset: int
    data: bytes


@dataclass(slots=True, eq=False)
class _FileUpload:
    """One file and its progress. Files with the same content are one part."""

    file: OutputFile
    stamp: Stamp
    sent: int = 0
    kept: int = 0
    # A piece of it was sent in this session.
    told: bool = False
    sealed: bool = False
    tries: int = 0
    # It pauses before it is sent again.
    resting: bool = False
    queued: bool = True

    @property
    def waiting(self) -> bool:
        """Whether there is something to send."""
        return not (self.sealed or self.resting) and (self.sent < self.file.size or not self.told)


class Upload:
    """Sends the files. `failed` is called once, with the reason, when a file cannot be sent as it was found. `seq`: the
    checkpoint that they are; None: they are outputs."""

    def __init__(
        self,
        root: str,
        found: tuple[FoundFile, ...],
        failed: Callable[[str], None],
        pace: UploadPace,
        seq: int | None = None,
    ) -> None:
        self._root = root
        self._pace = pace
        self.seq = seq
        self._failed = failed
        self.files = tuple(output.file for output in found)
        self._parts = {output.file.sha256: _FileUpload(output.file, output.stamp) for output in found}
        self._left = len(self._parts)
        self._queue = deque(self._parts.values())
        self._reading: tuple[_FileUpload, int] | None = None
        self._open = contextlib.ExitStack()

    def hurry(self) -> None:
        """It goes before what its tenant sends otherwise."""
        self._pace.hurry()

    @property
    def settled(self) -> bool:
        """All files are sealed."""
        return self._left == 0

    @property
    def in_flight(self) -> int:
        return sum(part.sent - part.kept for part in self._parts.values() if not part.sealed)

    # ---- sending

    def piece(self, room: int) -> Piece | None:
        """The next piece to send, of at most `room` bytes."""
        while self._queue:
            part = self._queue[0]
            if not part.waiting:
                part.queued = False
                self._queue.popleft()
                continue
            wanted = min(CHUNK_BYTES_MAX, part.file.size - part.sent)
            if wanted and (room <= 0 or (room := min(room, self._pace.room(wanted))) <= 0):
                return None
            data = self._read(part, min(wanted, room)) if wanted else b""
            if data is None:
                self._pace.rewound()
                return None
            self._pace.sent(len(data))
            offset, part.told = part.sent, True
            part.sent += len(data)
            return Piece(part.file.sha256, part.file.size, offset, data)
        return None

    def _read(self, part: _FileUpload, length: int) -> bytes | None:
        try:
            if self._reading is None or self._reading[0] is not part:
                self._close_file()
                self._reading = (part, self._open.enter_context(opened(self._root, part.file.path)))
            fd = self._reading[1]
            data = os.pread(fd, length, part.sent) if stamp_of(fd) == part.stamp else b""
        except OSError as error:
            self._give_up(part, str(error.strerror))
            return None
        if not data:
            self._give_up(part, "it changed while it was sent")
            return None
        return data

    def _give_up(self, part: _FileUpload, why: str) -> None:
        self.close()
        self._queue.clear()
        self._failed(f"{part.file.path!r}: {why}")

    # ---- answers

    def acked(self, ack: OutputAck) -> float | None:
        """Takes an answer. Returns the seconds after which `again` must be called with the digest, None for never."""
        part = self._parts.get(ack.sha256)
        self._pace.answered(kept=not ack.trouble)
        if part is None or (ack.trouble and part.resting):
            return None
        if ack.sealed:
            self._left -= not part.sealed
            part.sealed, part.sent, part.kept = True, part.file.size, part.file.size
            return None
        if ack.trouble:
            return self._troubled(part, ack)
        if ack.offset < part.kept:
            part.sent = ack.offset
        part.kept = min(ack.offset, part.file.size)
        part.sent = max(part.sent, part.kept)
        self._enqueue(part)
        return None

    def _troubled(self, part: _FileUpload, ack: OutputAck) -> float | None:
        part.tries += not self._pace.patient
        if part.tries > TRIES_MAX:
            self._give_up(part, f"{ack.trouble}; it was sent {part.tries} times")
            return None
        self._left += part.sealed
        part.sealed, part.told, part.resting = False, False, True
        part.sent = part.kept = min(ack.offset, part.file.size)
        return PAUSE_S * 2 ** max(0, part.tries - 1)

    def again(self, sha256: str) -> None:
        part = self._parts[sha256]
        part.resting = False
        self._enqueue(part)

    def rewind(self) -> None:
        """A new session: what was not acknowledged may be lost."""
        self._pace.rewound()
        for part in self._parts.values():
            if not part.sealed:
                part.sent, part.told = part.kept, False
                self._enqueue(part)

    def _enqueue(self, part: _FileUpload) -> None:
        if part.waiting and not part.queued:
            part.queued = True
            self._queue.append(part)

    def _close_file(self) -> None:
        self._reading = None
        self._open.close()

    def close(self) -> None:
        self._close_file()
        self._pace.close()
