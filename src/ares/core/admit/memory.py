"""How much memory a job gets that does not say: the share of its CPUs or GPUs on a usual machine here."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from ares.model.job import JobSpec, Resources
from ares.model.node import NodeInfo

# As little as every job had before machines were looked at: a small laptop refuses nothing that it took then.
LEAST_MIB = 256
PER_CPU_MAX_MIB = 4096
PER_GPU_MAX_MIB = 32 * 1024
# Numbers that people can read.
_STEP_MIB = 64


class MachineKind(NamedTuple):
    cpu_milli: int
    gpus: int
    memory_mib: int


class MemoryShare(NamedTuple):
    """`kinds` are the different machines that there are: no job asks by default for more than one of them has."""

    per_cpu_mib: int = 0
    per_gpu_mib: int = 0
    kinds: tuple[MachineKind, ...] = ()


def share_of(nodes: Iterable[NodeInfo]) -> MemoryShare:
    """By the machine in the middle. A GPU has half of its part of the memory: jobs without GPUs run beside it."""
    known = list(nodes)
    cpus = sorted(1000 * node.memory_mib // node.cpu_milli for node in known if node.cpu_milli)
    gpus = sorted(node.memory_mib // (2 * len(node.gpus)) for node in known if node.gpus)
    kinds = dict.fromkeys(MachineKind(node.cpu_milli, len(node.gpus), node.memory_mib) for node in known)
    return MemoryShare(_middle(cpus, PER_CPU_MAX_MIB), _middle(gpus, PER_GPU_MAX_MIB), tuple(kinds))


def sized(spec: JobSpec, share: MemoryShare) -> JobSpec:
    """With the memory that it does not say; each alternative by its own CPUs and GPUs."""
    if spec.resources.memory_mib and all(way.memory_mib for way in spec.alternatives):
        return spec
    alternatives = tuple(_sized(way, share) for way in spec.alternatives)
    return replace(spec, resources=_sized(spec.resources, share), alternatives=alternatives)


def _sized(asked: Resources, share: MemoryShare) -> Resources:
    if asked.memory_mib:
        return asked
    by_cpu = share.per_cpu_mib * asked.cpu_milli // 1000
    by_gpu = share.per_gpu_mib * asked.gpus * asked.gpu_milli // 1000
    wide = (kind for kind in share.kinds if kind.cpu_milli >= asked.cpu_milli and kind.gpus >= asked.gpus)
    most = max((kind.memory_mib for kind in wide), default=LEAST_MIB)
    return replace(asked, memory_mib=max(LEAST_MIB, min(most, max(by_cpu, by_gpu)) // _STEP_MIB * _STEP_MIB))


def _middle(shares: list[int], most: int) -> int:
    return min(most, shares[(len(shares) - 1) // 2]) if shares else 0
