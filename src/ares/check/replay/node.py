"""The free resources of one node, counted one by one; what a job asks for, and whether its places are that."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ares.model.job import JobSpec, Resources
from ares.model.node import Gpu, NodeInfo
from ares.model.profile import Pool
from ares.model.state import Placement

_WHOLE = 1000


class AskedRoom(NamedTuple):
    """One alternative of a job: what every rank needs, how many ranks, and how near to each other."""

    wants: Resources
    ranks: int
    ranks_min: int
    per_node: int
    # All ranks in one of these; "cluster": anywhere.
    level: str
    spec: JobSpec


def wishes(spec: JobSpec) -> tuple[AskedRoom, ...]:
    gang, near = spec.gang, spec.topology
    level = near.level if near is not None and near.required else "cluster"
    ranks = 1 if gang is None else gang.ranks
    least = ranks if gang is None or gang.min_ranks is None else gang.min_ranks
    each = ranks if gang is None or gang.per_node is None else gang.per_node
    return tuple(AskedRoom(wants, ranks, least, each, level, spec) for wants in (spec.resources, *spec.alternatives))


def beyond(spec: JobSpec) -> bool:
    """Whether the job has constraints that this checker does not model."""
    tight = spec.topology is not None and spec.topology.required and spec.topology.level == "nvlink"
    more = spec.affinity or spec.job_affinity or spec.residency or spec.licences or spec.reservation or spec.gap_min_s
    return bool(tight or more) or spec.numa == "required" or spec.numa == "preferred"


@dataclass(slots=True)
class NodeLeft:
    """The free resources of a node. A value below zero means that the node is overcommitted."""

    info: NodeInfo
    cpu: int
    memory: int
    # Thousandths left of each GPU, and 1 for each device that is free, by kind and id.
    gpus: dict[int, int]
    devices: dict[tuple[str, str], int]
    # Overcommitment for jobs that are not guaranteed.
    cpu_extra: int = 0
    memory_extra: int = 0

    def copy(self) -> "NodeLeft":
        return NodeLeft(
            self.info, self.cpu, self.memory, self.gpus.copy(), self.devices.copy(), self.cpu_extra, self.memory_extra
        )

    def add(self, place: Placement, sign: int) -> None:
        """+1 gives back, -1 takes."""
        self.cpu += sign * place.cpu_milli
        self.memory += sign * place.memory_mib
        for gpu in place.gpus:
            self.gpus[gpu] = self.gpus.get(gpu, 0) + sign * place.gpu_milli
        for kind, names in place.devices.items():
            for name in names:
                self.devices[kind, name] = self.devices.get((kind, name), 0) + sign

    def overused(self, *, guaranteed: bool) -> Iterator[str]:
        """A text for each resource that is overcommitted."""
        cpu, memory = (self.cpu, self.memory) if guaranteed else (self._cpu, self._memory)
        if cpu < 0:
            yield f"{self.info.cpu_milli - self.cpu} of {self.info.cpu_milli} CPU thousandths"
        if memory < 0:
            yield f"{self.info.memory_mib - self.memory} of {self.info.memory_mib} MiB"
        yield from (f"{_WHOLE - left} of 1000 thousandths of GPU {gpu}" for gpu, left in self.gpus.items() if left < 0)
        yield from (f"{1 - left} of 1 {kind} {name}" for (kind, name), left in self.devices.items() if left < 0)

    @property
    def _cpu(self) -> int:
        return self.cpu + self.cpu_extra

    @property
    def _memory(self) -> int:
        return self.memory + self.memory_extra

    def ranks(self, wish: AskedRoom) -> int:
        """How many ranks fit, each GPU of a rank another one."""
        wants, guaranteed = wish.wants, wish.spec.qos == "guaranteed"
        cpu, memory = (self.cpu, self.memory) if guaranteed else (self._cpu, self._memory)
        fits = min(wish.per_node, wish.ranks, cpu // wants.cpu_milli, memory // wants.memory_mib)
        for kind, count in wants.devices.items():
            fits = min(fits, sum(left for (of, _), left in self.devices.items() if of == kind) // count)
        if fits > 0 and wants.gpus:
            milli = wants.gpu_milli
            times = [left // milli for gpu in self.info.gpus if (left := self._left(gpu, wants)) >= milli]
            while fits > 0 and sum(min(fits, ranks_there) for ranks_there in times) < fits * wants.gpus:
                fits -= 1
        return max(0, fits)

    def _left(self, gpu: Gpu, wants: Resources) -> int:
        return self.gpus.get(gpu.index, 0) if answers(gpu, wants) else 0


def empty(info: NodeInfo, pool: Pool) -> NodeLeft:
    return NodeLeft(
        info,
        info.cpu_milli,
        info.memory_mib,
        {gpu.index: _WHOLE for gpu in info.gpus if not gpu.mig},
        {(kind, name): 1 for kind, names in info.devices.items() for name in names},
        int(info.cpu_milli * (pool.overcommit_cpu - 1.0)),
        int(info.memory_mib * (pool.overcommit_memory - 1.0)),
    )


def answers(gpu: Gpu, wants: Resources) -> bool:
    """Whether the GPU is of the requested kind."""
    if gpu.mig or gpu.memory_mib < wants.gpu_memory_mib:
        return False
    return wants.gpu_model is None or _words(wants.gpu_model) <= _words(gpu.model)


def _words(model: str) -> set[str]:
    return set("".join(letter if letter.isalnum() else " " for letter in model.lower()).split())


def open_to(info: NodeInfo, spec: JobSpec) -> bool:
    """Whether the job may be on the node at all, by labels and taints."""
    if any(info.labels.get(key) != value for key, value in spec.selector.items()):
        return False
    return all(
        any(toleration.key == taint.key and toleration.value in (None, taint.value) for toleration in spec.tolerations)
        for taint in info.taints
        if taint.effect == "no-schedule"
    )


def domain(info: NodeInfo, level: str) -> tuple[str, ...]:
    """The domain of that level (such as a rack) of the node. A node without one is a domain of its own."""
    full = {"rack": (info.region, info.zone, info.rack), "zone": (info.region, info.zone), "region": (info.region,)}
    found = full.get(level, ("",))
    return ("all",) if level == "cluster" else found if found[-1] else ("node", info.name)


# ---- whether the places an attempt was given are what the job asked for


def wrong_places(
    infos: Mapping[str, NodeInfo], down: set[str], wished: tuple[AskedRoom, ...], places: tuple[Placement, ...]
) -> Iterator[str]:
    """All ranks at once, each with all that it asked for, on nodes that are there."""
    missing = sorted({place.node for place in places if place.node not in infos})
    if missing:
        yield f"was started on {missing[0]}, which does not exist"
        return
    gone = sorted({place.node for place in places}.intersection(down))
    if gone:
        yield f"was started on {gone[0]}, which is down"
    said = [list(_against(infos, wish, places)) for wish in wished]
    if all(said):
        yield min(said, key=len)[0]


def _against(infos: Mapping[str, NodeInfo], wish: AskedRoom, places: tuple[Placement, ...]) -> Iterator[str]:
    if not wish.ranks_min <= len(places) <= wish.ranks or {place.rank for place in places} != set(range(len(places))):
        yield f"started with {len(places)} ranks; it asked for {wish.ranks}, and at least {wish.ranks_min}"
    each = Counter(place.node for place in places)
    if each and max(each.values()) > wish.per_node:
        yield f"has {max(each.values())} ranks on one node; it allows {wish.per_node}"
    if wish.ranks > 1 and wish.level != "nvlink" and len({domain(infos[name], wish.level) for name in each}) > 1:
        yield f"is spread over more than one {wish.level}; it must be in one"
    for place in places:
        yield from _rank(infos[place.node], wish, place)


def _rank(info: NodeInfo, wish: AskedRoom, place: Placement) -> Iterator[str]:
    wants = wish.wants
    if not open_to(info, wish.spec):
        yield f"was started on {info.name}, whose labels or taints rule it out"
    if (place.cpu_milli, place.memory_mib) != (wants.cpu_milli, wants.memory_mib):
        yield f"has {place.cpu_milli} CPU thousandths and {place.memory_mib} MiB on {info.name}, and asked for others"
    if len(set(place.gpus)) != wants.gpus or (wants.gpus and place.gpu_milli != wants.gpu_milli):
        yield f"has GPUs {place.gpus} of {info.name}; it asked for {wants.gpus} of {wants.gpu_milli} thousandths"
    right = {gpu.index for gpu in info.gpus if answers(gpu, wants)}
    if not right.issuperset(place.gpus):
        yield f"has GPUs {place.gpus} of {info.name}, of which some are not what it asked for"
    if {kind: len(set(names)) for kind, names in place.devices.items() if names} != wants.devices:
        yield f"has devices {place.devices} of {info.name}; it asked for {wants.devices}"
