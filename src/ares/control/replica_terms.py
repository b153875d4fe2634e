"""What a replica is built from: where it meets the world, and what it is told about itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ares.control.execution.log_intake import LOG_BYTES_MAX
from ares.control.execution.sessions import ACK_WITHIN_S
from ares.control.execution.uploads import OUTPUT_BYTES_MAX
from ares.control.scheduler.loop import LINGER_S
from ares.control.scheduler.planner_link import PACE, PlannerPace
from ares.control.scheduler.plugins import NO_PLUGINS, Loaded
from ares.control.scheduler.retries import RETRIES_PER_MINUTE
from ares.control.submit.datasets import DATASET_BYTES_MAX
from ares.control.submit.projects import PROJECT_BYTES_MAX
from ares.core.access.certificates import LIFE_S
from ares.model.access import Provider
from ares.model.link import StoreLock
from ares.model.scaling import ScalingPool
from ares.model.timing import DEFAULT, Timing
from ares.ports.audit import AuditPorts
from ares.ports.blobs import Blobs, SignedReads
from ares.ports.certificates import Issuer
from ares.ports.clock import Clock, Rng
from ares.ports.cluster_link import GlobalPlane
from ares.ports.disk import Disk, Reserves
from ares.ports.logs import Logs
from ares.ports.machines import MachineProvider, PriceSource, Providers
from ares.ports.notify import Notifier
from ares.ports.planning import DecisionLog, Planning
from ares.ports.policy import CompiledRules
from ares.ports.projects import ProjectFiles
from ares.ports.provider import ProviderCodes, ProviderKeys
from ares.ports.secrets import Vault
from ares.ports.store import Store
from ares.ports.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a replica meets the world."""

    store: Store
    clock: Clock
    rng: Rng
    telemetry: Telemetry
    logs: Logs
    blobs: Blobs
    # Where plans are made: each is a planner, which plans for some of the jobs.
    planning: tuple[Planning, ...]
    # Where a shadow profile is judged; without it none is.
    judging: Planning | None = None
    # Files that jobs start with; without it no project is kept.
    projects: ProjectFiles | None = None
    # URLs by which nodes read files by themselves; without it all files pass the replica.
    signed: SignedReads | None = None
    # What is known of the object store that keeps files, by name; nothing where they are on disk.
    object_store: Callable[[], Mapping[str, str]] = dict[str, str]
    decisions: DecisionLog | None = None
    provider_keys: ProviderKeys | None = None
    # What providers give for codes of browsers' logins.
    provider_codes: ProviderCodes | None = None
    # Signs machines' certificates; without, they have tokens.
    issuer: Issuer | None = None
    # The language of policies; without it none can be saved.
    rules: CompiledRules | None = None
    # Without it no alert is delivered.
    notifier: Notifier | None = None
    # Without it no secrets are kept.
    vault: Vault | None = None
    # What is left of the disks it writes to, and of what is reserved there; without it that is not looked at.
    disk: Disk | None = None
    reserves: Reserves | None = None
    # When the store was last backed up, None when never; without it that is not known here.
    backed_up: Callable[[], float | None] | None = None
    # None: nothing is recorded.
    audit: AuditPorts | None = None
    # How a cluster gets to its global plane; without it, it joins none.
    global_plane: GlobalPlane | None = None
    # Where machines are bought, by name.
    providers: Providers = field(default_factory=dict[str, MachineProvider])
    prices: PriceSource | None = None


@dataclass(frozen=True, slots=True)
class ReplicaTerms:
    """What a replica is told about itself."""

    replica: str
    epoch: int
    store_id: str
    cluster: str = "local"
    # No other process can have the store open.
    exclusive: bool = False
    # The lock it holds while it decides, for agents on the same machine.
    store_lock: StoreLock | None = None
    jobs_max: int = 2_000_000
    # Of one tenant: kept, and not ended.
    tenant_records_max: int = 1_000_000
    tenant_jobs_max: int = 500_000
    # Of one tenant's failed attempts.
    retries_per_minute: int = RETRIES_PER_MINUTE
    keep_s: float = 35 * 86_400.0
    # Of the files that one rank of an attempt hands over.
    output_bytes_max: int = OUTPUT_BYTES_MAX
    # Of the files that a job starts with.
    project_bytes_max: int = PROJECT_BYTES_MAX
    dataset_bytes_max: int = DATASET_BYTES_MAX
    # Of what one rank of an attempt writes.
    log_bytes_max: int = LOG_BYTES_MAX
    timing: Timing = DEFAULT
    # Pools that grow and shrink by themselves, and where agents of bought machines find this server.
    scaling: tuple[ScalingPool, ...] = ()
    agent_servers: tuple[str, ...] = ()
    # Identity providers that are trusted.
    providers: tuple[Provider, ...] = ()
    plugins: Loaded = NO_PLUGINS
    # How long a machine's certificate is good.
    certificate_s: int = LIFE_S
    # What cannot be recorded is not done.
    audit_required: bool = True
    audit_keep_s: float = 400 * 86_400.0
    # How long a scheduling cycle and an acknowledgement wait for company.
    linger_s: float = LINGER_S
    ack_within_s: float = ACK_WITHIN_S
    pace: PlannerPace = PACE
    # Whether it keeps daily books while it leads: a simulated world lasts for minutes.
    books: bool = True
