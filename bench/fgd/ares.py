"""Ares on the same arrivals: its engine, filters, scorers and choice of GPUs, by the default profile."""

from functools import lru_cache

from ares.core.ask import Ask
from ares.core.capacity.transaction import Transaction
from ares.core.capacity.typical import Typicals
from ares.core.capacity.wishes import facts_of
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.place import place_one
from ares.model.job import NodeTerm
from ares.model.node import Gpu, NodeInfo, NodeRecord
from ares.model.profile import Profile
from bench.fgd.lists import pods
from bench.fgd.trace import WHOLE, Machine, Pod, shuffled

_LABEL = "gpu"


class Ares:
    """Knows the list's kinds of pods from the start, as the published policy does."""

    def __init__(self, name: str, seed: int, profile: Profile = Profile()) -> None:  # noqa: B008 - frozen
        self.cluster = Cluster(profile)
        for machine in shuffled(seed):
            self.cluster.put_node(_record(machine))
            self.cluster.set_ready(machine.name, True)
        self.cluster.evaluations.facts = facts_of(self.cluster.table, _seen(name))
        self._taken = Transaction(self.cluster.evaluations)
        self._names = [machine.name for machine in shuffled(seed)]

    def __call__(self, pod: Pod) -> bool:
        return self.place(pod) is not None

    def place(self, pod: Pod) -> tuple[str, tuple[int, ...]] | None:
        """The node it went to, and which of its GPUs."""
        taken = place_one(self.cluster.evaluations, self._taken, ask(pod))
        return None if taken is None else (self._names[taken.row], taken.gpus)


@lru_cache(4096)
def ask(pod: Pod) -> Ask:
    """One model is asked for by its name; any of several by a label."""
    several = (NodeTerm(key=_LABEL, values=pod.models),) if len(pod.models) > 1 else ()
    return Ask(
        cpu_milli=pod.cpu_milli,
        memory_mib=pod.memory_mib,
        gpus=pod.gpus,
        gpu_milli=pod.gpu_milli if pod.gpus else WHOLE,
        gpu_model=pod.models[0] if len(pod.models) == 1 else None,
        terms=several,
    )


@lru_cache
def _seen(name: str) -> Typicals:
    seen = Typicals()
    for pod in pods(name):
        seen.count(ask(pod))
    return seen


def _record(machine: Machine) -> NodeRecord:
    gpus = tuple(
        Gpu(index=at, uuid=f"{machine.name}-{at}", model=machine.model, memory_mib=16_384) for at in range(machine.gpus)
    )
    info = NodeInfo(
        name=machine.name,
        cpu_milli=machine.cpu_milli,
        memory_mib=machine.memory_mib,
        gpus=gpus,
        labels={_LABEL: machine.model},
    )
    return NodeRecord(info=info, incarnation=1, registered_at=0.0)
