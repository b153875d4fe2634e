"""One rank of an attempt on this node, from its Start to the acknowledgement of its last report."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ares.agent.attempts.secret_store import SecretGuard
from ares.agent.attempts.workspace import Folder
from ares.agent.files.job_files import read_progress
from ares.agent.files.saving import RankSaving
from ares.agent.files.spool import Tail
from ares.agent.files.upload import Upload
from ares.agent.link.outbox import Key
from ares.agent.staging.images import StagedImage
from ares.agent.staging.node_environment import ReadyEnvironment
from ares.model.link import Progress, Start, WorldInfo
from ares.model.state import ExitInfo
from ares.ports.executor import Running


class Closable(Protocol):
    def close(self) -> None: ...


@dataclass(slots=True, eq=False)
class Attempt:
    """One rank of an attempt, mutable, owned by `Attempts`. Its states, in order, and the collection that holds each:

    - held: its Start came while the node had no valid lease. `Attempts._held` has the Start until the next renewal.
    - staging: its files and its image are fetched, its environment is made. `Attempts._live`, `staging` is set.
    - starting: the executor was asked for a process and has not answered. `Attempts._live`, `running` is None.
    - running: the executor has a process for it. `Attempts._live`, `running` is set.
    - ending: it was told to end. `Attempts._live`, `ending` is set; `timers` has the next signal.
    - handing over: its processes are gone and its output files are uploaded. `Attempts._live`, `outcome` is set.
    - ended: its final report is under way. `Attempts._live`, `final` is the report's number in the `Outbox`.
    - heard: the report was acknowledged; its log is not all stored yet. `Attempts._live`, `heard` is set.
    - over: nothing of it is left on the node. `Attempts._over` has its key, so that a repeated Start does no harm.

    An attempt leaves out the states it has no need for. A `fenced` attempt may be in any state from starting on.
    """

    start: Start
    folder: Folder
    tail: Tail
    # When the attempt's right to run ends, by the agent's monotonic clock.
    deadline: float
    # The gang as it is now. `start.world` is the gang as it was at the start.
    world: WorldInfo
    # The deadline has moved since the executor was given it.
    extended: bool = False
    # Its files are being fetched and unpacked, and its Python environment is found or built.
    staging: "asyncio.Task[None] | None" = None
    # The image that it runs in.
    image: StagedImage | None = None
    # The process that builds its Python environment, and the environment that it has.
    building: Running | None = None
    python: ReadyEnvironment | None = None
    # What is not as it asked for: told with its start.
    remark: str = ""
    # The process, while it runs, and when it began, by the agent's monotonic clock.
    running: Running | None = None
    began: float = 0.0
    # Why the attempt may not go on. With it the end is reported as Fenced, not as Exited.
    fenced: str = ""
    # The rank that failed before it, by its runtime's word.
    blames: int | None = None
    # It reached its time limit.
    timed_out: bool = False
    # It was told to end.
    ending: bool = False
    # It was told to save its work, and its time for that is not over.
    saving: bool = False
    # What comes after that, between SIGTERM and SIGKILL.
    grace_s: float = 0.0
    # Why the agent ended it: part of the exit message.
    note: str = ""
    # Timers of the time limit, of signals and of repeated uploads. The end of the processes cancels them.
    timers: list[asyncio.TimerHandle] = field(default_factory=list[asyncio.TimerHandle])
    # Those of them that are of its time limit.
    limits: list[asyncio.TimerHandle] = field(default_factory=list[asyncio.TimerHandle])
    # Its exit and its result, kept while its output files are uploaded.
    outcome: tuple[ExitInfo, bytes] | None = None
    upload: Upload | None = None
    # Its checkpoints. None: it saves none.
    checkpoints: RankSaving | None = None
    # Its processes are gone, and its last checkpoint is on its way: its outputs and its end come after that.
    parting: bool = False
    # A checkpoint of it is kept although it was told to end.
    may_save: bool = True
    # Masks its output. None: the job has no secrets.
    cover: SecretGuard | None = None
    # By which it submits jobs. None: it may submit none.
    door: Closable | None = None
    # Number of the final report. Invariant: set only when no process of the attempt is left.
    final: int | None = None
    # The final report was acknowledged. Invariant: only with `final`.
    heard: bool = False
    # Inode and time of the progress file as it was last read.
    progress_seen: tuple[int, int] = (0, 0)

    @property
    def key(self) -> Key:
        return self.start.ref, self.start.placement.rank

    @property
    def number(self) -> int:
        return self.start.attempt

    @property
    def writes(self) -> bool:
        """Whether more output may come."""
        return self.running is not None or self.staging is not None

    @property
    def ended(self) -> bool:
        return self.final is not None

    @property
    def handing_over(self) -> bool:
        """All its processes are gone, and the control plane does not have all its output files yet."""
        return self.outcome is not None and not self.ended

    def later(self, seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        """Runs the action after that time, unless `settle` comes first."""
        timer = asyncio.get_running_loop().call_later(seconds, action)
        self.timers.append(timer)
        return timer

    def progress(self) -> Progress | None:
        """The progress that the job wrote since the last look, None when there is none."""
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

    def settle(self) -> None:
        """Its processes are gone: its timers go, and its way to submit jobs."""
        if self.door is not None:
            self.door.close()
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


# Opens the way by which an attempt that runs as this user submits jobs; None: it may submit none.
OpenDoor = Callable[[Attempt, int | None], Closable | None]


def no_door(attempt: Attempt, uid: int | None) -> None:
    """For nodes that have no such way."""
