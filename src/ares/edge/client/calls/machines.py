"""Requests about machines' identities, as values like those in `calls`, and what they are answered."""

from ares.api.identity import CertificateView, Revoked
from ares.edge.client.calls.calls import Call, Request, part
from ares.edge.client.sending import AsyncSends, Sends


def certificates() -> Call[tuple[CertificateView, ...]]:
    return Call(Request("GET", "/v1/certificates"), tuple[CertificateView, ...], "certificates")


def revoke_node(name: str) -> Call[Revoked]:
    return Call(Request("POST", f"/v1/nodes/{part(name)}/revoke"), Revoked)


def revoke_cluster(name: str) -> Call[Revoked]:
    return Call(Request("POST", f"/v1/clusters/{part(name)}/revoke"), Revoked)


class MachineMethods(Sends):
    """Of the synchronous client."""

    def certificates(self) -> tuple[CertificateView, ...]:
        """Machines' certificates, by machine."""
        return self.send(certificates())

    def revoke_node(self, name: str) -> Revoked:
        """Takes back all that a node proves itself by: its stream is cut, and its jobs are taken away."""
        return self.send(revoke_node(name))

    def revoke_cluster(self, name: str) -> Revoked:
        """Takes back all that a cluster proves itself by."""
        return self.send(revoke_cluster(name))


class AsyncMachineMethods(AsyncSends):
    """The same of the asynchronous one."""

    async def certificates(self) -> tuple[CertificateView, ...]:
        """Machines' certificates, by machine."""
        return await self.send(certificates())

    async def revoke_node(self, name: str) -> Revoked:
        """Takes back all that a node proves itself by: its stream is cut, and its jobs are taken away."""
        return await self.send(revoke_node(name))

    async def revoke_cluster(self, name: str) -> Revoked:
        """Takes back all that a cluster proves itself by."""
        return await self.send(revoke_cluster(name))
