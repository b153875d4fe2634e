"""Which shapes jobs with GPUs often have here: idle GPUs should stay good for such jobs."""

from collections import Counter

from ares.core.ask import Ask
from ares.core.capacity.node_slice import Typical

_TOP_MAX = 64
# The shapes are renewed when this much more was seen: a renewal makes everything be computed anew.
_GROWTH = 1.5
# Beyond this many jobs the past counts half.
_SEEN_MAX = 100_000

_Shape = tuple[int, int, int, str | None, int]


class Typicals:
    def __init__(self) -> None:
        self._counts: Counter[_Shape] = Counter()
        self._seen = 0
        self._renew_at = 8

    def count(self, ask: Ask) -> bool:
        """Counts one job; whether the shapes should be renewed."""
        if ask.gpus == 0:
            return False
        shape = (ask.cpu_milli, ask.gpus, ask.gpu_milli, ask.gpu_model, ask.gpu_memory_mib)
        self._counts[shape] += 1
        self._seen += 1
        if self._seen > _SEEN_MAX:
            self._counts = Counter({key: count // 2 for key, count in self._counts.items() if count > 1})
            self._seen = sum(self._counts.values())
            self._renew_at = 0
        if self._seen < self._renew_at:
            return False
        self._renew_at = int(self._seen * _GROWTH) + 8
        return True

    def top(self) -> tuple[Typical, ...]:
        """Shapes that ask for most GPU in all come first: few large jobs matter as much as many small ones.

        Shares are of jobs, and add up to 1.
        """
        # By weight, then by shape: never by the order of arrival.
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1] * item[0][1] * item[0][2], str(item[0])))
        chosen = ordered[:_TOP_MAX]
        total = sum(count for _, count in chosen)
        return tuple(Typical(*shape, count / total) for shape, count in chosen)
