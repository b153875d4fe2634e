"""One rank of an attempt on this node, from its Start to the acknowledgement of its last report."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from ares.agent.attempts.secret_store import SecretGuard
from ares.agent.attempts.workspace import Folder
from ares.agent.files.job_files import read_progress
from ares.agent.files.spool import Tail
from ares.agent.files.upload import Upload
from ares.agent.link.outbox import Key
from ares.model.link import Progress, Start, WorldInfo
from ares.model.state import ExitInfo
from ares.ports.executor import Running


@dataclass(slots=True, eq=False)
class Attempt:
    """Mutable and owned by `Attempts`."""

    start: Start
    folder: Folder
    tail: Tail
    deadline: float
    # Who takes part now; `start` has who did then.
    world: WorldInfo
    # The deadline moved since it was handed to the executor.
    extended: bool = False
    running: Running | None = None
    # Set when the attempt may not go on: it will be reported as fenced, not as exited.
    fenced: str = ""
    timed_out: bool = False
    # It was asked to end.
    ending: bool = False
    # It was told to save its work and is left the time for it.
    saving: bool = False
    # Why the agent ended it, told with its exit.
    note: str = ""
    timers: list[asyncio.TimerHandle] = field(default_factory=list[asyncio.TimerHandle])
    # How it ended and what it gave, while its files are handed over.
    outcome: tuple[ExitInfo, bytes] | None = None
    upload: Upload | None = None
    # Of an attempt that has secrets.
    cover: SecretGuard | None = None
    # Number of the final report once every process is gone.
    final: int | None = None
    # The final report was acknowledged.
    heard: bool = False
    progress_seen: tuple[int, int] = (0, 0)

    @property
    def key(self) -> Key:
        return self.start.ref, self.start.placement.rank

    @property
    def ended(self) -> bool:
        return self.final is not None

    @property
    def handing_over(self) -> bool:
        """All its processes are gone, and its files are not all kept yet."""
        return self.outcome is not None and not self.ended

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Not any more once it has ended."""
        self.timers.append(asyncio.get_running_loop().call_later(seconds, action))

    def progress(self) -> Progress | None:
        """What it wrote about itself since the last look."""
        try:
            seen = os.lstat(self.folder.progress)
        except OSError:
            return None
        stamp = (seen.st_ino, seen.st_mtime_ns)
        if stamp == self.progress_seen:
            return None
        self.progress_seen = stamp
        note, (ref, rank) = read_progress(self.folder.progress), self.key
        if note is None:
            return None
        message = note.message if self.cover is None else self.cover.text(note.message)
        return Progress(ref=ref, rank=rank, fraction=note.fraction, message=message)

    def cancel_timers(self) -> None:
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()
