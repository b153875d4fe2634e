"""Machines: what a node has, and the lease that says its agent is alive."""

from typing import Literal

from ares.model.base import LabelKey, LabelValue, Note, Record
from ares.model.isolation import Isolation

Containment = Literal["pid-namespace", "cgroup-v2", "cgroup-v1", "none"]
LinkKind = Literal["nvlink", "nvswitch", "xgmi", "pcie", "none"]


class Gpu(Record, frozen=True):
    """One accelerator as its driver reports it."""

    index: int
    uuid: str
    model: str
    memory_mib: int
    numa_node: int = 0
    vendor: Literal["nvidia", "amd", "mock"] = "nvidia"
    # Cut into MIG slices, which are devices of their own: not to be had whole.
    mig: bool = False


class NumaNode(Record, frozen=True):
    """One memory domain with its CPUs."""

    index: int
    cpus: tuple[int, ...]
    memory_mib: int


class Taint(Record, frozen=True):
    """Keeps jobs away that do not tolerate it: altogether, or where there is a better place."""

    key: LabelKey
    value: LabelValue = ""
    effect: Literal["no-schedule", "prefer-not"] = "no-schedule"


class NodeInfo(Record, frozen=True):
    """What an agent reports about its machine when it registers."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: tuple[Gpu, ...] = ()
    numa: tuple[NumaNode, ...] = ()
    labels: dict[str, str] = {}
    pool: str = "default"
    # How attempts are contained, and how their limits are enforced.
    isolation: tuple[Containment, ...] = ("none",)
    # How well it can keep a job apart that asks for it, and by what: each part was tried when the agent started.
    isolation_level: Isolation = "any"
    sandbox: tuple[str, ...] = ()
    agent_version: str = ""
    hostname: str = ""
    kernel: str = ""
    # Where other nodes reach this one, for gangs.
    address: str = "127.0.0.1"
    rack: str = ""
    zone: str = ""
    region: str = ""
    # Bandwidth of its network, 0 when not known.
    network_gbps: float = 0.0
    taints: tuple[Taint, ...] = ()
    # Data that is at hand here, by name.
    datasets: tuple[str, ...] = ()
    # Ids of devices that are not whole GPUs, by kind: {"tpu-v4": ("tpu0", "tpu1"), "mig-1g.10gb": ("MIG-…",)}.
    devices: dict[str, tuple[str, ...]] = {}
    # One row per GPU, one word per GPU in it, as `nvidia-smi topo -m` has them: "X", "NV4", "PIX", "SYS", "XGMI".
    gpu_links: tuple[tuple[str, ...], ...] = ()


class NodeRecord(Record, frozen=True):
    """A registered node. `incarnation` grows each time its agent starts anew."""

    info: NodeInfo
    incarnation: int
    registered_at: float
    cordoned: bool = False
    # Of the agent process that has this incarnation, see `link.Hello`.
    boot: int = 0
    # Set by operators, in addition to what the agent declares.
    taints: tuple[Taint, ...] = ()
    # Cordoned, and what runs on it is to be moved away: who asked, empty when nobody did.
    drained_by: str = ""
    drain_reason: Note = ""
    # How many jobs held something on it when that was asked for.
    drain_jobs: int = 0


class RemovedNode(Record, frozen=True):
    """What is kept of a node that was removed, so that one that comes back gets no incarnation it had before."""

    incarnation: int
    boot: int = 0
    removed_at: float = 0.0
    removed_by: str = ""


class NodeLease(Record, frozen=True):
    """The one record both sides judge by: the agent trusts a renewal only once this was written."""

    node: str
    incarnation: int
    renewed_at: float = 0.0
    # Where the agent's stream ends. Empty: it has none, or is leaving; it keeps what it has and gets nothing new.
    replica: str = ""
    # How long the agent was told that its lease lasts: whoever judges its silence goes by that.
    dead_after_s: float = 9.0
