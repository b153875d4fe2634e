"""What the HTTP edge is given: the services it speaks for, and how it should behave."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ares.control.access.browser_logins import BrowserLogins
from ares.control.access.logins import Logins
from ares.control.access.machines import MachineAuthority
from ares.control.access.tenants import Tenants
from ares.control.access.tokens import Tokens
from ares.control.access.users import Users
from ares.control.autoscale.standing import ScalingState
from ares.control.books.desk import BookDesk
from ares.control.execution.job_sessions import JobSessions
from ares.control.federation.federation import Federation
from ares.control.flow.workflows import Workflows
from ares.control.governance.alerts import Alerts
from ares.control.governance.audit import Audit
from ares.control.governance.audit_heads import AuditHeads
from ares.control.governance.audit_search import AuditSearch
from ares.control.governance.channels import Channels
from ares.control.governance.download_meter import Meters
from ares.control.governance.policies import Policies
from ares.control.governance.quotas import Quotas
from ares.control.governance.secrets import Secrets
from ares.control.queries.checkpoints import CheckpointReader
from ares.control.queries.events import EventStream
from ares.control.queries.explain import Explain
from ares.control.queries.gpus import GpuMaps
from ares.control.queries.health import Health
from ares.control.queries.jobs import Jobs
from ares.control.queries.logs import LogReader
from ares.control.queries.nodes import Nodes
from ares.control.queries.outputs import OutputReader
from ares.control.queries.overview import Overviews
from ares.control.queries.pools import Pools
from ares.control.queries.steering import Steering
from ares.control.queries.traces import Traces
from ares.control.queries.transfers import TransferList
from ares.control.queries.usage import LiveUses, Spending
from ares.control.replica import Replica
from ares.control.scheduler.consolidate import Consolidate
from ares.control.scheduler.deadlines import Deadlines
from ares.control.scheduler.drain import Drain
from ares.control.scheduler.plugins import Plugins
from ares.control.scheduler.predictions import Predictions
from ares.control.scheduler.profiles import Profiles
from ares.control.scheduler.reservations import Reservations
from ares.control.shadow.shadows import Shadows
from ares.control.state.view import View
from ares.control.submit.crons import Crons
from ares.control.submit.datasets import Datasets
from ares.control.submit.projects import Projects
from ares.control.submit.submit import Submit
from ares.control.telemetry.insights import Insights
from ares.control.telemetry.series_history import KeptSeries, SeriesHistory
from ares.control.telemetry.status import StatusReport
from ares.core.limits import DEFAULT_LIMITS, ServerLimits
from ares.ports.clock import Clock, Rng
from ares.ports.telemetry import ReadableTelemetry, Telemetry

LOOPBACK_NAMES = ("127.0.0.1", "::1", "localhost")


class Numbers(NamedTuple):
    """What this replica remembers of its numbers, and what is odd about them."""

    series: SeriesHistory
    insights: Insights


@dataclass(frozen=True, slots=True)
class ApiServices:
    """`metrics` renders the metrics as of now; with True, as OpenMetrics."""

    view: View
    audit: Audit
    audit_search: AuditSearch
    audit_heads: AuditHeads | None
    submit: Submit
    projects: Projects
    datasets: Datasets
    deadlines: Deadlines
    jobs: Jobs
    steering: Steering
    workflows: Workflows
    explain: Explain
    traces: Traces
    numbers: Numbers
    spending: Spending
    books: BookDesk
    quotas: Quotas
    meters: Meters
    transfers: TransferList
    events: EventStream
    logs: LogReader
    job_sessions: JobSessions
    live_use: LiveUses
    gpu_maps: GpuMaps
    overviews: Overviews
    outputs: OutputReader
    checkpoints: CheckpointReader
    nodes: Nodes
    pools: Pools
    profiles: Profiles
    shadows: Shadows
    plugins: Plugins
    drain: Drain
    consolidate: Consolidate
    reservations: Reservations
    scaling: ScalingState
    secrets: Secrets
    crons: Crons
    predictions: Predictions
    alerts: Alerts
    channels: Channels
    policies: Policies
    tenants: Tenants
    users: Users
    tokens: Tokens
    logins: Logins
    browser_logins: BrowserLogins
    authority: MachineAuthority
    federation: Federation
    health: Health
    status: StatusReport
    metrics: Callable[[bool], Awaitable[bytes]]
    telemetry: Telemetry
    clock: Clock
    rng: Rng


def _numbers(replica: Replica, series: SeriesHistory) -> Numbers:
    return Numbers(series, replica.insights(series))


def services_of(
    replica: Replica, *, metrics: Callable[[bool], Awaitable[bytes]], telemetry: ReadableTelemetry, clock: Clock,
    rng: Rng, kept_series: KeptSeries | None = None) -> ApiServices:  # fmt: skip
    live_use = LiveUses(replica.view, replica.job_sessions, clock)
    return ApiServices(
        view=replica.view,
        audit=replica.audit,
        audit_search=replica.audit_search,
        audit_heads=replica.audit_heads,
        submit=replica.submit,
        projects=replica.projects,
        datasets=replica.datasets,
        deadlines=replica.deadlines,
        jobs=replica.jobs,
        steering=replica.steering,
        workflows=replica.workflows,
        explain=replica.explain,
        traces=replica.traces,
        numbers=_numbers(replica, SeriesHistory(replica.measures, telemetry, clock, replica.name, kept_series)),
        spending=replica.spending,
        books=replica.books,
        quotas=replica.quotas,
        meters=replica.meters,
        transfers=replica.transfer_list,
        events=replica.events,
        logs=replica.logs,
        job_sessions=replica.job_sessions,
        live_use=live_use,
        gpu_maps=GpuMaps(replica.view, live_use, clock),
        overviews=replica.overviews,
        outputs=replica.outputs,
        checkpoints=replica.checkpoints,
        nodes=replica.nodes,
        pools=replica.pools,
        profiles=replica.profiles, shadows=replica.shadow.shadows,
        plugins=replica.plugins,
        drain=replica.drain,
        consolidate=replica.consolidate,
        reservations=replica.reservations,
        scaling=replica.scaling,
        secrets=replica.secrets,
        crons=replica.crons,
        predictions=replica.predictions,
        alerts=replica.alerts,
        channels=replica.channels,
        policies=replica.policies,
        tenants=replica.tenants,
        users=replica.users,
        tokens=replica.tokens,
        logins=replica.logins,
        browser_logins=replica.browser_logins,
        authority=replica.authority,
        federation=replica.federation,
        health=replica.health,
        status=replica.status,
        metrics=metrics,
        telemetry=telemetry,
        clock=clock,
        rng=rng,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Settings of the API: addresses to listen on, allowed callers, and limits."""

    host: str = "127.0.0.1"
    # 0 takes a free port.
    port: int = 0
    tls_cert: Path | None = None
    tls_key: Path | None = None
    # Authorities whose certificates are machines'.
    machines_ca: Path | None = None
    # Names clients may call this server by, without the port. Others get 421: a web page that
    # rebinds its name to this address must not reach the API.
    allowed_hosts: tuple[str, ...] = LOOPBACK_NAMES
    # Web origins that may call from a browser, besides the server's own.
    allowed_origins: tuple[str, ...] = ()
    body_bytes_max: int = 1024 * 1024
    batch_bytes_max: int = 16 * 1024 * 1024
    batch_jobs_max: int = 10_000
    body_timeout_s: float = 30.0
    streams_per_token_max: int = 100
    # How often an open stream's token is checked again: revocation takes effect within 5 s.
    recheck_s: float = 2.0
    # An idle event stream says something this often.
    heartbeat_s: float = 15.0
    # A reader that takes nothing for this long is cut off.
    send_timeout_s: float = 15.0
    shutdown_s: float = 5.0
    limits: ServerLimits = DEFAULT_LIMITS
