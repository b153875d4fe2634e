"""Nodes, clusters, drains, moves, and the rights to run."""

from ares.model.base import Record
from ares.model.node import NodeInfo, Taint
from ares.model.state import Phase


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
