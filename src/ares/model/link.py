"""Messages on the stream between an agent and the control plane.

Both directions carry frames of several messages. Reports are numbered by the agent and repeated
until acknowledged; commands are derived from the store and may be repeated at any time: the agent
starts a (job, fence) once.

What an agent sends is bounded in every field, and decoding is where that is checked: a machine may be in the hands of
an attacker.
"""

from typing import Annotated

from msgspec import Meta

from ares.model.base import AttemptRef, Instant, Line, Number, Record, Sha256, Words
from ares.model.checkpoint import FILES_MAX, CheckpointAsk, Checkpointed, CheckpointPointer, DamageFound, Rank
from ares.model.job import JobSpec, WarnSignal
from ares.model.node import CACHED_MAX, MachineRole, NodeInfo
from ares.model.quota import NodeMoves
from ares.model.secret import SECRETS_PER_JOB_MAX, SecretGiven
from ares.model.state import ExitInfo, OutputFile, Placement
from ares.model.telemetry.program_span import ProgramSpans

# Messages of one frame. An agent with thousands of attempts sends output, progress and an end of each.
MESSAGES_MAX = 20_000
# Bytes of one piece of output or of a file, and of a result: far beyond what agents send.
CHUNK_BYTES_MAX = 4 * 1024 * 1024
_Chunk = Annotated[bytes, Meta(max_length=CHUNK_BYTES_MAX)]


# ---- agent -> control plane


class Hello(Record, frozen=True, tag="hello"):
    """First message of a session. `incarnation` 0 asks for a new one; the agent has reaped first."""

    info: NodeInfo
    incarnation: Number = 0
    alive: Annotated[tuple[AttemptRef, ...], Meta(max_length=MESSAGES_MAX)] = ()
    # Grows with every start of an agent on this node: tells a late message of a dead process from news.
    boot: Number = 0
    # The agent sends output that could not be kept again, and the end of the attempt after that.
    resends_logs: bool = False
    # The agent opens a stream for sessions when it is asked to.
    enterable: bool = False
    # The agent keeps to rates that it is told.
    paced: bool = False


class Renew(Record, frozen=True, tag="renew"):
    """Renews the node's lease. The agent dates its right from when it sent this."""

    nonce: Number
    # How long the agent takes its lease to last when it sends this; 0: it cannot say.
    dead_after_s: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.0


class Leave(Record, frozen=True, tag="leave"):
    """The agent is about to go: give it nothing new."""


class Started(Record, frozen=True, tag="started"):
    number: Number
    ref: AttemptRef
    rank: Rank
    # 0 when the process had ended before its pid could be read.
    pid: Number
    at: Instant
    # The versions of the secrets the attempt was given, by name.
    secrets: Annotated[dict[Line, Number], Meta(max_length=SECRETS_PER_JOB_MAX)] = {}
    # What is not as the job asked for, in words.
    note: Annotated[str, Meta(max_length=1024)] = ""


class Exited(Record, frozen=True, tag="exited"):
    """All processes of the attempt's rank are gone, its log is shipped and its outputs are kept. With
    `exit.failure` "staging" it never started."""

    number: Number
    ref: AttemptRef
    rank: Rank
    exit: ExitInfo
    at: Instant
    # JSON the job wrote to ARES_RESULT_FILE, checked by the agent; empty when it wrote none.
    value: _Chunk = b""
    # Files that were handed over, each acknowledged as sealed before.
    outputs: Annotated[tuple[OutputFile, ...], Meta(max_length=FILES_MAX)] = ()
    # Bytes of output that the control plane could not keep for so long that they are given up.
    log_lost: Number = 0
    # The rank that failed before it and took it along, as far as its runtime knows.
    blames: Rank | None = None


class Fenced(Record, frozen=True, tag="fenced"):
    """The agent stopped the attempt by itself: its right to run ran out, or it was told to stop."""

    number: Number
    ref: AttemptRef
    rank: Rank
    reason: Words
    log_lost: Number = 0
    evicted: bool = False  # The machine, and not the job, is why: it costs no retry.


# Begin and end in a log, and the most of them in one piece of it.
LogRange = tuple[Number, Number]
STDERR_RANGES_MAX = 4096


class LogChunk(Record, frozen=True, tag="log"):
    """Output bytes at an absolute offset: repeats and overlaps are harmless. `stderr`: which of them were written to
    stderr, in the order of the log; agents of an earlier version do not tell."""

    ref: AttemptRef
    rank: Rank
    attempt: Rank
    offset: Number
    data: _Chunk
    stderr: Annotated[tuple[LogRange, ...], Meta(max_length=STDERR_RANGES_MAX)] = ()


class OutputChunk(Record, frozen=True, tag="output"):
    """Bytes at an absolute offset of a file that an attempt hands over: repeats and overlaps are harmless.

    The file is named by what it will be when it is whole. An empty chunk asks how much of it is kept. `seq`: the
    checkpoint that the file belongs to; None: it is an output."""

    ref: AttemptRef
    rank: Rank
    sha256: Line
    size: Number
    offset: Number
    data: _Chunk
    seq: Number | None = None


class Progress(Record, frozen=True, tag="progress"):
    """The latest progress the job wrote; only the newest matters."""

    ref: AttemptRef
    rank: Rank
    fraction: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    message: Words = ""


class Moving(Record, frozen=True, tag="moving"):
    """Bulk bytes on their way, while there are any; only the newest matters."""

    moves: NodeMoves


class Cached(Record, frozen=True, tag="cached"):
    """Versions of datasets that this node has, `TENANT@sha256:DIGEST`; only the newest message matters."""

    versions: Annotated[tuple[Line, ...], Meta(max_length=CACHED_MAX)] = ()


AgentMessage = (
    Hello | Renew | Leave | Started | Exited | Fenced | LogChunk | OutputChunk | Progress | Moving | Cached
    | Checkpointed | DamageFound | ProgramSpans
)  # fmt: skip


class AgentFrame(Record, frozen=True):
    messages: Annotated[tuple[AgentMessage, ...], Meta(max_length=MESSAGES_MAX)]


# ---- control plane -> agent


class StoreLock(Record, frozen=True):
    """The lock held by the one process that decides by an embedded store. An agent that sees this very file, under the
    same kernel, and finds it free, knows that no process decides."""

    path: str
    device: int
    inode: int
    # The kernel's own id of its boot.
    kernel: str
    # A lease is taken to last this long at most, however often the lock is found free.
    longest_s: float


class Welcome(Record, frozen=True, tag="welcome"):
    """Accepts the session. Attempts the agent holds that are not listed in `keep` must be stopped."""

    incarnation: int
    store_epoch: int
    keep: tuple[AttemptRef, ...] = ()
    # For one rank of an attempt; 0 from control planes that keep no outputs.
    output_bytes_max: int = 0
    renew_every_s: float = 2.0
    self_fence_ratio: float = 7.0 / 9.0
    # The shortest lease that any job has here.
    dead_after_s: float = 9.0
    # Set where one server at a time has the store; None: other servers may decide.
    store_lock: StoreLock | None = None
    # The control plane wants to know of bulk bytes, and of datasets that the node has.
    moves: bool = False
    cached: bool = False
    # By which requests of other nodes to this one are sealed.
    peer_key: str = ""
    # It keeps spans of programs.
    spans: bool = False
    # By which a stream for output of loud attempts is known to belong to this session; 0: there is none.
    log_stream: int = 0


class Renewed(Record, frozen=True, tag="renewed"):
    """The renewal with this nonce is durable. `stop` lists attempts that are no longer current."""

    # 0: this answers no renewal; the lease lasts longer than was said before.
    nonce: int
    stop: tuple[AttemptRef, ...] = ()
    # How long the lease lasts; 0: as the welcome said.
    dead_after_s: float = 0.0


class GangPeer(Record, frozen=True):
    """One rank of a gang and where its node is reached."""

    rank: int
    node: str
    address: str


class WorldInfo(Record, frozen=True):
    """The ranks that take part in an attempt now. A rank's number in the program is its place among `peers`."""

    generation: int = 0
    peers: tuple[GangPeer, ...] = ()
    master_port: int = 0


class Start(Record, frozen=True, tag="start"):
    """Run this attempt's rank. Repeated until the agent has reported on it."""

    ref: AttemptRef
    attempt: int
    placement: Placement
    spec: JobSpec
    world: WorldInfo = WorldInfo()
    array: str | None = None
    index: int | None = None
    trace: str = ""
    # The secrets that `spec.secrets` names, as they are now; never kept beyond the attempt.
    secrets: tuple[SecretGiven, ...] = ()
    # Why the secrets cannot be given: the attempt must not start.
    secrets_trouble: str = ""
    # By which the ranks of a job with a runtime know each other.
    key: str = ""
    # How often the job was updated: an attempt that runs takes the time limit of a newer one.
    updates: int = 0
    # The newest checkpoint of the job: the attempt goes on from it, or from an older one that is whole.
    checkpoint: CheckpointPointer | None = None
    # How often a checkpoint is due; 0: the job saves none.
    checkpoint_every_s: float = 0.0
    # How long the job runs between two interruptions, as far as is known: the interval follows from it; 0: it is set.
    interrupted_every_s: float = 0.0


class Stop(Record, frozen=True, tag="stop"):
    """End the attempt: the checkpoint signal and `wait_s` if there is one, SIGTERM, `grace_s`, SIGKILL; then
    report `Fenced`. `ranks` names the ranks to end, all of them when it is empty."""

    ref: AttemptRef
    grace_s: float
    reason: str
    ranks: tuple[int, ...] = ()
    checkpoint_signal: WarnSignal | None = None
    wait_s: float = 0.0
    # A checkpoint that the attempt saves before it ends is still kept.
    saves: bool = False


class Resize(Record, frozen=True, tag="resize"):
    """The gang has grown or shrunk: tell every rank of it that runs here."""

    ref: AttemptRef
    world: WorldInfo


class OpenAside(Record, frozen=True, tag="open-aside"):
    """Open the stream for sessions, and begin it with this key."""

    key: str


class Ack(Record, frozen=True, tag="ack"):
    """Reports up to and including these numbers are settled: durable, or refused as stale."""

    numbers: tuple[int, ...]


class LogAck(Record, frozen=True, tag="log-ack"):
    """Log bytes below `offset` are kept by the control plane, or will never be: then the log itself says so."""

    ref: AttemptRef
    rank: int
    offset: int
    # Why the bytes after `offset` could not be kept: they are to be sent again, in a while.
    trouble: str = ""


class OutputAck(Record, frozen=True, tag="output-ack"):
    """The bytes of an output file below `offset` are kept; `sealed` when all are, for good."""

    ref: AttemptRef
    rank: int
    sha256: str
    offset: int
    sealed: bool = False
    # Why the file must be sent again from `offset` on.
    trouble: str = ""
    # Why the file is not wanted: the attempt is no longer the current one.
    refused: str = ""
    seq: int | None = None


class TransferRates(Record, frozen=True, tag="transfer-rates"):
    """What tenants may move on this node, in bytes per second."""

    # Of all tenants that are limited, while they have no lease. None: as before.
    floors: dict[str, float] | None = None
    # Leases, which last so long.
    leases: dict[str, float] = {}
    lasts_s: float = 3.0
    # Parts of the link, of tenants with another one than 1; told with `floors`.
    weights: dict[str, int] = {}


ServerMessage = Welcome | Renewed | Start | Stop | Resize | OpenAside | Ack | LogAck | OutputAck | TransferRates


class ServerFrame(Record, frozen=True):
    messages: tuple[ServerMessage, ...]


class JoinRequest(Record, frozen=True):
    """Trades a one-time join token for the node's own credential."""

    token: Line
    node: Line


class JoinReply(Record, frozen=True):
    node: str
    credential: str
    role: MachineRole = "node"


class CertifyRequest(Record, frozen=True):
    """Asks for the next certificate of a machine, for the key of this request (PEM), by the one it has."""

    request: Words


class CertifyReply(Record, frozen=True):
    """The certificate, and the authorities to trust from now on (PEM)."""

    certificate: str
    authority: str


# Parts of one request: as many bytes as an agent wants to lose at most when the connection breaks.
FETCH_PARTS_MAX = 256


class FetchRequest(Record, frozen=True):
    """Asks for parts of a project of an attempt that this node has, or with none named for its manifest."""

    ref: AttemptRef
    rank: Rank
    parts: Annotated[tuple[Sha256, ...], Meta(max_length=FETCH_PARTS_MAX)] = ()
    # One of the projects that its job names. None: the one it starts with.
    project: Sha256 | None = None
    # What is asked for belongs to a checkpoint of its job, and not to a project.
    checkpoint: CheckpointAsk | None = None
    # The node fetches by URLs what the control plane has in an object store.
    direct: bool = False
    # It also fetches by URLs what other nodes have.
    peers: bool = False


class FetchPiece(Record, frozen=True):
    """One part, whole; or where it is."""

    sha256: str
    data: bytes
    # Why it cannot be had.
    trouble: str = ""
    # Where the bytes are to be read, from this offset, and how many there are at most.
    url: Annotated[str, Meta(max_length=16_384)] = ""
    offset: Number = 0
    size: Number = 0
    # They are on another node, and not in an object store.
    peer: bool = False
