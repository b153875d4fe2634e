"""Machines: the proof of their identity, what a node has, and the lease that says its agent is alive."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import LabelKey, LabelValue, Line, Note, Number, Record
from ares.model.isolation import Isolation

# ---- proof of identity


MachineRole = Literal["node", "cluster"]


class Certificate(Record, frozen=True):
    """A signed certificate. Times are whole seconds, as certificates have them."""

    serial: str
    # The generation it was issued under, see `MachineRecord`. The serial begins with it.
    generation: int
    # The digest of its public key.
    key_sha256: str
    issued_at: int
    ends_at: int
    # The join token that was traded for it; empty when it renews an earlier one.
    token: str = ""


class MachineRecord(Record, frozen=True):
    """The certificates of one node or cluster. A certificate of an earlier generation is good for nothing."""

    role: MachineRole
    name: str
    certificates: tuple[Certificate, ...] = ()
    # Grows each time all certificates are revoked, to the time of that or beyond.
    generation: int = 0
    revoked_by: str = ""


class AuthorityRecord(Record, frozen=True):
    """The authority that signs for this installation: a replica that goes by another one would split it."""

    fingerprint: str
    certificate: str


class Presented(Record, frozen=True):
    """What a certificate says that was checked to be signed by the authority."""

    role: MachineRole
    name: str
    serial: str
    generation: int
    issued_at: int
    ends_at: int


# ---- nodes


Containment = Literal["pid-namespace", "cgroup-v2", "cgroup-v1", "none"]
LinkKind = Literal["nvlink", "nvswitch", "xgmi", "fabric", "pcie", "none"]

# Bounds wide for any machine, and narrow enough for columns of 64 bits that are multiplied and summed over a cluster.
GPUS_MAX = 1024
NICS_MAX = 64
# What one node's record may take in the store.
NODE_BYTES_MAX = 256 * 1024
NodeName = Annotated[
    str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$(?!\n)")
]
_Milli = Annotated[int, Meta(ge=0, le=1_000_000_000)]
_Mib = Annotated[int, Meta(ge=0, le=1 << 40)]
_Index = Annotated[int, Meta(ge=0, le=GPUS_MAX - 1)]
_Numa = Annotated[int, Meta(ge=-1, le=1023)]
_Cpu = Annotated[int, Meta(ge=0, le=65_535)]
_Place = Annotated[str, Meta(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]
_LinkWord = Annotated[str, Meta(max_length=16)]


class Gpu(Record, frozen=True):
    """One accelerator as its driver reports it."""

    index: _Index
    uuid: Line
    model: Line
    memory_mib: _Mib
    numa_node: _Numa = 0
    vendor: Literal["nvidia", "amd", "mock"] = "nvidia"
    # The GPU is cut into MIG slices, which are devices of their own: not to be had whole.
    mig: bool = False


# Versions of datasets of which a node says that it has them.
CACHED_MAX = 256


class Nic(Record, frozen=True):
    """A network card, with its link to each GPU in the order of `NodeInfo.gpus`."""

    name: _Place
    links: Annotated[tuple[_LinkWord, ...], Meta(max_length=128)] = ()


class NumaNode(Record, frozen=True):
    """One memory domain with its CPUs."""

    index: _Numa
    cpus: Annotated[tuple[_Cpu, ...], Meta(max_length=8192)]
    memory_mib: _Mib


class Taint(Record, frozen=True):
    """Keeps jobs away that do not tolerate it: altogether, or where there is a better place."""

    key: LabelKey
    value: LabelValue = ""
    effect: Literal["no-schedule", "prefer-not"] = "no-schedule"


class NodeInfo(Record, frozen=True):
    """What an agent reports about its machine when it registers. Every field is bounded: it is not believed."""

    name: NodeName
    cpu_milli: _Milli
    memory_mib: _Mib
    gpus: Annotated[tuple[Gpu, ...], Meta(max_length=GPUS_MAX)] = ()
    numa: Annotated[tuple[NumaNode, ...], Meta(max_length=128)] = ()
    labels: Annotated[dict[LabelKey, LabelValue], Meta(max_length=256)] = {}
    pool: _Place = "default"
    # How attempts are contained, and how their limits are enforced.
    isolation: Annotated[tuple[Containment, ...], Meta(max_length=16)] = ("none",)
    # The best isolation the node offers, and by what parts: each was tried when the agent started.
    isolation_level: Isolation = "any"
    sandbox: Annotated[tuple[Line, ...], Meta(max_length=64)] = ()
    agent_version: Line = ""
    hostname: Line = ""
    kernel: Line = ""
    # Where other nodes reach this one, for gangs.
    address: Line = "127.0.0.1"
    rack: _Place = ""
    zone: _Place = ""
    region: _Place = ""
    # Bandwidth of the node's network, 0 when not known.
    network_gbps: Annotated[float, Meta(ge=0.0, le=1_000_000.0)] = 0.0
    taints: Annotated[tuple[Taint, ...], Meta(max_length=64)] = ()
    # Datasets that are on the node, by name.
    datasets: Annotated[tuple[_Place, ...], Meta(max_length=4096)] = ()
    # Ids of devices that are not whole GPUs, by kind: {"tpu-v4": ("tpu0", "tpu1"), "mig-1g.10gb": ("MIG-…",)}.
    devices: Annotated[dict[Line, Annotated[tuple[Line, ...], Meta(max_length=GPUS_MAX)]], Meta(max_length=64)] = {}
    # One row per GPU, one word per GPU in it, as `nvidia-smi topo -m` has them: "X", "NV4", "PIX", "SYS", "XGMI".
    gpu_links: Annotated[tuple[Annotated[tuple[_LinkWord, ...], Meta(max_length=128)], ...], Meta(max_length=128)] = ()
    # Network cards that the same table names.
    nics: Annotated[tuple[Nic, ...], Meta(max_length=NICS_MAX)] = ()
    # Attempts here end by themselves when the node's lease runs out. Where they do not, they are never given to another
    # node for its silence: they may still run.
    fences: bool = True
    # Where other nodes read datasets that this one has; 0: nowhere.
    peer_port: Annotated[int, Meta(ge=0, le=65535)] = 0


class NodeRecord(Record, frozen=True):
    """A registered node. `incarnation` grows each time its agent starts anew."""

    info: NodeInfo
    incarnation: Number
    registered_at: float
    cordoned: bool = False
    # The boot of the agent process that has this incarnation, see `link.Hello`.
    boot: Number = 0
    # Set by operators, in addition to what the agent declares.
    taints: tuple[Taint, ...] = ()
    # Cordoned, and what runs on it is to be moved away: the operator who asked for it; empty when it is not drained.
    drained_by: str = ""
    drain_reason: Note = ""
    # How many jobs held resources on it when the drain was asked for.
    drain_jobs: int = 0
    # Versions of datasets in its cache, `TENANT@sha256:DIGEST`: the larger ones, as far as its tenants publish them.
    cached: Annotated[tuple[_Place, ...], Meta(max_length=CACHED_MAX)] = ()

    @property
    def datasets(self) -> tuple[str, ...]:
        """All data that is on the node, by the names that jobs ask for it."""
        return (*self.info.datasets, *self.cached) if self.cached else self.info.datasets


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
    # How long the agent was told that its lease lasts: the monitor judges its silence by that.
    dead_after_s: float = 9.0
