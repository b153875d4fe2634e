"""What attempts hold on one node, counted so that nothing gets lost even if too much was given away."""

from collections import Counter
from dataclasses import dataclass, field

from ares.core.capacity.node_table import WHOLE
from ares.model.node import NodeInfo
from ares.model.state import Placement


@dataclass(slots=True)
class Used:
    """What attempts hold on one node, known to the cluster or not."""

    jobs: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    # Thousandths of each GPU: more than all of it only if something went wrong, and then it must not get lost.
    gpus: Counter[int] = field(default_factory=Counter[int])
    # How many attempts hold each device, by kind and id.
    devices: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    # CPU and memory that come from one NUMA node.
    numa_cpu: Counter[int] = field(default_factory=Counter[int])
    numa_memory: Counter[int] = field(default_factory=Counter[int])

    def add(self, place: Placement, sign: int) -> None:
        self.jobs += sign
        self.cpu_milli += sign * place.cpu_milli
        self.memory_mib += sign * place.memory_mib
        for gpu in place.gpus:
            self.gpus[gpu] += sign * place.gpu_milli
        for kind, names in place.devices.items():
            for name in names:
                self.devices[kind, name] += sign
        if place.numa is not None:
            self.numa_cpu[place.numa] += sign * place.cpu_milli
            self.numa_memory[place.numa] += sign * place.memory_mib

    def within(self, info: NodeInfo, place: Placement, extra: tuple[int, int]) -> bool:
        """Whether the node has all that is held of what `place` holds; `extra` CPU and memory may be over-committed."""
        whole = {gpu.index for gpu in info.gpus if not gpu.mig and self.gpus[gpu.index] <= WHOLE}
        devices = {(kind, name) for kind, names in info.devices.items() for name in names}
        numa = {
            one.index
            for one in info.numa
            if self.numa_cpu[one.index] <= 1000 * len(one.cpus) and self.numa_memory[one.index] <= one.memory_mib
        }
        mine = {(kind, name) for kind, names in place.devices.items() for name in names}
        return (
            self.cpu_milli <= info.cpu_milli + extra[0]
            and self.memory_mib <= info.memory_mib + extra[1]
            and set(place.gpus) <= whole
            and mine <= devices
            and all(self.devices[one] <= 1 for one in mine)
            and (place.numa is None or place.numa in numa)
        )
