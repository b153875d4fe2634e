"""Nodes, clusters, drains, moves, the rights to run, and all of it at a glance."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.api.deadlines import SlaView
from ares.api.quotas import LentView
from ares.api.reasons import ReasonCode, Remedy
from ares.model.base import Line, Note, Record, Shown, Slug
from ares.model.cluster import ClusterKind, ClusterState
from ares.model.node import NodeInfo, Taint
from ares.model.state import Phase
from ares.model.uplink import ClusterMode, ClusterReport


class NodeView(Record, frozen=True):
    """A node with what is free on it now: nothing while no job can be sent there."""

    name: str
    info: NodeInfo
    incarnation: int
    ready: bool
    cordoned: bool
    taints: tuple[Taint, ...]
    drained_by: str
    lease_age_s: float | None
    running: int
    cpu_milli_free: int
    memory_mib_free: int
    gpus_free: int


class ClusterView(Record, frozen=True):
    """The whole cluster, and who leads it."""

    id: str
    nodes: int
    ready_nodes: int
    gpus: int
    gpus_free: int
    pending: int
    running: int
    leader: str
    # How long it has led; None when nobody leads.
    leader_age_s: float | None
    revision: int
    # How long ago this replica last heard of the store.
    store_age_s: float


class LeaseView(Record, frozen=True):
    """Who holds a job now. `expires_in_s` counts from the last renewal this replica saw."""

    job: str
    name: str
    attempt: int
    fence: str
    node: str
    phase: Phase
    held_s: float
    expires_in_s: float | None


class DrainedJob(Record, frozen=True):
    """A job that still holds something on the node. Of other tenants' jobs only that they are there."""

    job: str
    phase: Phase
    # Why it does not leave before it ends; empty when it leaves.
    stays: str = ""


class DrainStatus(Record, frozen=True):
    node: str
    by: str
    reason: str
    # How many there were, and those that are left.
    jobs: int
    left: tuple[DrainedJob, ...]
    done: bool
    message: str


class MoveView(Record, frozen=True):
    """One job and the nodes of its ranks, now and then."""

    job: str
    tenant: str
    name: str
    gpus: float
    origin: tuple[str, ...]
    to: tuple[str, ...]
    lost_gpu_s: float


class ConsolidationView(Record, frozen=True):
    """What would be moved, or was. `revision` names exactly this plan."""

    revision: str
    gpus: int
    nodes: int
    moves: tuple[MoveView, ...]
    lost_gpu_s: float
    # Nodes with so many free GPUs.
    before: int
    after: int
    applied: bool
    message: str


# ---- all of it at a glance: jobs, why they wait, machines, and GPUs one by one


class WaitingGroup(Record, frozen=True):
    """Jobs that wait for the same reason. `example` is one of them, with the message it is told."""

    code: ReasonCode
    remedy: Remedy
    jobs: int
    example: str
    message: str


class TenantJobs(Record, frozen=True):
    """How many jobs of a tenant have not ended, by phase."""

    tenant: str
    jobs: dict[Phase, int]


class Overview(Record, frozen=True, omit_defaults=False):
    """Jobs are the tenant's that is asked for; machines are the platform's."""

    at: float
    tenant: str
    # All jobs that are kept.
    jobs: dict[Phase, int]
    # Queued jobs by why they wait, the most first. What waits for other jobs is WAITING, not queued.
    waiting: tuple[WaitingGroup, ...]
    # Since when the job has been queued that waits longest, and which it is; None when none waits.
    oldest_queued_at: float | None
    oldest_job: str
    nodes: int
    nodes_ready: int
    nodes_cordoned: int
    gpus: int
    # On nodes that are ready.
    gpus_ready: int
    gpus_held: int
    cpu_milli: int
    cpu_milli_held: int
    memory_mib: int
    memory_mib_held: int
    # The GPUs are mock ones: numbers without a device.
    mock_gpus: bool
    # Deadlines that were decided within a day or are open, by class of service: of the tenant's jobs; for callers that
    # see every tenant, of all.
    promises: tuple[SlaView, ...]
    # For callers that see every tenant: those with the most jobs that have not ended.
    tenants: tuple[TenantJobs, ...]
    leader: str
    # How long ago this replica last heard of the store.
    store_age_s: float


class GpuNode(Record, frozen=True, omit_defaults=False):
    """A node of the map, with its part of the columns: from `first` on, `gpus` of them."""

    name: str
    pool: str
    rack: str
    model: str
    ready: bool
    cordoned: bool
    drained: bool
    mock: bool
    first: int
    gpus: int


class GpuJob(Record, frozen=True):
    """A job that holds GPUs and that the caller may see."""

    id: str
    name: str
    tenant: str
    user: str


class GpuMap(Shown, frozen=True):
    """Every GPU as columns of equal length, in the order of `nodes`. Of other tenants' jobs only what they hold."""

    at: float
    nodes: tuple[GpuNode, ...]
    jobs: tuple[GpuJob, ...]
    index: tuple[int, ...]
    memory_mib: tuple[int, ...]
    # Thousandths that jobs hold; more than one job may have a share.
    held_milli: tuple[int, ...]
    # The position in `jobs` of the one with the largest share, -1: none, or none that the caller may see.
    job: tuple[int, ...]
    # Percent of the time that it computed, as the driver says; -1 where that is not known.
    busy: tuple[int, ...]
    # What it draws and how hot it is, by the driver; -1 where that is not known.
    watts: tuple[int, ...]
    celsius: tuple[int, ...]
    # Nodes that this replica could not ask.
    unasked: tuple[str, ...] = ()


# ---- clusters of a federation


class MemberView(Record, frozen=True):
    """A cluster of this global plane. `reach` says how long it has been silent: never a reason to move jobs."""

    name: str
    code: str
    kind: ClusterKind
    state: ClusterState
    region: str
    generation: int
    # Of the cluster's own store.
    epoch: int
    note: str
    since: float
    reach: Literal["", "REACHABLE", "LATE", "UNREACHABLE"]
    # Since the last report; None: this server never had one.
    heard_s: float | None
    # Jobs that were offered to it, and that are its own.
    offered: int = 0
    confirmed: int = 0
    report: ClusterReport | None = None
    # What it was lent of tenants' quotas.
    lent: tuple[LentView, ...] = ()


class MemberList(Record, frozen=True):
    """By name."""

    clusters: tuple[MemberView, ...]


class UplinkView(Record, frozen=True):
    """How a cluster stands with its global plane."""

    name: str
    code: str
    servers: tuple[str, ...]
    api: str
    mode: ClusterMode
    # How long it has been so, and why.
    mode_s: float = 0.0
    why: str = ""
    # Jobs of the global plane that are here and have not ended.
    taken: int = 0
    # What this cluster was lent of tenants' quotas.
    lent: tuple[LentView, ...] = ()


class UplinkBody(Record, frozen=True):
    """The global plane to join: its API, a join token for this cluster, and where it takes links."""

    api: Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^https?://[^\s]+$(?!\n)")]
    token: Annotated[str, Meta(min_length=1, max_length=256)]
    name: Slug
    servers: Annotated[tuple[Line, ...], Meta(max_length=16)] = ()
    region: Annotated[str, Meta(max_length=63, pattern=r"^[A-Za-z0-9._-]*$(?!\n)")] = ""
    # Certificates (PEM) that the API's own must chain to. Empty: those that the system trusts.
    authorities: Annotated[str, Meta(max_length=65_536)] = ""


class DeadBody(Record, frozen=True):
    """Why the cluster is declared dead, and its name once more: jobs may run twice if it is not."""

    reason: Annotated[Note, Meta(min_length=8)]
    confirm: Slug
