"""Requests about machines and their identities, as values like those in `calls`, and what they are answered."""

from ares.api.identity import CertificateView, Revoked
from ares.api.nodes import ClusterView, LeaseView, NodeView
from ares.edge.client.calls import calls, operator
from ares.edge.client.calls.answers import JobRef, job_id
from ares.edge.client.calls.calls import Call, Request, part
from ares.edge.client.sending import AsyncSends, Sends


def certificates() -> Call[tuple[CertificateView, ...]]:
    return Call(Request("GET", "/v1/certificates"), tuple[CertificateView, ...], "certificates")


def revoke_node(name: str) -> Call[Revoked]:
    return Call(Request("POST", f"/v1/nodes/{part(name)}/revoke"), Revoked)


def revoke_cluster(name: str) -> Call[Revoked]:
    return Call(Request("POST", f"/v1/clusters/{part(name)}/revoke"), Revoked)


class AsyncMachineMethods(AsyncSends):
    """Machines, their leases and their certificates, of the asynchronous client."""

    async def certificates(self) -> tuple[CertificateView, ...]:
        """Machines' certificates, by machine."""
        return await self.send(certificates())

    async def revoke_node(self, name: str) -> Revoked:
        """Takes back all that a node proves itself by: its stream is cut, and its jobs are taken away."""
        return await self.send(revoke_node(name))

    async def revoke_cluster(self, name: str) -> Revoked:
        """Takes back all that a cluster proves itself by."""
        return await self.send(revoke_cluster(name))

    async def nodes(self) -> tuple[NodeView, ...]:
        """The machines."""
        return await self.send(calls.nodes())

    async def clusters(self) -> tuple[ClusterView, ...]:
        """Every cluster: its resources and its leader."""
        return await self.send(calls.clusters())

    async def readiness(self) -> dict[str, str]:
        """What the server says about itself: its store, disk, leader and clock. Raises Unavailable while it cannot
        serve."""
        return await self.send(calls.readiness())

    async def cordon(self, node: str, on: bool = True) -> NodeView:
        """Keeps new jobs off a machine, or lets them on again."""
        return await self.send(calls.cordon(node, on))

    async def remove_node(self, node: str) -> NodeView:
        """Forgets a machine that is gone for good; the answer is what it last was."""
        return await self.send(operator.remove_node(node))

    async def leases(self, job: JobRef | None = None) -> tuple[LeaseView, ...]:
        """The leases: which node may run which attempt, and until when."""
        return await self.send(calls.leases(None if job is None else job_id(job)))


class MachineMethods(Sends):
    """Machines, their leases and their certificates, of the blocking client, generated."""

    def certificates(self) -> tuple[CertificateView, ...]:
        """Machines' certificates, by machine."""
        return self.send(certificates())

    def revoke_node(self, name: str) -> Revoked:
        """Takes back all that a node proves itself by: its stream is cut, and its jobs are taken away."""
        return self.send(revoke_node(name))

    def revoke_cluster(self, name: str) -> Revoked:
        """Takes back all that a cluster proves itself by."""
        return self.send(revoke_cluster(name))

    def nodes(self) -> tuple[NodeView, ...]:
        """The machines."""
        return self.send(calls.nodes())

    def clusters(self) -> tuple[ClusterView, ...]:
        """Every cluster: its resources and its leader."""
        return self.send(calls.clusters())

    def readiness(self) -> dict[str, str]:
        """What the server says about itself: its store, disk, leader and clock. Raises Unavailable while it cannot
        serve."""
        return self.send(calls.readiness())

    def cordon(self, node: str, on: bool = True) -> NodeView:
        """Keeps new jobs off a machine, or lets them on again."""
        return self.send(calls.cordon(node, on))

    def remove_node(self, node: str) -> NodeView:
        """Forgets a machine that is gone for good; the answer is what it last was."""
        return self.send(operator.remove_node(node))

    def leases(self, job: JobRef | None = None) -> tuple[LeaseView, ...]:
        """The leases: which node may run which attempt, and until when."""
        return self.send(calls.leases(None if job is None else job_id(job)))
