"""What a job leaves in its checkpoint directory: noticed, read, and told how far it is. None of it is trusted.

A job makes `.new-NAME/`, writes in it and renames it to its number. The directory is opened before the job starts and
used by descriptor: whatever the job puts in its place, nothing outside it is read or removed.
"""

import contextlib
import json
import os
import re
import shutil
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Final

import msgspec

from ares.agent.files.job_files import read_bounded
from ares.agent.files.outputs import FoundFile
from ares.core.checkpoint import FIRST_STALL_S
from ares.model.base import Instant, Number
from ares.model.checkpoint import Metrics

DUE: Final = ".due"
STATUS: Final = ".status"
_NOTE_BYTES_MAX: Final = 16 * 1024
_ENTRIES_MAX: Final = 1000
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class CheckpointNote(msgspec.Struct, frozen=True, rename="camel"):
    """What `NUMBER.json` beside a checkpoint says of it. Other fields are the job's own."""

    step: Number | None = None
    metrics: Metrics = {}
    stall_s: Annotated[float, msgspec.Meta(ge=0.0, le=1e7)] | None = None
    taken_at: Instant | None = None


_decode = msgspec.json.Decoder(CheckpointNote).decode


@dataclass(slots=True, eq=False)
class RankSaving:
    """The checkpoints of one rank of an attempt, mutable. `every_s`: how often one is due."""

    fd: int
    every_s: float
    # By the agent's monotonic clock: when the last one was saved, or the process began.
    since: float = 0.0
    due: bool = False
    stall_s: float = FIRST_STALL_S
    upload_s: float = 0.0
    # The newest number that was looked at, and those that wait for their turn.
    newest: int = -1
    waiting: list[int] = field(default_factory=list[int])
    # The number that is on its way, what is known of it, since when, and the report of it.
    busy: int | None = None
    note: CheckpointNote = field(default_factory=CheckpointNote)
    began: float = 0.0
    report: int | None = None
    # The newest number that is kept.
    saved: int = -1
    # Numbers to be removed, and whether a thread removes some now.
    going: list[int] = field(default_factory=list[int])
    removing: bool = False
    # The newest number that was there when the attempt was told to end: a newer one is its last.
    told_at: int | None = None

    @property
    def root(self) -> str:
        """The directory, whatever has its name by now."""
        return f"/proc/self/fd/{self.fd}"

    @property
    def pending(self) -> bool:
        return self.busy is not None or bool(self.waiting)

    def duplicate(self) -> int:
        return os.dup(self.fd)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def open_directory(path: str) -> int:
    """Makes the directory of an attempt that has not started."""
    os.mkdir(path, 0o700)
    return os.open(path, _DIRECTORY)


def numbers_in(fd: int) -> list[int]:
    """The checkpoints that are there, in order."""
    try:
        with os.scandir(fd) as entries:
            return sorted(
                int(entry.name)
                for entry in islice(entries, _ENTRIES_MAX)
                if _NUMBER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


def read_note(root: str, seq: int) -> CheckpointNote:
    try:
        return _decode(read_bounded(f"{root}/{seq}.json", _NOTE_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return CheckpointNote()


def written_in_s(found: tuple[FoundFile, ...]) -> float:
    """How long the files were written, as far as their times tell."""
    times = [file.stamp[2] for file in found]
    return min(1e6, (max(times) - min(times)) / 1e9) if times else 0.0


def set_due(fd: int, due: bool) -> None:
    """A file by which the job sees that a checkpoint is due."""
    with contextlib.suppress(OSError):
        if due:
            os.close(os.open(DUE, _NEW, 0o644, dir_fd=fd))
        else:
            os.unlink(DUE, dir_fd=fd)


def tell(fd: int, status: dict[str, int | str]) -> None:
    """What became of the checkpoints, for a job that waits for it."""
    draft = f"{STATUS}.new"
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=fd)
        with open(os.open(draft, _NEW, 0o644, dir_fd=fd), "w") as file:
            os.fchmod(file.fileno(), 0o644)
            json.dump(status, file)
        os.replace(draft, STATUS, src_dir_fd=fd, dst_dir_fd=fd)


def remove(fd: int, seq: int) -> None:
    """A checkpoint and its note. May take long: call it in a thread."""
    # A tree too deep for it goes with the attempt's directory.
    with contextlib.suppress(RecursionError):
        shutil.rmtree(str(seq), ignore_errors=True, dir_fd=fd)
    with contextlib.suppress(OSError):
        os.unlink(f"{seq}.json", dir_fd=fd)
