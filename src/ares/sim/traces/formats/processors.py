"""Jobs that ask for a number of processors: on one large machine, or as gangs on nodes of a size."""

from functools import lru_cache
from math import ceil

from ares.check.replay.trace import fleet
from ares.model.job import Gang, JobSpec, Resources
from ares.model.node import NodeInfo
from ares.sim.traces.formats.reading import Repairs

COMMAND = ("true",)


class ProcessorMachine:
    """Processors are interchangeable: one node, unless the nodes are told."""

    def __init__(self, nodes: tuple[NodeInfo, ...] | None, processors: int) -> None:
        self.nodes = nodes or fleet(1, processors)
        self.processors = sum(node.cpu_milli for node in self.nodes) // 1000
        self._widest = max(node.cpu_milli for node in self.nodes) // 1000

    def spec(self, wanted: int, limit_s: float | None, name: str, repairs: Repairs) -> JobSpec | None:
        """None for a job that the machine is too small for; it is counted."""
        if wanted > self.processors:
            repairs.add(f"jobs wider than the machine of {self.processors} processors", "left out")
            return None
        return _spec(wanted, self._widest, limit_s, name)


@lru_cache(maxsize=65_536)
def _spec(wanted: int, widest: int, limit_s: float | None, name: str) -> JobSpec:
    """Equal jobs share one. What is wider than a node becomes a gang of as few equal ranks as it takes. A log tells
    how long each job held its place, with all it took to end: there is no grace beyond its limit."""
    ranks = ceil(wanted / widest)
    resources = Resources(cpu_milli=ceil(1000 * wanted / ranks), memory_mib=1)
    gang = None if ranks == 1 else Gang(ranks=ranks)
    return JobSpec(command=COMMAND, name=name, resources=resources, gang=gang, time_limit_s=limit_s, grace_s=0.0)
