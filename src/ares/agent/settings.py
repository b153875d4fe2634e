"""The settings of an agent: limits of the attempts it runs, and its own intervals."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ares.agent.attempts.owners import Owners
from ares.agent.entry.span_desk import SpanDesk
from ares.agent.staging.image_store import ImageLimits, ImageTerms
from ares.agent.staging.node_environment import EnvironmentTerms
from ares.agent.staging.tenant_cache import TenantCaches


@dataclass(frozen=True, slots=True)
class AgentSettings:
    # The variables every job inherits: already reduced by `environment.inherited`.
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    log_bytes_max: int = 64 * 1024 * 1024
    # How long the report of an attempt's end waits while the control plane cannot store the attempt's output.
    log_wait_s: float = 60.0
    # Output that comes faster is dropped, with a note in the log. 0: no such limit.
    log_bytes_per_s: int = 0
    file_bytes_max: int = 1 << 40
    processes_max: int = 4096
    open_files_max: int = 65_536
    # With less than this left on the disk, the job that holds most of it is ended.
    disk_reserve_bytes: int = 256 * 1024 * 1024
    # When the agent itself is told to stop: how long attempts have to save their work and to end, and the most of
    # that time between SIGTERM and SIGKILL.
    drain_s: float = 60.0
    shutdown_grace_s: float = 10.0
    # How long a leaving agent waits for its last reports to be acknowledged.
    farewell_s: float = 5.0
    # How long an attempt's end waits for its last checkpoint to be kept.
    checkpoint_wait_s: float = 600.0
    poll_every_s: float = 0.2
    disk_look_every_s: float = 0.5
    # An attempt whose directory holds more is ended. 0: no such limit.
    workspace_bytes_max: int = 0
    # Of the link that tenants' bulk bytes share. 0: no limit.
    link_bytes_per_s: float = 0.0
    # Of files that were fetched for attempts and are kept for the next ones.
    cache_bytes_max: int = 20 << 30
    # Of datasets that attempts read, kept for the next ones.
    dataset_bytes_max: int = 100 << 30
    # What of images may be unpacked here, and which ones jobs may name.
    image_limits: ImageLimits = field(default_factory=ImageLimits)
    image_terms: ImageTerms = field(default_factory=ImageTerms)
    # Of Python environments that were built for attempts and are kept for the next ones.
    environment_bytes_max: int = 20 << 30
    environment_terms: EnvironmentTerms = field(default_factory=EnvironmentTerms)
    # The program that builds them; empty: there is none. Where it takes packages from, unless the job says otherwise.
    uv: str = ""
    package_index: str = ""
    # The directories of tenants that outlive their jobs. None: there are none.
    caches: TenantCaches | None = None
    # The user each tenant's sandboxed attempts run as. None: tenants have no users of their own.
    owners: Owners | None = None
    # Takes spans that programs record. None: they are not taken here.
    span_desk: SpanDesk | None = None
