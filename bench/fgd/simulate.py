"""Pods arrive one by one and never leave; what does not fit is dropped. One policy decides where they go."""

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bench.fgd.trace import PERCENTS, WHOLE, Pod, machines, shuffled

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_NEVER = -np.inf


class Cluster:
    """What is left of every node, in an order of nodes that differs by seed."""

    def __init__(self, seed: int) -> None:
        self.machines = shuffled(seed)
        widest = max(machine.gpus for machine in self.machines)
        self.cpu = np.array([machine.cpu_milli for machine in self.machines])
        self.memory = np.array([machine.memory_mib for machine in self.machines])
        self.gpu = np.array([[WHOLE] * one.gpus + [-1] * (widest - one.gpus) for one in self.machines])
        self.models = sorted({machine.model for machine in self.machines})
        self.model = np.array([self.models.index(machine.model) for machine in self.machines])

    def fits(self, pod: Pod, at: Ints | slice) -> Bools:
        fits = (self.cpu[at] >= pod.cpu_milli) & (self.memory[at] >= pod.memory_mib)
        if pod.gpus:
            fits &= np.count_nonzero(self.gpu[at] >= pod.gpu_milli, axis=1) >= pod.gpus
        if pod.models:
            fits &= np.isin(self.model[at], [self.models.index(model) for model in pod.models])
        return fits

    def tightest(self, pod: Pod, node: int) -> list[int]:
        """The fullest devices that still fit, the first of equals."""
        left = self.gpu[node]
        return sorted(np.flatnonzero(left >= pod.gpu_milli).tolist(), key=lambda at: (left[at], at))[: pod.gpus]

    def take(self, pod: Pod, node: int, devices: list[int]) -> None:
        self.cpu[node] -= pod.cpu_milli
        self.memory[node] -= pod.memory_mib
        self.gpu[node, devices] -= pod.gpu_milli


class Policy(Protocol):
    @property
    def lasts(self) -> bool:
        """Whether a row's score stays as it is while nothing is placed there."""
        ...

    def score(self, cluster: Cluster, pod: Pod, at: Ints | slice) -> Floats:
        """Of these rows, larger is better; rows that the pod does not fit may have any number."""
        ...

    def devices(self, cluster: Cluster, pod: Pod, node: int) -> list[int]: ...


class Outcome(NamedTuple):
    # Unallocated GPU in percent of all, by arrived percent.
    unallocated: dict[int, float]
    dropped: int


class _Scores:
    """Of one kind of pod: kept, and computed anew only where something was placed since."""

    def __init__(self, nodes: int) -> None:
        self.scores = np.full(nodes, _NEVER)
        self.seen = -1


class Placer:
    """Puts each pod on the node that the policy scores highest, the first of equals."""

    def __init__(self, seed: int, policy: Policy) -> None:
        self.cluster = Cluster(seed)
        self._policy = policy
        self._placed: list[int] = []
        self._kept: dict[Pod, _Scores] = {}

    def __call__(self, pod: Pod) -> bool:
        mine = self._kept.get(pod)
        if mine is None:
            mine = self._kept[pod] = _Scores(len(self.cluster.cpu))
        self._repair(pod, mine)
        node = int(mine.scores.argmax())
        if mine.scores[node] == _NEVER:
            return False
        self.cluster.take(pod, node, self._policy.devices(self.cluster, pod, node) if pod.gpus else [])
        self._placed.append(node)
        return True

    def _repair(self, pod: Pod, mine: _Scores) -> None:
        anew = mine.seen < 0 or not self._policy.lasts
        at = slice(None) if anew else np.unique(np.array(self._placed[mine.seen :], np.int64))
        mine.seen = len(self._placed)
        if isinstance(at, slice) or len(at):
            scores = self._policy.score(self.cluster, pod, at)
            mine.scores[at] = np.where(self.cluster.fits(pod, at), scores, _NEVER)


def simulate(arriving: list[Pod], place: Callable[[Pod], bool]) -> Outcome:
    """`place` puts a pod somewhere, or says that it fits nowhere."""
    meter = _Meter(WHOLE * sum(machine.gpus for machine in machines()))
    dropped = 0
    for pod in arriving:
        fits = place(pod)
        dropped += not fits
        meter.arrived(pod.gpus_milli, fits)
    return Outcome(meter.unallocated(), dropped)


class _Meter:
    """Allocated share after every arrival, averaged over the arrivals of one rounded arrived percent."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._asked = self._given = 0
        self._sums: dict[int, float] = defaultdict(float)
        self._counts: dict[int, int] = defaultdict(int)

    def arrived(self, milli: int, fits: bool) -> None:
        self._asked += milli
        self._given += milli * fits
        percent = round(100 * self._asked / self._capacity)
        self._sums[percent] += 100 * self._given / self._capacity
        self._counts[percent] += 1

    def unallocated(self) -> dict[int, float]:
        return {at: 100 - self._sums[at] / self._counts[at] for at in PERCENTS if at in self._counts}
