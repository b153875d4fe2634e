"""Builds a control-plane replica from its configuration: the one place where adapters meet services."""

import asyncio
import contextlib
import hashlib
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path

import structlog
from opentelemetry.trace import get_tracer

from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.decisions.files import FileDecisions
from ares.adapters.logs.files import FileLogs
from ares.adapters.store.epoch import decode as decode_epoch
from ares.adapters.store.epoch import ensure_epoch
from ares.adapters.store.open import open_store
from ares.adapters.telemetry.prometheus import PrometheusTelemetry
from ares.app import plugins
from ares.app.config import Config
from ares.core import keys
from ares.edge.grpc.agents import AgentServer, Tls
from ares.edge.rest.api import LOOPBACK_NAMES, ApiServices, ApiSettings
from ares.edge.rest.app import build_app
from ares.edge.rest.server import HttpServer
from ares.ports.store import Compare, Store
from ares.services.arrays import Arrays
from ares.services.booking import Book
from ares.services.consolidate import Consolidate
from ares.services.cursors import Cursors
from ares.services.deadlines import Deadlines
from ares.services.decisions import Decisions
from ares.services.drain import Drain
from ares.services.enrolment import Enrolment
from ares.services.explain import Explain
from ares.services.gaps import Gaps
from ares.services.health import Health
from ares.services.ids import base32
from ares.services.jobs import Jobs
from ares.services.leader import Leader
from ares.services.logs import LogReader
from ares.services.monitor import Monitor
from ares.services.nodes import Nodes
from ares.services.planner import Planner
from ares.services.plugins import Plugins
from ares.services.pools import Pools
from ares.services.predictions import Predictions
from ares.services.profiles import Profiles
from ares.services.progress import ProgressBoard
from ares.services.reports import Reports
from ares.services.requeue import Requeue
from ares.services.reservations import Reservations
from ares.services.retention import Retention
from ares.services.schedule import Schedule
from ares.services.sessions import Sessions
from ares.services.spending import Spending
from ares.services.stream import EventStream
from ares.services.submit import Submit
from ares.services.tally import Tally
from ares.services.tokens import Tokens
from ares.services.transitions import Transitions
from ares.services.view import View
from ares.services.windows import Windows

log = structlog.get_logger()

_DRAIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one replica, wired to each other."""

    view: View
    tokens: Tokens
    submit: Submit
    deadlines: Deadlines
    jobs: Jobs
    events: EventStream
    logs: LogReader
    nodes: Nodes
    pools: Pools
    health: Health
    sessions: Sessions
    leader: Leader
    monitor: Monitor
    requeue: Requeue
    schedule: Schedule
    profiles: Profiles
    plugins: Plugins
    drain: Drain
    consolidate: Consolidate
    windows: Windows
    gaps: Gaps
    reservations: Reservations
    kept: FileDecisions
    explain: Explain
    spending: Spending
    predictions: Predictions
    tally: Tally
    arrays: Arrays
    retention: Retention
    progress: ProgressBoard
    telemetry: PrometheusTelemetry


def _leader(config: Config, store: Store, view: View, clock: SystemClock, replica: str) -> Leader:
    # Nobody else can have the embedded store open.
    exclusive = not config.store_url.startswith("etcd:")
    return Leader(store, view, clock, cluster=config.cluster, replica=replica, exclusive=exclusive)


def _kept_decisions(config: Config, telemetry: PrometheusTelemetry) -> FileDecisions:
    return FileDecisions(config.home_path / "decisions", lambda n: telemetry.count("ares_decisions_dropped_total", n))


def build_services(config: Config, store: Store, epoch: int, store_id: str) -> Services:
    """Pure assembly: nothing runs yet."""
    clock, rng = SystemClock(), SystemRng()
    replica = config.replica or f"replica-{base32(rng, 6)}"
    telemetry = PrometheusTelemetry(rng, get_tracer("ares") if config.traces else None)
    logs, view = FileLogs(config.logs_path), View(store, clock)
    tokens = Tokens(store, view, clock, rng)
    # Before anything reads a profile: its names must be known then.
    loaded = plugins.load()
    planner = Planner(view, clock)
    predictions = Predictions(store, view, planner, clock, telemetry)
    kept = _kept_decisions(config, telemetry)
    decisions = Decisions(clock, rng, kept)
    transitions = Transitions(store, view, clock, rng, telemetry, epoch)
    deadlines = Deadlines(view, planner, clock)
    cursors = Cursors(hashlib.sha256(store_id.encode()).digest())
    submit = Submit(store, view, deadlines, clock, rng, telemetry, epoch, config.limits.jobs_max)
    progress = ProgressBoard(store, view, clock)
    sessions = Sessions(
        view=view, enrolment=Enrolment(store, clock, replica), reports=Reports(transitions, telemetry),
        progress=progress, tokens=tokens, logs=logs, clock=clock, telemetry=telemetry, epoch=epoch,
    )  # fmt: skip
    keep_s = config.limits.keep_days * 86_400
    book, nodes = Book(store, view), Nodes(store, view, clock)
    windows = Windows(store, book, view, planner, transitions, clock, telemetry, keep_s)
    leader = _leader(config, store, view, clock, replica)
    return Services(
        view=view,
        tokens=tokens,
        submit=submit,
        deadlines=deadlines,
        jobs=Jobs(store, view, transitions, submit, planner, deadlines, cursors, clock),
        events=EventStream(store, view),
        logs=LogReader(view, logs, clock),
        nodes=nodes,
        pools=Pools(view, nodes, planner, clock),
        health=Health(view, leader, loaded.refused),
        sessions=sessions,
        leader=leader,
        monitor=Monitor(view, transitions, clock, telemetry),
        requeue=Requeue(view, transitions, clock),
        schedule=Schedule(view, planner, transitions, decisions, clock, telemetry),
        profiles=Profiles(store, view, clock, telemetry),
        plugins=Plugins(view, loaded),
        drain=Drain(view, planner, transitions, clock, telemetry),
        consolidate=Consolidate(view, planner, transitions, clock, telemetry),
        windows=windows,
        gaps=Gaps(view, planner, transitions, clock, telemetry),
        reservations=Reservations(book, view, planner, windows, clock, rng, telemetry),
        kept=kept,
        predictions=predictions,
        tally=Tally(planner, clock, telemetry),
        explain=Explain(store, view, planner, decisions, clock),
        spending=Spending(view, clock),
        arrays=Arrays(view, submit, clock),
        retention=Retention(store, view, logs, clock, keep_s),
        progress=progress,
        telemetry=telemetry,
    )


class ControlPlane:
    """One replica: opens the store, serves people and agents, and campaigns for leadership."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._tasks: list[asyncio.Task[None]] = []
        # What was started, to be stopped in the opposite order however far the start came.
        self._started = contextlib.AsyncExitStack()
        # A loop that everything depends on ended: this process is of no use any more.
        self.failed = asyncio.Event()

    async def start(self) -> None:
        """Returns when requests are served. If it fails, `stop` ends what it had started."""
        clock, rng = SystemClock(), SystemRng()
        store = await open_store(self._config.store_url, clock)
        self._started.push_async_callback(store.close)
        epoch = await ensure_epoch(store, rng)
        kv = await store.get(keys.EPOCH)
        assert kv is not None, "the epoch was just written"
        self.services = services = build_services(self._config, store, epoch, decode_epoch(kv.value).id)
        self._started.callback(services.kept.close)
        await services.view.open()
        self._started.push_async_callback(self._end_loops)
        self._spawn("view", services.view.run())
        await services.view.catch_up()
        self._spawn("progress", services.progress.run())
        self._spawn("predictions", services.predictions.run())
        self._spawn("leader", services.leader.run(self._reign))
        agents = AgentServer(services.sessions, services.tokens)
        self._started.push_async_callback(agents.stop, _DRAIN_S)
        self.agents_port = await agents.start(self._config.agents.host, self._config.agents.port, self._tls())
        http = HttpServer(build_app(self._api(services), self._settings()), self._settings())
        self._started.push_async_callback(http.stop)
        await http.start()
        self.http_port = http.port

    async def _reign(self, guard: Compare) -> None:
        services = self.services
        services.telemetry.gauge("ares_leader", 1)
        try:
            async with asyncio.TaskGroup() as loops:
                loops.create_task(services.schedule.run(guard))
                loops.create_task(services.drain.run(guard))
                loops.create_task(services.windows.run(guard))
                loops.create_task(services.gaps.run(guard))
                loops.create_task(services.monitor.run())
                loops.create_task(services.requeue.run())
                loops.create_task(services.predictions.lead(guard))
                loops.create_task(services.tally.run())
                loops.create_task(services.arrays.run())
                loops.create_task(services.retention.run())
        finally:
            services.telemetry.gauge("ares_leader", 0)

    def _spawn(self, name: str, loop: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(loop, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("loop.failed", loop=task.get_name(), error=repr(error), exc_info=error)
            self.failed.set()

    def _api(self, services: Services) -> ApiServices:
        return ApiServices(
            submit=services.submit,
            deadlines=services.deadlines,
            jobs=services.jobs,
            explain=services.explain,
            spending=services.spending,
            events=services.events,
            logs=services.logs,
            nodes=services.nodes,
            pools=services.pools,
            profiles=services.profiles,
            plugins=services.plugins,
            drain=services.drain,
            consolidate=services.consolidate,
            reservations=services.reservations,
            predictions=services.predictions,
            tokens=services.tokens,
            health=services.health,
            metrics=services.telemetry.render,
            telemetry=services.telemetry,
            clock=SystemClock(),
            rng=SystemRng(),
        )

    def _tls(self) -> Tls | None:
        http = self._config.http
        if not http.tls_cert:
            return None
        return Tls(Path(http.tls_cert).read_bytes(), Path(http.tls_key).read_bytes())

    def _settings(self) -> ApiSettings:
        http = self._config.http
        return ApiSettings(
            host=http.host,
            port=http.port,
            tls_cert=Path(http.tls_cert) if http.tls_cert else None,
            tls_key=Path(http.tls_key) if http.tls_key else None,
            allowed_hosts=(*LOOPBACK_NAMES, *http.allowed_hosts),
        )

    async def stop(self) -> None:
        """Stops taking work, lets go of leadership and closes the store."""
        await self._started.aclose()

    async def _end_loops(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
