"""The stream between an agent and the control plane, as the agent sees it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from ares.model.job_session import ChildAnswer, ChildCall, SideCommand, SideMessage
from ares.model.link import (
    AgentFrame,
    CertifyReply,
    CertifyRequest,
    FetchPiece,
    FetchRequest,
    JoinReply,
    JoinRequest,
    ServerFrame,
    StoreLock,
)
from ares.model.secret import RegistryAccount
from ares.model.telemetry.log_stream import LogAcks, LogMessage


class LinkBroken(Exception):
    """The stream ended or could not be opened: reconnect with backoff."""


class LinkRefused(Exception):
    """The control plane refused this agent: trying again will not help."""


class Proof(NamedTuple):
    """By which both ends prove their identity, in PEM: the authorities to trust, a certificate and its key."""

    authorities: str
    certificate: str
    key: str


class LinkSession(Protocol):
    """One open stream. Ends by LinkBroken."""

    async def send(self, frame: AgentFrame) -> None: ...

    def frames(self) -> AsyncIterator[ServerFrame]: ...

    async def close(self) -> None: ...


class SideStream(Protocol):
    """The stream for sessions in jobs, beside the one for everything else. Ends by LinkBroken."""

    async def send(self, message: SideMessage) -> None: ...

    def commands(self) -> AsyncIterator[SideCommand]: ...

    async def close(self) -> None: ...


@runtime_checkable
class Sideways(Protocol):
    """A link session that can open a stream for sessions, to the same replica. It is a connection of its own: bulk
    must not share a flow-control window with renewals."""

    async def aside(self) -> SideStream: ...


class OutputLine(Protocol):
    """The stream for output of loud attempts. Ends by LinkBroken, or LinkRefused where the replica takes none."""

    async def send(self, message: LogMessage) -> None: ...

    def acks(self) -> AsyncIterator[LogAcks]: ...

    async def close(self) -> None: ...


@runtime_checkable
class OutputLines(Protocol):
    """A link session that can open such a stream to the same replica, on a connection of its own."""

    async def log_line(self) -> OutputLine: ...


class Link(Protocol):
    async def join(self, request: JoinRequest) -> JoinReply: ...

    async def connect(self, credential: str) -> LinkSession: ...

    async def close(self) -> None: ...


# The bytes that the target of another node's request stands for; None: they may not be had.
PeerAnswer = Callable[[str], Awaitable[bytes | None]]


class PeerDoor(Protocol):
    """Where other nodes read what this one has."""

    async def serve(self, answer: PeerAnswer) -> None:
        """Ends only by cancellation."""
        ...


class FileLink(Protocol):
    """A link by which files for attempts come. Apart from the session: files must not delay renewals."""

    def fetch(self, credential: str, request: FetchRequest) -> AsyncIterator[FetchPiece]:
        """The pieces in the order they are asked for. Raises LinkBroken when it may be tried again, LinkRefused when
        not."""
        ...


class ChildLink(Protocol):
    """A link by which attempts submit jobs."""

    async def submit_child(self, credential: str, call: ChildCall) -> ChildAnswer:
        """Raises LinkBroken when it may be tried again, LinkRefused when not."""
        ...


class CertifiedLink(Protocol):
    """A link whose ends prove themselves by certificates."""

    async def certify(self, request: CertifyRequest) -> CertifyReply:
        """The next certificate, by proof of the one the agent has."""
        ...

    def prove_by(self, proof: Proof) -> None:
        """Uses this proof from the next connection on."""
        ...


# ---- registries of container images, which nodes fetch from


class RegistryRefused(Exception):
    """The registry does not have it, or does not give it, in words. Asking again would not help."""


class RegistryBarred(Exception):
    """This node's operator does not let it ask there, in words. Another node may."""


class RegistryUnreachable(Exception):
    """It cannot be had now, in words."""


class Registry(Protocol):
    """Blocking: called in threads. Raises RegistryRefused, RegistryBarred and RegistryUnreachable."""

    def signed_in(self, account: RegistryAccount) -> "Registry":
        """The same for a reader with an account."""
        ...

    def manifest(self, host: str, name: str, version: str) -> bytes:
        """The manifest or index of that tag or digest, as it came."""
        ...

    def save(self, host: str, name: str, digest: str, size: int, path: Path, came: Callable[[int], bool]) -> None:
        """A blob as a new file, of exactly that size. `came` is told the size of each piece, may take its time, and
        says whether the rest is still wanted."""
        ...


# ---- a witness


class Witness(Protocol):
    async def free(self, lock: StoreLock) -> bool:
        """True only if no process held the lock at some moment during this call. When in doubt: False."""
        ...
