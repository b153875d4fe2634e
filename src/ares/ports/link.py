"""The stream between an agent and the control plane, as the agent sees it."""

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

from ares.model.link import AgentFrame, CertifyReply, CertifyRequest, JoinReply, JoinRequest, ServerFrame


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


class Link(Protocol):
    async def join(self, request: JoinRequest) -> JoinReply: ...

    async def connect(self, credential: str) -> LinkSession: ...

    async def close(self) -> None: ...


class CertifiedLink(Protocol):
    """A link whose ends prove themselves by certificates."""

    async def certify(self, request: CertifyRequest) -> CertifyReply:
        """The next certificate, by proof of the one the agent has."""
        ...

    def prove_by(self, proof: Proof) -> None:
        """Uses this proof from the next connection on."""
        ...
