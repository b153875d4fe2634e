"""Sessions in a running job, and jobs that it submits: what travels between client, replica and its node's agent.

A session lives on the node, in the attempt. A client attaches to it, loses its connection and attaches again: output
and input have absolute offsets, and each side keeps what the other has not confirmed. So nothing is lost, and nothing
is typed twice.

Whatever arrives is bounded in every field, and decoding is where that is checked.
"""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import Line, Number, Record, Words
from ares.model.job import CHILDREN_MAX
from ares.model.link import AttemptRef, Rank

# Bytes of one piece of input or output.
PIECE_BYTES_MAX = 32 * 1024
# Bytes under way in one direction that the other end has not confirmed.
WINDOW_BYTES = 512 * 1024
# What a terminal said while no client was there: the newest of it is kept.
RING_BYTES = 128 * 1024
SESSIONS_PER_ATTEMPT_MAX = 64
# Each takes files and a task of the agent: of one tenant on a node, and of all.
SESSIONS_PER_TENANT_MAX = 128
SESSIONS_PER_NODE_MAX = 512
# Attempts that one answer tells the use of.
USES_MAX = 1000

_Piece = Annotated[bytes, Meta(max_length=PIECE_BYTES_MAX)]
_Argument = Annotated[str, Meta(max_length=65_536, pattern=r"^[^\x00]*$")]
_Side = Annotated[int, Meta(ge=1, le=10_000)]
_Seconds = Annotated[float, Meta(ge=0.0, le=30 * 86_400.0)]

SessionKind = Literal["exec", "forward", "copy-in", "copy-out"]
# Names a session in its job. The client chooses it, so that asking twice opens one.
SessionId = Annotated[str, Meta(min_length=16, max_length=64, pattern=r"^[0-9a-z]+$(?!\n)")]


class TerminalSize(Record, frozen=True, tag="size"):
    rows: _Side = 24
    cols: _Side = 80


class SessionSpec(Record, frozen=True):
    """What is asked for: a command, a connection to a port, or files to be copied."""

    kind: SessionKind = "exec"
    command: Annotated[tuple[_Argument, ...], Meta(max_length=1000)] = ()
    # Whether the command has a terminal, its size at first, and the value of TERM.
    tty: bool = False
    rows: _Side = 24
    cols: _Side = 80
    term: Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9._+-]*$(?!\n)")] = ""
    rank: Rank = 0
    port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    # The file or directory to copy, seen from the job's working directory.
    path: Annotated[str, Meta(max_length=4096, pattern=r"^[^\x00]*$")] = ""
    # It ends when no client has been attached for this long.
    keep_s: _Seconds = 60.0
    # It ends when nothing was typed or shown for this long; 0: never.
    idle_s: _Seconds = 0.0


# ---- between client and agent, in both directions; a replica passes it on


class SessionInput(Record, frozen=True, tag="input"):
    offset: Number
    data: _Piece = b""
    # Nothing comes after it.
    end: bool = False


class SessionOutput(Record, frozen=True, tag="output"):
    """An offset beyond the end of the piece before: what lies between is lost."""

    offset: Number
    data: _Piece
    stream: Literal["out", "err"] = "out"


class SessionTaken(Record, frozen=True, tag="taken"):
    """Of a client: output below the offset has arrived. Of the agent: so has input, and the command was given it."""

    offset: Number


class SessionDetach(Record, frozen=True, tag="detach"):
    """The client leaves, and the session stays for as long as the job runs."""


class SessionExit(Record, frozen=True, tag="exit"):
    """The session is over, and all its output was sent."""

    # None: the command did not end by itself.
    code: Annotated[int, Meta(ge=0, le=255)] | None = None
    reason: Words = ""


ClientFrame = SessionInput | SessionTaken | TerminalSize | SessionDetach
SessionFrame = SessionOutput | SessionTaken | SessionExit


class SessionView(Record, frozen=True):
    """A session of a running attempt."""

    id: SessionId
    kind: SessionKind = "exec"
    command: Annotated[tuple[_Argument, ...], Meta(max_length=1000)] = ()
    tty: bool = False
    rank: Rank = 0
    port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    opened_at: Annotated[float, Meta(ge=0.0, le=1e11)] = 0.0
    attached: bool = False
    # Input that the command was given: where a client that attaches goes on.
    input_offset: Number = 0


class GpuReading(Record, frozen=True):
    """What a GPU does at the moment, by its driver."""

    index: Annotated[int, Meta(ge=0, le=1023)]
    busy_percent: Annotated[int, Meta(ge=0, le=100)] = 0
    memory_mib: Number = 0
    # What it draws, and how hot it is; None: its driver does not tell.
    watts: Annotated[float, Meta(ge=0.0, le=100_000.0)] | None = None
    celsius: Annotated[int, Meta(ge=-100, le=1000)] | None = None


class AttemptUse(Record, frozen=True):
    """What one rank of an attempt uses at the moment."""

    ref: AttemptRef
    rank: Rank
    # CPU time used since its start; two looks make a rate.
    cpu_s: Annotated[float, Meta(ge=0.0, le=1e12)] = 0.0
    memory_bytes: Number = 0
    processes: Number = 0
    # Of the GPUs that it has alone, as far as their driver tells.
    gpus: Annotated[tuple[GpuReading, ...], Meta(max_length=1024)] = ()
    # By the agent's steady clock.
    at: Annotated[float, Meta(ge=0.0, le=1e12)] = 0.0


# ---- replica -> agent


class OpenSession(Record, frozen=True, tag="open"):
    """Open the session, or find the one of this id."""

    call: Number
    id: SessionId
    ref: AttemptRef
    spec: SessionSpec


class AttachClient(Record, frozen=True, tag="attach"):
    """A client attaches as `client`, a number of this stream, and has the output below `offset`."""

    call: Number
    client: Number
    id: SessionId
    ref: AttemptRef
    offset: Number = 0


class ListSessions(Record, frozen=True, tag="list"):
    call: Number
    ref: AttemptRef


class EndSession(Record, frozen=True, tag="end"):
    call: Number
    id: SessionId
    ref: AttemptRef


class MeasureUse(Record, frozen=True, tag="measure"):
    call: Number
    # The attempts to look at.
    refs: Annotated[tuple[AttemptRef, ...], Meta(max_length=1000)] = ()


class FromClient(Record, frozen=True, tag="from-client"):
    client: Number
    frame: ClientFrame


class ClientLeft(Record, frozen=True, tag="gone"):
    client: Number


SideCommand = OpenSession | AttachClient | ListSessions | EndSession | MeasureUse | FromClient | ClientLeft


# ---- agent -> replica


class SideHello(Record, frozen=True, tag="hello"):
    """First message of the stream for sessions. `key` is what the agent was asked to come with."""

    node: Line
    key: Line


class SideAnswer(Record, frozen=True, tag="answer"):
    call: Number
    # Why not; empty when it was done.
    refused: Words = ""
    sessions: Annotated[tuple[SessionView, ...], Meta(max_length=1000)] = ()
    uses: Annotated[tuple[AttemptUse, ...], Meta(max_length=USES_MAX)] = ()


class ToClient(Record, frozen=True, tag="to-client"):
    client: Number
    frame: SessionFrame


class ClientDropped(Record, frozen=True, tag="dropped"):
    """The client was replaced by another, or the session is over."""

    client: Number
    reason: Words = ""


SideMessage = SideHello | SideAnswer | ToClient | ClientDropped


# ---- jobs that a job submits

# Of the specification of a job that a job submits.
CHILD_BYTES_MAX = 256 * 1024


class ChildCall(Record, frozen=True):
    """A job that an attempt on this node submits, by the number of its call. `spec` is JSON."""

    ref: AttemptRef
    call: Annotated[int, Meta(ge=1, le=CHILDREN_MAX)]
    spec: Annotated[bytes, Meta(max_length=CHILD_BYTES_MAX)]
    detached: bool = False


class ChildAnswer(Record, frozen=True):
    """The child's id, or why there is none."""

    job: str = ""
    replayed: bool = False
    code: str = ""
    message: str = ""
    fix: str = ""
