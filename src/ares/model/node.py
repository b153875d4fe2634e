"""Machines: what a node has, and the lease that says its agent is alive."""

from typing import Literal

from ares.model.base import Record

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


class NumaNode(Record, frozen=True):
    """One memory domain with its CPUs."""

    index: int
    cpus: tuple[int, ...]
    memory_mib: int


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
    agent_version: str = ""
    hostname: str = ""
    kernel: str = ""


class NodeRecord(Record, frozen=True):
    """A registered node. `incarnation` grows each time its agent starts anew."""

    info: NodeInfo
    incarnation: int
    registered_at: float
    cordoned: bool = False
    # Of the agent process that has this incarnation, see `link.Hello`.
    boot: int = 0


class NodeLease(Record, frozen=True):
    """The one record both sides judge by: the agent trusts a renewal only once this was written."""

    node: str
    incarnation: int
    renewed_at: float = 0.0
    # Where the agent's stream ends. Empty: it has none, or is leaving; it keeps what it has and gets nothing new.
    replica: str = ""
