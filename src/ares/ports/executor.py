"""Runs processes on this machine, contained so that nothing outlives its attempt."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ares.model.node import Containment


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything needed to start one attempt's rank. Output goes to `log_path`, appended."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    log_path: str
    memory_mib: int
    cpu_milli: int
    file_bytes_max: int
    processes_max: int
    open_files_max: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The main process ended and every other process of the attempt is gone."""

    code: int | None
    signal: int | None
    oom: bool
    max_rss_mib: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class CannotStart:
    """The process never ran: no such command, no permission, no such directory."""

    message: str


class Running(Protocol):
    """One started attempt."""

    @property
    def pid(self) -> int: ...

    def signal(self, signum: int) -> None:
        """To the main process's group."""
        ...

    def kill(self) -> None:
        """SIGKILL to every process of the attempt."""
        ...

    def on_finished(self, callback: Callable[[Finished], None]) -> None: ...


class Executor(Protocol):
    async def open(self) -> None:
        """Prepares containment and ends whatever an earlier incarnation left behind."""
        ...

    def isolation(self) -> tuple[Containment, ...]: ...

    def start(self, launch: Launch) -> Awaitable[Running | CannotStart]: ...

    async def close(self) -> None:
        """Kills everything still running."""
        ...
