"""Which shapes jobs here often have: free room should stay good for those."""

from collections import Counter

from ares.core.schedule.ask import Ask
from ares.core.schedule.rows import Typical

_TOP_MAX = 64
_COVER = 0.95
# The picture is renewed when this much more was seen, so that it rarely changes and all starts anew rarely.
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
        """Takes in one job; whether the picture should be renewed."""
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
        """The most frequent first, until they cover most jobs; their shares add up to 1."""
        chosen: list[tuple[_Shape, int]] = []
        covered = 0
        # By count, then by shape: never by the order in which they came.
        for shape, count in sorted(self._counts.items(), key=lambda item: (-item[1], str(item[0]))):
            chosen.append((shape, count))
            covered += count
            if covered >= _COVER * self._seen or len(chosen) == _TOP_MAX:
                break
        return tuple(Typical(*shape, count / covered) for shape, count in chosen)
