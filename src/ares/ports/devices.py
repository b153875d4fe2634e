"""What hardware this machine has."""

from dataclasses import dataclass, field
from typing import Protocol

from ares.model.job_session import GpuReading
from ares.model.node import Gpu, Nic, NumaNode


@dataclass(frozen=True, slots=True)
class Accelerators:
    """The fields of `NodeInfo` of the same names."""

    gpus: tuple[Gpu, ...] = ()
    gpu_links: tuple[tuple[str, ...], ...] = ()
    devices: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    nics: tuple[Nic, ...] = ()


class Devices(Protocol):
    def cpus(self) -> int: ...

    def memory_mib(self) -> int: ...

    def numa(self) -> tuple[NumaNode, ...]: ...

    def accelerators(self) -> Accelerators: ...

    def gpu_use(self) -> dict[int, GpuReading]:
        """What GPUs do now, by index; without those whose driver does not tell, and without mock ones."""
        ...
