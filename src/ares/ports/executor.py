"""Runs processes on this machine, contained so that nothing outlives its attempt."""

import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Final, Literal, Protocol, runtime_checkable

import msgspec

from ares.model.isolation import Isolation, Network
from ares.model.node import Containment

# The index beside a log, named by this ending: which bytes of the log were written to stderr, by records of begin and
# length in the order of the log. The length STDERR_UNKNOWN: from there on there is more, and where is not known yet.
STDERR_INDEX: Final = ".err"
STDERR_RECORD: Final = struct.Struct("<QQ")
STDERR_UNKNOWN: Final = 2**64 - 1
# No index has more records. What comes after counts as stdout.
STDERR_RECORDS_MAX: Final = 100_000


class Pin(msgspec.Struct, frozen=True, gc=False):
    """The NUMA node a process takes its CPUs and memory from. Where the kernel refuses, a `required` one does not
    start; another starts all the same and says so in its log."""

    node: int
    cpus: tuple[int, ...]
    required: bool


class ImageFiles(msgspec.Struct, frozen=True, gc=False):
    """The image that an attempt runs in, unpacked on this node."""

    # Its files, which the attempt cannot change, and an empty directory for what the attempt changes of them.
    root: str
    layer: str
    # Directories in it that are made if it lacks them; empty for none.
    home: str = ""
    workdir: str = ""


class NodeFolder(msgspec.Struct, frozen=True, gc=False):
    """A directory of the node that an attempt may use, as it was found: another that took its place is not meant."""

    path: str
    device: int
    inode: int


class Launch(msgspec.Struct, frozen=True, gc=False):
    """Everything needed to start one attempt's rank. Output goes to `log_path`, appended. What is written to stderr is
    told apart by the index beside it (STDERR_INDEX), unless `stderr_path` names another file for it.

    `deadline` is a reading of `Clock.monotonic`: the supervisor of the process kills it then, without the agent's help,
    so that a frozen agent's jobs die when their right to run ends."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    log_path: str
    # The attempt is ended when it uses more memory.
    memory_mib: int
    # The attempt's weight against other attempts where CPUs are short.
    cpu_milli: int
    file_bytes_max: int
    processes_max: int
    open_files_max: int
    stderr_path: str = ""
    deadline: float = inf
    # The most CPU time the attempt gets, also where CPUs are idle; 0 sets no such limit.
    cpu_limit_milli: int = 0
    # Added to what this executor was given: how early the attempt is ended where the node's memory is short.
    oom_score_adj: int = 0
    pin: Pin | None = None
    # The attempt does not start where it cannot be isolated at least this well.
    isolation: Isolation = "any"
    network: Network = "host"
    # The tenant: what ran for one tenant is never used for another.
    owner: str = ""
    # The attempt's own directories, in a sandbox the only places it may write to, and the user it runs as.
    folders: tuple[str, ...] = ()
    uid: int | None = None
    # None: the attempt sees the machine's own files.
    image: ImageFiles | None = None
    # Beside those: directories that it may only read, and directories of its tenant that it may write to.
    shown: tuple[NodeFolder, ...] = ()
    kept: tuple[NodeFolder, ...] = ()


class Sandbox(msgspec.Struct, frozen=True, gc=False):
    """How well attempts can be isolated, and by what parts."""

    level: Isolation = "any"
    parts: tuple[str, ...] = ()


class Finished(msgspec.Struct, frozen=True, gc=False):
    """The main process ended and every other process of the attempt is gone."""

    code: int | None
    signal: int | None
    oom: bool
    max_rss_mib: int
    cpu_s: float
    # The attempt was killed because its deadline passed.
    expired: bool = False
    # The attempt wanted more processes than it may have.
    crowded: bool = False


class CannotStart(msgspec.Struct, frozen=True, gc=False):
    """The process never ran: no such command, no permission, no such directory."""

    message: str
    # The deadline had passed already.
    expired: bool = False
    # The command was handed over and no word came back: it may have run, however briefly.
    uncertain: bool = False


# Of a session's output. A terminal has only the first.
OutputStream = Literal["out", "err"]


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A session in a running attempt: a command, with a terminal or without, or a connection to a port."""

    argv: Sequence[str] = ()
    env: Mapping[str, str] = {}
    cwd: str = "/"
    tty: bool = False
    rows: int = 24
    cols: int = 80
    # The port to connect to, on which a process of the attempt must listen. 0: the command is run.
    port: int = 0
    # The text of a Python program, with `argv` as its arguments, for an attempt in an image that may have no Python.
    script: str = ""


class Entered(Protocol):
    """A session that was opened. It ends with the attempt at the latest, and all its processes with it."""

    async def read(self) -> tuple[OutputStream, bytes]:
        """The next bytes of output, as they come; empty when no more will. Nothing is read ahead of the caller."""
        ...

    async def write(self, data: bytes) -> None:
        """Returns when the session has taken the bytes. A session that takes no more drops them."""
        ...

    def end_input(self) -> None:
        """No more will be written."""
        ...

    def resize(self, rows: int, cols: int) -> None:
        """The size of its terminal."""
        ...

    async def exit_code(self) -> int | None:
        """Once it has ended; None when the attempt ended first, or it was hung up."""
        ...

    def hang_up(self) -> None:
        """Ends it with all its processes."""
        ...


@runtime_checkable
class Enterable(Protocol):
    """A started attempt that sessions can be opened in."""

    async def enter(self, entry: Entry) -> Entered | CannotStart: ...


class Running(Protocol):
    """One started attempt."""

    @property
    def pid(self) -> int:
        """0 when the process had ended before its pid could be read."""
        ...

    def signal(self, signum: int) -> None:
        """Sends the signal to the main process's group."""
        ...

    def tell(self, signum: int) -> None:
        """Sends the signal to each process of the attempt that has a handler for it by now, and to no other."""
        ...

    def kill(self) -> None:
        """SIGKILL to every process of the attempt."""
        ...

    def extend(self, deadline: float) -> None:
        """Moves the deadline given at the start."""
        ...

    def on_finished(self, callback: Callable[[Finished], None]) -> None: ...


class Executor(Protocol):
    async def open(self) -> None:
        """Prepares containment and ends whatever an earlier incarnation left behind."""
        ...

    def isolation(self) -> tuple[Containment, ...]: ...

    def sandbox(self) -> Sandbox:
        """The isolation that was tried and works here, once the executor is open."""
        ...

    def start(self, launch: Launch) -> Awaitable[Running | CannotStart]: ...

    async def close(self) -> None:
        """Kills everything still running."""
        ...


class Caller(Protocol):
    """A process that called, by the kernel's word."""

    @property
    def pid(self) -> int:
        """As the agent sees it; 0 when it cannot."""
        ...

    @property
    def uid(self) -> int: ...

    async def read(self, size: int) -> bytes:
        """All of them. Raises OSError, and EOFError when the caller hung up."""
        ...

    async def send(self, data: bytes) -> None:
        """Raises OSError."""
        ...

    def close(self) -> None: ...


class Door(Protocol):
    async def caller(self) -> Caller:
        """The next that calls."""
        ...

    def close(self) -> None: ...


class Doors(Protocol):
    def open(self, folder: str, name: str) -> Door:
        """A door of this name in the directory, which no job has had yet. Raises OSError."""
        ...
