"""What hardware this machine has."""

from typing import Protocol

from ares.model.node import Gpu, NumaNode


class Devices(Protocol):
    def cpus(self) -> int: ...

    def memory_mib(self) -> int: ...

    def numa(self) -> tuple[NumaNode, ...]: ...

    def gpus(self) -> tuple[Gpu, ...]: ...
