"""How many ranks of a gang there is room for at any time to come, by the ends of all who run: columns, not objects."""

from math import inf

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.claims import Claims
from ares.core.capacity.ends import bits_of
from ares.core.capacity.node_table import WHOLE, Floats, Ints
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.gang import widest_allowed


def countable(cluster: Cluster, ask: Ask) -> bool:
    """Whether counting CPUs, memory and whole GPUs tells what there is room for."""
    if ask.devices or ask.numa != "none" or cluster.table.power is not None:
        return False
    if not ask.gpus:
        return True
    return ask.gpu_milli == WHOLE and not cluster.ends.of(cluster.table, cluster.future).shares


class GangSlots:
    """Of one gang. What is claimed counts as taken until its end, so there is only ever more room as time goes by."""

    def __init__(self, cluster: Cluster, claims: Claims, ask: Ask, rows: Ints, now: float) -> None:
        table, used = cluster.table, cluster.table.used
        self._ask, self._rows, self._used = ask, rows, used
        ends = cluster.ends.of(table, cluster.future)
        more = _extra(claims, now, used)
        self._at = np.concatenate([ends.at, more[0]])
        self._row = np.concatenate([ends.row, more[1][:, 0]])
        self._cpu = np.concatenate([ends.cpu, more[1][:, 1]])
        self._memory = np.concatenate([ends.memory, more[1][:, 2]])
        answers = table.answer_masks(ask.gpu_model, ask.gpu_memory_mib)[:used] if ask.gpus else None
        gpus = np.concatenate([ends.gpus, more[1][:, 3]])
        self._gpus = None if answers is None else np.bitwise_count(gpus & answers[self._row]).astype(np.int64)
        burst = ask.qos != "guaranteed"
        self._free_cpu = table.cpu_free[:used] + burst * table.cpu_extra[:used]
        self._free_memory = table.memory_free[:used] + burst * table.memory_extra[:used]
        self._free_gpus = (
            None if answers is None else np.bitwise_count(table.gpu_whole[:used] & answers).astype(np.int64)
        )
        for row, cpu, memory, bits in _claimed(claims, now, used):
            self._free_cpu[row] -= cpu
            self._free_memory[row] -= memory
            if self._free_gpus is not None and answers is not None:
                # Those that are free now and spoken for; the others come back with whoever holds them.
                self._free_gpus[row] -= (bits & int(answers[row])).bit_count()
        level = widest_allowed(ask)
        self._domains: Ints | None = None if level in ("cluster", "node") else getattr(table, level)[:used][rows]
        self._on_one_node = level == "node"
        later = self._at[(self._at > now) & (self._at < inf)]
        self.times: Floats = np.concatenate([[now], np.unique(later)])

    def at(self, time: float) -> Ints:
        """Ranks that each of the rows has room for then."""
        ended = self._at <= time
        where, ask, rows = self._row[ended], self._ask, self._rows
        cpu = self._free_cpu + self._sums(where, self._cpu[ended])
        memory = self._free_memory + self._sums(where, self._memory[ended])
        fits = np.minimum(cpu[rows] // ask.cpu_milli, memory[rows] // ask.memory_mib)
        if self._gpus is not None and self._free_gpus is not None:
            gpus = self._free_gpus + self._sums(where, self._gpus[ended])
            fits = np.minimum(fits, gpus[rows] // ask.gpus)
        return np.maximum(0, np.minimum(fits, ask.per_node) if ask.per_node else fits)

    def enough(self, time: float) -> bool:
        """Whether there is room for the fewest ranks that will do, where they must be together."""
        room = self.at(time)
        if self._on_one_node:
            return bool(room.max(initial=0) >= self._ask.min_ranks)
        if self._domains is None:
            return int(room.sum()) >= self._ask.min_ranks
        # Number 0 is for nodes that do not say where they are.
        return bool(np.bincount(self._domains, weights=room)[1:].max(initial=0.0) >= self._ask.min_ranks)

    def first(self) -> int:
        """The number of the first of the times at which there is enough; as many as there are when there never is."""
        low, high = 0, len(self.times)
        while low < high:
            middle = (low + high) // 2
            if self.enough(float(self.times[middle])):
                high = middle
            else:
                low = middle + 1
        return low

    def _sums(self, where: Ints, amounts: Ints) -> Ints:
        return np.bincount(where, weights=amounts, minlength=self._used).astype(np.int64)


def _extra(claims: Claims, now: float, used: int) -> tuple[Floats, Ints]:
    """What began in this cycle and what is claimed is given back some time, too."""
    found = [
        (at, (row, taken.cpu_milli, taken.memory_mib, bits_of(taken.gpus)))
        for at, row, taken in claims.given_back(now)
        if row < used
    ]
    rest = np.array([one for _, one in found], np.int64).reshape(len(found), 4)
    return np.array([at for at, _ in found], np.float64), rest


def _claimed(claims: Claims, now: float, used: int) -> list[tuple[int, int, int, int]]:
    return [
        (taken.row, taken.cpu_milli, taken.memory_mib, bits_of(taken.gpus))
        for taken in claims.all_overlapping(now)
        if taken.row < used
    ]
