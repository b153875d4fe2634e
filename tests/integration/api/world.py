"""The HTTP API over real services on the memory store, behind a real socket."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2

from ares.adapters.blobs.memory import MemoryBlobs
from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.logs.files import FileLogs
from ares.adapters.store.memory.store import MemoryStore
from ares.adapters.telemetry.prometheus import PrometheusTelemetry
from ares.core.run.inputs import Bind, Exit, Input, Start
from ares.edge.rest.api import ApiServices, ApiSettings
from ares.edge.rest.app import build_app
from ares.edge.rest.server import HttpServer
from ares.model.access import Principal, Role
from ares.model.state import ExitInfo, JobState, Placement
from ares.services.booking import Book
from ares.services.consolidate import Consolidate
from ares.services.cursors import Cursors
from ares.services.deadlines import Deadlines
from ares.services.decisions import Decisions
from ares.services.drain import Drain
from ares.services.explain import Explain
from ares.services.health import Health
from ares.services.jobs import Jobs
from ares.services.leader import Leader
from ares.services.logs import LogReader
from ares.services.nodes import Nodes
from ares.services.outputs import OutputReader
from ares.services.planner import Planner
from ares.services.plugins import Loaded, Plugins
from ares.services.pools import Pools
from ares.services.predictions import Predictions
from ares.services.profiles import Profiles
from ares.services.reservations import Reservations
from ares.services.schedule import Schedule
from ares.services.spending import Spending
from ares.services.stream import EventStream
from ares.services.submit import Submit
from ares.services.tokens import Tokens
from ares.services.transitions import Change, Transitions, Written
from ares.services.view import View
from ares.services.windows import Windows

ROOT = Principal(token_id="root", tenant="acme", role="admin")
JOB: dict[str, Any] = {"command": ["python", "train.py"], "name": "train"}
MISSING = "0000000000000000"


@dataclass
class World:
    store: MemoryStore
    view: View
    services: ApiServices
    transitions: Transitions
    logs: FileLogs
    blobs: MemoryBlobs
    server: HttpServer
    schedule: Schedule

    async def token(self, role: Role = "submitter", tenant: str = "acme", ttl_s: float | None = None) -> str:
        text, record = await self.services.tokens.create(ROOT, tenant=tenant, role=role, name=role, ttl_s=ttl_s)
        while record.id not in self.view.tokens:
            await asyncio.sleep(0)
        return text

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
        (outcome,) = await self.transitions.apply([Change(job, tenant, what)])
        assert isinstance(outcome, Written), outcome
        return outcome.state

    async def start_job(self, job: str, tenant: str = "acme") -> JobState:
        place = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=256)
        bound = await self.apply(job, Bind(placements=(place,)), tenant=tenant)
        return await self.apply(job, Start(fence=bound.fence), tenant=tenant)

    async def finish_job(self, state: JobState, *, code: int = 0, value: Any = None) -> JobState:
        exit_ = ExitInfo(code=code, failure="exit" if code else None)
        return await self.apply(state.id, Exit(fence=state.fence, exit=exit_, value=value), tenant=state.tenant)


@contextlib.asynccontextmanager
async def open_world(folder: Path, settings: ApiSettings = ApiSettings()) -> AsyncIterator[World]:
    clock, rng = SystemClock(), SystemRng()
    store = MemoryStore(clock)
    view = View(store, clock)
    telemetry = PrometheusTelemetry(rng)
    transitions = Transitions(store, view, clock, rng, telemetry, 1)
    logs, blobs = FileLogs(folder / "logs"), MemoryBlobs()
    leader = Leader(store, view, clock, cluster="local", replica="r1", exclusive=True)
    planner, decisions = Planner(view, clock), Decisions(clock, rng)
    deadlines = Deadlines(view, planner, clock)
    submit = Submit(store, view, deadlines, clock, rng, telemetry, 1, 100_000)
    book = Book(store, view)
    windows = Windows(store, book, view, planner, transitions, clock, telemetry, 86_400.0)
    nodes = Nodes(store, view, clock)
    services = ApiServices(
        submit=submit,
        deadlines=deadlines,
        jobs=Jobs(store, view, transitions, submit, planner, deadlines, Cursors(b"k" * 32), clock),
        explain=Explain(store, view, planner, decisions, clock),
        spending=Spending(view, clock),
        events=EventStream(store, view),
        logs=LogReader(view, logs, clock),
        outputs=OutputReader(store, view, blobs),
        nodes=nodes,
        pools=Pools(view, nodes, planner, clock),
        profiles=Profiles(store, view, clock, telemetry),
        plugins=Plugins(view, Loaded({})),
        drain=Drain(view, planner, transitions, clock, telemetry),
        consolidate=Consolidate(view, planner, transitions, clock, telemetry),
        reservations=Reservations(book, view, planner, windows, clock, rng, telemetry),
        predictions=Predictions(store, view, planner, clock, telemetry),
        tokens=Tokens(store, view, clock, rng),
        health=Health(view, leader, clock),
        metrics=telemetry.render,
        telemetry=telemetry,
        clock=clock,
        rng=rng,
    )
    following = asyncio.create_task(view.run())
    await view.catch_up()
    settings = replace(settings, port=0)
    server = HttpServer(build_app(services, settings), settings)
    await server.start()
    try:
        schedule = Schedule(view, planner, transitions, decisions, clock, telemetry)
        yield World(store, view, services, transitions, logs, blobs, server, schedule)
    finally:
        await server.stop()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await store.close()
