"""Control planes in this process that take agents by mTLS on real sockets, on one store."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx2

from ares.adapters.audit.memory import MemoryAudit
from ares.adapters.audit.signing import Ed25519Signer
from ares.adapters.blobs.memory import MemoryBlobs
from ares.adapters.certificates import X509Issuer, X509Requests, make_authority
from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.links.grpc import GrpcLink
from ares.adapters.logs.files import FileLogs
from ares.adapters.planning.inline import InlinePlanning
from ares.adapters.policy import CelRules
from ares.adapters.secrets import EnvelopeVault, MemoryRing
from ares.adapters.store.memory import Faults, MemoryStore
from ares.adapters.telemetry.prometheus import PrometheusTelemetry
from ares.app.authority import Serving
from ares.control.access.machines import Admitted
from ares.control.planner.mirror import Mirror
from ares.control.replica import Replica
from ares.control.replica_terms import Ports, ReplicaTerms
from ares.core.audit.chain import entry_of
from ares.core.refusal import Refusal
from ares.edge.grpc.agents import AgentServer
from ares.edge.rest.api import ApiSettings, services_of
from ares.edge.rest.app import build_app
from ares.edge.rest.http.server import HttpServer
from ares.model.access import Principal
from ares.model.audit import AuditEntry
from ares.ports.audit import AuditPorts
from ares.ports.clock import Clock
from ares.ports.link import Proof

ROOT = Principal(token_id="root", tenant="acme", role="admin", name="root")
REQUESTS = X509Requests()


def new_authority() -> X509Issuer:
    return X509Issuer.of(*make_authority("test", int(time.time())))


class Skewed(SystemClock):
    """A wall clock that is wrong."""

    def __init__(self, by_s: float) -> None:
        self._by_s = by_s

    def wall(self) -> float:
        return super().wall() + self._by_s


@dataclass
class Plane:
    """One replica with its agents' port."""

    replica: Replica
    telemetry: PrometheusTelemetry
    chain: MemoryAudit
    logs: FileLogs
    http: HttpServer
    port: int = 0

    def browser(self, token: str) -> httpx2.AsyncClient:
        """Of its API, with a token."""
        headers = {"authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(base_url=self.http.url, headers=headers, trust_env=False, timeout=20.0)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def token(self, *, node: str | None = None, cluster: str | None = None, ttl_s: float = 60.0) -> str:
        text, _ = await self.replica.tokens.create_join(ROOT, node=node, ttl_s=ttl_s, cluster=cluster)
        return text

    async def try_join(self, token: str, name: str, key: str) -> Admitted | Refusal:
        return await self.replica.authority.join(token, name, REQUESTS.request(key))

    async def proof(self, name: str, *, cluster: bool = False) -> Proof:
        """Of a machine that has just joined."""
        key = REQUESTS.new_key()
        token = await self.token(cluster=name) if cluster else await self.token(node=name)
        admitted = await self.try_join(token, name, key)
        assert isinstance(admitted, Admitted), admitted
        return Proof(admitted.authority, admitted.certificate, key)

    def link(self, proof: Proof | None) -> GrpcLink:
        return GrpcLink([self.address], proof)

    async def entries(self) -> list[AuditEntry]:
        """What its audit chain says, the oldest first."""
        await asyncio.sleep(0)
        while (writing := self.replica.audit.writing) is not None:
            await writing
        lines = [line for segment in self.chain.segments(self.chain.chain) for line in self.chain.lines(segment)]
        return [entry for entry in map(entry_of, lines) if entry is not None]

    async def denials(self) -> list[tuple[str, str]]:
        """What was denied, and why."""
        return [(entry.operation, entry.reason) for entry in await self.entries() if entry.outcome == "DENY"]


class Planes:
    """Replicas on one store, under one authority."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.faults = Faults()
        self.store = MemoryStore(SystemClock(), self.faults)
        self.authority = new_authority()
        self._stack = contextlib.AsyncExitStack()

    async def start(self, name: str = "r1", clock: Clock | None = None, certificate_s: int = 86_400) -> Plane:
        """Under the authority that `authority` is now."""
        return await self._stack.enter_async_context(self._plane(name, clock or SystemClock(), certificate_s))

    @contextlib.asynccontextmanager
    async def _plane(self, name: str, clock: Clock, certificate_s: int) -> AsyncGenerator[Plane]:
        telemetry, chain = PrometheusTelemetry(SystemRng()), MemoryAudit(name)
        logs = FileLogs(self._folder / name)
        replica = Replica(
            Ports(
                store=self.store, clock=clock, rng=SystemRng(), telemetry=telemetry, logs=logs, blobs=MemoryBlobs(),
                audit=AuditPorts(chain, Ed25519Signer(bytes(32))), rules=CelRules(),
                vault=EnvelopeVault(MemoryRing()), issuer=self.authority,
                planning=(InlinePlanning(lambda: Mirror(clock.monotonic).handle, clock),),
            ),
            ReplicaTerms(replica=name, epoch=1, store_id="test", certificate_s=certificate_s),
        )  # fmt: skip
        following = asyncio.create_task(replica.view.run())
        await replica.view.catch_up()
        await replica.time.open()
        await replica.open_audit()
        await replica.authority.open()
        server = AgentServer(
            replica.sessions,
            replica.staging,
            replica.job_sessions,
            replica.children,
            replica.tokens,
            replica.authority,
            replica.audit,
            telemetry,
            0.1,
        )
        services = services_of(replica, metrics=telemetry.page, telemetry=telemetry, clock=clock, rng=SystemRng())
        http = HttpServer(build_app(services, ApiSettings()), ApiSettings())
        plane = Plane(replica, telemetry, chain, logs, http)
        try:
            await http.start()
            plane.port = await server.start("127.0.0.1", 0, Serving(self.authority))
            yield plane
        finally:
            await server.stop(0.0)
            await http.stop()
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()
        await self.store.close()
