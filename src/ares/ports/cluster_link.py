"""The stream between a cluster and its global plane, as the cluster sees it."""

from collections.abc import AsyncIterator
from typing import Protocol

from ares.model.cluster_link import AskCommand, AskMessage, ClusterFrame, GlobalFrame
from ares.model.uplink import UplinkProof


class ClusterStream(Protocol):
    """One open stream. Ends by LinkBroken, or by LinkRefused when another try would end in the same way."""

    async def send(self, frame: ClusterFrame) -> None: ...

    def frames(self) -> AsyncIterator[GlobalFrame]: ...

    async def asks(self) -> "AskStream":
        """A stream beside it, for requests that the global plane reads through to this cluster."""
        ...

    async def close(self) -> None: ...


class AskStream(Protocol):
    """Ends by LinkBroken."""

    async def send(self, message: AskMessage) -> None: ...

    def commands(self) -> AsyncIterator[AskCommand]: ...

    async def close(self) -> None: ...


class GlobalPlane(Protocol):
    """How a cluster gets to its global plane. Raises LinkBroken and LinkRefused of `ports.link`."""

    async def join(self, api: str, servers: tuple[str, ...], token: str, name: str, authorities: str) -> UplinkProof:
        """Trades a join token for what proves the cluster's identity from now on."""
        ...

    async def renew(self, servers: tuple[str, ...], proof: UplinkProof) -> UplinkProof:
        """The next certificate, by proof of the present one."""
        ...

    def renew_at(self, proof: UplinkProof) -> float | None:
        """When the certificate is to be renewed, by wall clock; None for a token."""
        ...

    async def connect(self, servers: tuple[str, ...], proof: UplinkProof) -> ClusterStream: ...
