"""Builds a control-plane replica from its configuration: the one place where adapters meet services."""

import asyncio
import contextlib
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog
from litestar import Litestar

from ares.adapters.alerts import ChannelNotifier, Smtp
from ares.adapters.certificates import X509Requests
from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.decisions import FileDecisions
from ares.adapters.disk import Disks, Reserve
from ares.adapters.links.global_plane import GrpcGlobalPlane
from ares.adapters.logs.files import FileLogs
from ares.adapters.planning.process import ProcessPlanning
from ares.adapters.policy import CelRules
from ares.adapters.secrets import EnvelopeVault, FileRing
from ares.adapters.store.epoch import decode as decode_epoch
from ares.adapters.store.epoch import ensure_epoch
from ares.adapters.store.open import ensure_format, keep_to_format, open_store
from ares.adapters.telemetry.process import ProcessUse
from ares.adapters.telemetry.prometheus import PrometheusTelemetry
from ares.adapters.telemetry.series_file import SeriesFile
from ares.adapters.witness import DecidingLock
from ares.app import audit, plugins
from ares.app import store as store_backups
from ares.app.authority import Serving, authority_files, authority_of, has_tls
from ares.app.config import Config
from ares.app.export import exporting
from ares.app.files import KeptFiles, files_of, rooms_of
from ares.app.providers import prices_of, providers_of, scaling_of
from ares.control.replica import Replica
from ares.control.replica_terms import Ports, ReplicaTerms
from ares.control.state.ids import base32
from ares.core import keys
from ares.edge.grpc.agents import AgentServer
from ares.edge.rest.api import LOOPBACK_NAMES, ApiServices, ApiSettings, services_of
from ares.edge.rest.app import build_app
from ares.edge.rest.http.server import HttpServer
from ares.edge.rest.relayed import RelayedRequests
from ares.ports.certificates import Issuer
from ares.ports.clock import Clock
from ares.ports.planning import PlannerLost
from ares.ports.provider import ProviderCodes, ProviderKeys
from ares.ports.store import Compare, Store, StoreBroken, StoreUnavailable

if TYPE_CHECKING:
    from ares.edge.rpc.server import RpcServer

log = structlog.get_logger()

_DRAIN_S = 2.0
_ANNOUNCE_S = 2.0
_CANCEL_AGAIN_S = 1.0
_LAG_EVERY_S = 0.5
# A store that starts together with this process, or is busy, is waited for.
_STORE_S = 30.0
_STORE_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Assembled:
    """A replica and the adapters that the process itself has to do with."""

    replica: Replica
    telemetry: PrometheusTelemetry
    kept: FileDecisions
    planning: tuple[ProcessPlanning, ...]
    deciding: DecidingLock | None
    files: KeptFiles


def _notifier(config: Config, clock: Clock) -> ChannelNotifier:
    given = config.alerts
    smtp = Smtp(
        host=given.smtp_host,
        port=given.smtp_port,
        sender=given.smtp_from,
        user=given.smtp_user,
        password_file=given.smtp_password_file,
        starttls=given.smtp_starttls,
    )
    return ChannelNotifier(clock.wall, smtp=smtp, allow=given.allow_private)


def assemble(config: Config, store: Store, epoch: int, store_id: str, issuer: Issuer | None = None) -> Assembled:
    """Nothing runs yet."""
    clock, rng = SystemClock(), SystemRng()
    telemetry = PrometheusTelemetry(rng)
    rooms = rooms_of(config)
    kept = FileDecisions(
        config.home_path / "decisions", lambda n: telemetry.count("ares_decisions_dropped_total", n), room=rooms.home
    )
    planning = tuple(
        ProcessPlanning((sys.executable, "-m", "ares.app.planner")) for _ in range(config.scheduler.planners)
    )
    files = files_of(config, rooms)
    ports = Ports(
        store=store, clock=clock, rng=rng, telemetry=telemetry, decisions=kept, issuer=issuer,
        logs=FileLogs(config.logs_path, rooms.logs), blobs=files.blobs,
        projects=files.projects, object_store=files.facts, signed=files.signed, planning=planning, reserves=rooms,
        judging=ProcessPlanning((sys.executable, "-m", "ares.app.shadow.judge")),
        rules=CelRules(), notifier=_notifier(config, clock),
        provider_keys=provider_keys(config, clock),
        provider_codes=provider_codes(config),
        vault=EnvelopeVault(FileRing(config.secrets_path)),
        backed_up=partial(store_backups.backed_up, config) if config.store_url.startswith("sqlite:") else None,
        global_plane=GrpcGlobalPlane(X509Requests(), certified=config.agents.tls == "on"), disk=Disks(written(config)),
        audit=audit.ports_of(config, rng), providers=providers_of(config),
        prices=prices_of(config),
    )  # fmt: skip
    deciding = _deciding_lock(config)
    terms = ReplicaTerms(
        replica=config.replica or f"replica-{base32(rng, 6)}",
        epoch=epoch,
        store_id=store_id,
        cluster=config.cluster,
        # No other process can have the embedded store open.
        exclusive=not config.store_url.startswith("etcd:"),
        store_lock=None if deciding is None else deciding.told,
        jobs_max=config.limits.jobs_max,
        tenant_records_max=config.limits.tenant_records_max,
        tenant_jobs_max=config.limits.tenant_jobs_max,
        retries_per_minute=config.limits.retries_per_minute,
        keep_s=config.limits.keep_days * 86_400,
        output_bytes_max=config.limits.output_mib_max << 20,
        project_bytes_max=config.limits.project_mib_max << 20,
        dataset_bytes_max=config.limits.dataset_mib_max << 20,
        log_bytes_max=config.limits.log_mib_max << 20,
        timing=config.timing,
        audit_required=config.audit.required,
        audit_keep_s=config.audit.keep_days * 86_400,
        providers=config.providers,
        certificate_s=config.agents.certificate_s,
        # Before anything reads a profile: its names must be known then. The planning process enters them.
        plugins=plugins.load(apart=True),
        scaling=scaling_of(config),
        agent_servers=(f"{config.agents.host}:{config.agents.port}",),
    )
    return Assembled(Replica(ports, terms), telemetry, kept, planning, deciding, files)


def _deciding_lock(config: Config) -> DecidingLock | None:
    """None where several servers may decide by one store."""
    url = urlsplit(config.store_url)
    return DecidingLock(url.path, config.timing.longest_s) if url.scheme == "sqlite" else None


def written(config: Config) -> tuple[Path, ...]:
    """The directories that a server fills: state and audit, logs, outputs, and the embedded store."""
    url = urlsplit(config.store_url)
    store = (Path(url.path).parent,) if url.scheme == "sqlite" else ()
    return (config.home_path, config.logs_path, config.outputs_path, *store)


def provider_keys(config: Config, clock: Clock) -> ProviderKeys | None:
    """Its libraries are only loaded where there is a provider."""
    if not config.providers:
        return None
    from ares.adapters.oidc.keys import JwksKeys

    return JwksKeys(clock)


def provider_codes(config: Config) -> ProviderCodes | None:
    if not any(provider.authorize_url for provider in config.providers):
        return None
    from ares.adapters.oidc.codes import CodeDesk

    return CodeDesk()


async def _open_patiently(url: str, clock: Clock) -> Store:
    until = clock.monotonic() + _STORE_S
    while True:
        try:
            return await open_store(url, clock)
        except StoreUnavailable as error:
            if clock.monotonic() >= until:
                raise
            log.warning("store.awaited", error=str(error))
            # A file that is in use says so at once.
            await clock.sleep(_STORE_AGAIN_S)


async def _started(planning: ProcessPlanning) -> None:
    try:
        await planning.open()
    except PlannerLost as lost:
        log.warning("planning.lost", why=str(lost))


class ControlPlane:
    """One replica: opens the store, serves people and agents, and campaigns for leadership."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._tasks: list[asyncio.Task[None]] = []
        self._process = ProcessUse()
        # What was started, to be stopped in the opposite order however far the start came.
        self._started = contextlib.AsyncExitStack()
        # A loop that everything depends on ended: this process is of no use any more.
        self.failed = asyncio.Event()

    async def start(self) -> None:
        """Returns when requests are served. If it fails, `stop` ends what it had started."""
        clock, rng = SystemClock(), SystemRng()
        store = await _open_patiently(self._config.store_url, clock)
        self._started.push_async_callback(store.close)
        await ensure_format(store)
        epoch = await ensure_epoch(store, rng)
        kv = await store.get(keys.EPOCH)
        assert kv is not None, "the epoch was just written"
        authority = await authority_of(self._config, store)
        self.assembled = assemble(self._config, store, epoch, decode_epoch(kv.value).id, authority)
        replica = self.assembled.replica
        if self.assembled.deciding is not None:
            self._started.callback(self.assembled.deciding.close)
        self._started.callback(self.assembled.kept.close)
        self._started.push_async_callback(self.assembled.files.close)
        await self.assembled.files.open()
        for planning in self.assembled.planning:
            self._started.push_async_callback(planning.close)
            # A planner takes as long to start as all the rest: the first leader need not wait for it.
            self._spawn("planning", _started(planning))
        await replica.view.open()
        self._started.push_async_callback(self._end_loops)
        self._spawn("view", replica.view.run())
        self._spawn("format", keep_to_format(store, clock))
        await replica.view.catch_up()
        await replica.time.open()
        self._started.push_async_callback(replica.close_audit)
        await replica.open_audit()
        await replica.authority.open()
        agents = AgentServer(
            replica.sessions,
            replica.staging,
            replica.job_sessions,
            replica.children,
            replica.tokens,
            replica.authority,
            replica.audit,
            self.assembled.telemetry,
            logs=replica.sessions.log_streams,
            clusters=replica.federation.links,
            asks=replica.federation.asks,
        )
        self._started.push_async_callback(agents.stop, _DRAIN_S)
        self._started.push_async_callback(self._announce)
        serving = None if authority is None else Serving(authority)
        # Last before agents can connect: their jobs go on while no server decides, and not much longer.
        self._decide()
        self.agents_port = await agents.start(self._config.agents.host, self._config.agents.port, serving)
        await self._serve_people()

    async def _serve_people(self) -> None:
        services = self._api()
        self._spawn("series", services.numbers.series.run())
        self._spawn("insights", services.numbers.insights.run())
        replica, telemetry = self.assembled.replica, self.assembled.telemetry
        for name, loop in exporting(self._config, replica, telemetry, self._measure, clock=SystemClock()).items():
            self._spawn(name, loop)
        app = build_app(services, self._settings())
        self.assembled.replica.federation.uplink.answerer = RelayedRequests(app, self.assembled.replica.view)
        http = HttpServer(app, self._settings())
        rpc = self._rpc(app)
        if rpc is not None:
            self._started.push_async_callback(rpc.stop, _DRAIN_S)
        # Stopped before that: the streams of both end there, and say why.
        self._started.push_async_callback(http.stop)
        await http.start()
        self.http_port = http.port
        if rpc is not None:
            await rpc.start()
        self.grpc_port = None if rpc is None else rpc.port

    def _rpc(self, app: Litestar) -> "RpcServer | None":
        """The public gRPC service. Its libraries are only loaded where it is on."""
        if (place := self._config.grpc.address) is None:
            return None
        from ares.edge.rest.direct import Direct
        from ares.edge.rpc.server import RpcServer, RpcSettings

        api = self._settings()
        settings = RpcSettings(
            host=place[0], port=place[1], tls_cert=api.tls_cert, tls_key=api.tls_key,
            message_bytes_max=api.body_bytes_max, streams_per_connection=api.streams_per_token_max,
            calls_per_credential=2 * api.streams_per_token_max,
            calls_per_address=api.limits.connections_per_address_max,
        )  # fmt: skip
        return RpcServer(Direct(app), settings, self.assembled.telemetry)

    def _decide(self) -> None:
        if (lock := self.assembled.deciding) is not None:
            lock.begin()
        for name, loop in self.assembled.replica.loops(self._reign).items():
            self._spawn(name, loop)
        self._spawn("lag", self._watch_lag(SystemClock()))
        self._spawn("files", self.assembled.files.run(SystemClock()))
        self._spawn("gpus", self.assembled.replica.gpu_readings.run())
        self._spawn("idle", self.assembled.replica.idle_watch.run())
        if (roll := self.assembled.replica.roll) is not None:
            self._spawn("replicas", roll.run())

    async def _announce(self) -> None:
        """Agents of a server that stops in order have time for the next one, if there can be no other to judge them."""
        replica, exclusive = self.assembled.replica, not self._config.store_url.startswith("etcd:")
        lasts_s = self._config.timing.longest_s if exclusive else 0.0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ANNOUNCE_S):
                await replica.sessions.announce(lasts_s)

    async def _reign(self, guard: Compare) -> None:
        telemetry = self.assembled.telemetry
        telemetry.gauge("ares_leader", 1)
        try:
            await self.assembled.replica.reign(guard)
        finally:
            telemetry.gauge("ares_leader", 0)

    async def _watch_lag(self, clock: Clock) -> None:
        """How late this loop is: what one request waits for because of all others."""
        while True:
            began = clock.monotonic()
            await clock.sleep(_LAG_EVERY_S)
            late = max(0.0, clock.monotonic() - began - _LAG_EVERY_S)
            self.assembled.telemetry.observe("ares_loop_lag_seconds", late)

    def _spawn(self, name: str, loop: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(loop, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            # A store that broke says all there is to say.
            where = None if isinstance(error, StoreBroken) else error
            log.error("loop.failed", loop=task.get_name(), error=str(error) or repr(error), exc_info=where)
            self.failed.set()

    async def _measure(self) -> None:
        """Gauges, as they are now."""
        self._process.measure(self.assembled.telemetry)
        await self.assembled.replica.measures.take(self.assembled.telemetry)

    async def _metrics(self, is_open: bool) -> bytes:
        await self._measure()
        return await self.assembled.telemetry.page(is_open)

    def _api(self) -> ApiServices:
        home, limits = self._config.home_path, self._config.limits
        # A reserve of its own: graphs that are not kept do not make the disk short for jobs.
        reserve = Reserve(home, limits.disk_reserve_mib, limits.disk_reserve_files)
        return services_of(
            self.assembled.replica,
            metrics=self._metrics,
            telemetry=self.assembled.telemetry,
            clock=SystemClock(),
            rng=SystemRng(),
            kept_series=SeriesFile(home / "series.npz", reserve.take),
        )

    def _settings(self) -> ApiSettings:
        http = self._config.http
        return ApiSettings(
            host=http.host,
            port=http.port,
            tls_cert=Path(http.tls_cert) if http.tls_cert else None,
            tls_key=Path(http.tls_key) if http.tls_key else None,
            machines_ca=authority_files(self._config)[0] if http.tls_cert and has_tls(self._config.agents) else None,
            allowed_hosts=(*LOOPBACK_NAMES, *http.allowed_hosts),
            limits=self._config.limits,
        )

    async def stop(self) -> None:
        """Stops taking work, lets go of leadership and closes the store."""
        await self._started.aclose()

    async def _end_loops(self) -> None:
        left = set(self._tasks)
        while left:
            for task in left:
                task.cancel()
            # A cancellation is lost where it meets the end of what was waited for: then once more.
            _, left = await asyncio.wait(left, timeout=_CANCEL_AGAIN_S)
