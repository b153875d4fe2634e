"""The HTTP API over real services on the memory store, behind a real socket."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from litestar import Litestar

from ares.adapters.audit.memory import MemoryAudit
from ares.adapters.audit.signing import Ed25519Signer
from ares.adapters.blobs.memory import MemoryBlobs
from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.logs.files import FileLogs
from ares.adapters.oidc.codes import CodeDesk
from ares.adapters.oidc.keys import JwksKeys
from ares.adapters.planning.inline import InlinePlanning
from ares.adapters.policy import CelRules
from ares.adapters.projects import FileProjects
from ares.adapters.secrets import EnvelopeVault, MemoryRing
from ares.adapters.store.memory import MemoryStore
from ares.adapters.telemetry.prometheus import PrometheusTelemetry
from ares.control.execution.transitions import JobChange, Transitions, Written
from ares.control.planner.mirror import Mirror
from ares.control.replica import Replica
from ares.control.replica_terms import Ports, ReplicaTerms
from ares.control.scheduler.loop import SchedulerLoop
from ares.control.state.view import View
from ares.core import keys
from ares.core.access import tokens
from ares.core.lifecycle.inputs import Bind, Exit, Input, RankStarted
from ares.core.refusal import Refusal
from ares.edge.rest.api import ApiServices, ApiSettings, services_of
from ares.edge.rest.app import build_app
from ares.edge.rest.http.server import HttpServer
from ares.model.access import Principal, Provider, Role, TokenRecord
from ares.model.state import ExitInfo, JobState, Placement
from ares.model.uplink import UplinkProof
from ares.ports.audit import AuditPorts
from ares.ports.cluster_link import ClusterStream
from ares.ports.link import LinkBroken
from ares.ports.store import Put

ROOT = Principal(token_id="root", tenant="acme", role="admin")
JOB: dict[str, Any] = {"command": ["python", "train.py"], "name": "train"}
MISSING = "0000000000000000"


class UnreachablePlane:
    """No request leaves this machine: a global plane that is named in one does not answer."""

    async def join(self, api: str, servers: tuple[str, ...], token: str, name: str, authorities: str) -> UplinkProof:
        raise LinkBroken("no answer")

    async def renew(self, servers: tuple[str, ...], proof: UplinkProof) -> UplinkProof:
        raise LinkBroken("no answer")

    def renew_at(self, proof: UplinkProof) -> float | None:
        return None

    async def connect(self, servers: tuple[str, ...], proof: UplinkProof) -> ClusterStream:
        raise LinkBroken("no answer")


@dataclass
class World:
    store: MemoryStore
    view: View
    services: ApiServices
    transitions: Transitions
    logs: FileLogs
    blobs: MemoryBlobs
    server: HttpServer
    schedule: SchedulerLoop
    chain: MemoryAudit
    app: Litestar

    async def token(self, role: Role = "submitter", tenant: str = "acme", ttl_s: float | None = None) -> str:
        if role in ("node", "cluster"):
            return await self._machine_token(role, tenant)
        await self.services.tenants.ensure({tenant})
        made = await self.services.tokens.create(ROOT, tenant=tenant, role=role, name=role, ttl_s=ttl_s)
        assert not isinstance(made, Refusal), made
        text, record = made
        while record.id not in self.view.tokens:
            await asyncio.sleep(0)
        return text

    async def _machine_token(self, role: Role, tenant: str) -> str:
        """As a node or cluster that has joined would have it."""
        secret = secrets.token_urlsafe(32)
        record = TokenRecord(id=secrets.token_hex(5), sha256=tokens.digest(secret), tenant=tenant, role=role, node="n1")
        await self.store.txn([], [Put(keys.token(record.id), msgspec.json.encode(record))])
        await self.view.catch_up()
        return tokens.format(record.id, secret)

    @contextlib.asynccontextmanager
    async def client(self, role: Role = "submitter", tenant: str = "acme") -> AsyncGenerator[httpx2.AsyncClient]:
        async with self.client_with(await self.token(role, tenant)) as client:
            yield client

    def client_with(self, token: str | None) -> httpx2.AsyncClient:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(
            base_url=self.server.url, headers=headers, trust_env=False, timeout=20.0, verify=False
        )

    async def apply(self, job: str, *what: Input, tenant: str = "acme") -> JobState:
        """What the scheduler and agents would do."""
        (outcome,) = await self.transitions.apply([JobChange(job, tenant, what)])
        assert isinstance(outcome, Written), outcome
        return outcome.state

    async def start_job(self, job: str, tenant: str = "acme") -> JobState:
        place = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=256)
        bound = await self.apply(job, Bind(placements=(place,)), tenant=tenant)
        return await self.apply(job, RankStarted(fence=bound.fence), tenant=tenant)

    async def finish_job(self, state: JobState, *, code: int = 0, value: Any = None) -> JobState:
        exit_ = ExitInfo(code=code, failure="exit" if code else None)
        return await self.apply(state.id, Exit(fence=state.fence, exit=exit_, value=value), tenant=state.tenant)


@contextlib.asynccontextmanager
async def open_world(
    folder: Path, settings: ApiSettings = ApiSettings(), providers: tuple[Provider, ...] = ()
) -> AsyncGenerator[World]:
    clock, rng = SystemClock(), SystemRng()
    store, telemetry = MemoryStore(clock), PrometheusTelemetry(rng)
    logs, blobs, chain = FileLogs(folder / "logs"), MemoryBlobs(), MemoryAudit("r1")
    audited = AuditPorts(chain, Ed25519Signer(bytes(32)))
    replica = Replica(
        Ports(
            store=store,
            clock=clock,
            rng=rng,
            telemetry=telemetry,
            logs=logs,
            blobs=blobs,
            projects=FileProjects(folder / "outputs"),
            planning=(InlinePlanning(lambda: Mirror(clock.monotonic).handle, clock),),
            audit=audited,
            rules=CelRules(),
            vault=EnvelopeVault(MemoryRing()),
            provider_keys=JwksKeys(clock),
            global_plane=UnreachablePlane(),
            provider_codes=CodeDesk(),
        ),
        ReplicaTerms(
            replica="r1",
            epoch=1,
            store_id="test",
            exclusive=True,
            jobs_max=100_000,
            keep_s=86_400.0,
            providers=providers,
        ),
    )
    view = replica.view
    services = services_of(replica, metrics=telemetry.page, telemetry=telemetry, clock=clock, rng=rng)
    following = asyncio.create_task(view.run())
    await view.catch_up()
    await replica.time.open()
    await replica.open_audit()
    settings = replace(settings, port=0)
    app = build_app(services, settings)
    server = HttpServer(app, settings)
    await server.start()
    try:
        yield World(store, view, services, replica.transitions, logs, blobs, server, replica.schedule, chain, app)
    finally:
        await server.stop()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await store.close()
