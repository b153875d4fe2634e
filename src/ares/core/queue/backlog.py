"""How much work waits ahead of a job. Every operation costs about the same however many wait."""

from collections.abc import Iterable
from math import inf, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ares.core.schedule.ask import Ask

# When nobody can say how long a job runs.
_UNKNOWN_S = 3600.0


class Kind(NamedTuple):
    """Which resource a job waits for: GPUs, of a model or any, or else CPUs."""

    resource: str
    model: str = ""


def kind_of(ask: Ask) -> Kind:
    return Kind("gpu", ask.gpu_model or "") if ask.gpus else Kind("cpu")


def amount_of(ask: Ask) -> int:
    """Thousandths, of the whole gang."""
    return (ask.gpus_milli if ask.gpus else ask.cpu_milli) * ask.ranks


class _Slot(NamedTuple):
    """Waiting jobs of one kind and priority level, about equally long."""

    kind: Kind
    level: int
    length: int


class _Works:
    """By the order of arrival, with running sums that are made anew when somebody asks after a change."""

    __slots__ = ("_sums", "_turns", "of")

    def __init__(self) -> None:
        self.of: dict[int, float] = {}
        self._turns: NDArray[np.int64] | None = None
        self._sums: NDArray[np.float64] = np.zeros(1)

    def put(self, turn: int, work: float) -> None:
        self.of[turn] = work
        self._turns = None

    def drop(self, turn: int) -> None:
        del self.of[turn]
        self._turns = None

    def before(self, turn: float) -> float:
        if self._turns is None:
            count = len(self.of)
            # A dict keeps the order of arrival.
            self._turns = np.fromiter(self.of.keys(), np.int64, count)
            works = np.fromiter(self.of.values(), np.float64, count)
            self._sums = np.concatenate(([0.0], np.cumsum(works)))
        return float(self._sums[np.searchsorted(self._turns, turn)])


class Backlog:
    """Work is the amount a job asks for times its run time."""

    def __init__(self) -> None:
        self._works: dict[_Slot, _Works] = {}
        self._turns: dict[str, tuple[int, _Slot]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, job_id: str, ask: Ask, level: int, runs_s: float) -> None:
        """At the end, once: a job that is already there is put there anew."""
        self.remove(job_id)
        runs_s = _UNKNOWN_S if runs_s == inf else runs_s
        slot = _Slot(kind_of(ask), level, _length(runs_s))
        self._works.setdefault(slot, _Works()).put(self._next, amount_of(ask) * runs_s)
        self._turns[job_id] = self._next, slot
        self._next += 1

    def remove(self, job_id: str) -> None:
        turn, slot = self._turns.pop(job_id, (0, None))
        if slot is not None:
            works = self._works[slot]
            works.drop(turn)
            if not works.of:
                del self._works[slot]

    def ahead(self, job_id: str) -> float:
        """Work of those that compete for the same, are about as long or shorter, and came before or matter more.

        Longer ones ahead seldom hold up a short one where gaps are filled, and gaps are."""
        found = self._turns.get(job_id)
        return 0.0 if found is None else self._ahead(found[1], found[0])

    def ahead_of_new(self, ask: Ask, level: int, runs_s: float) -> float:
        """As for a job that comes now."""
        return self._ahead(_Slot(kind_of(ask), level, _length(_UNKNOWN_S if runs_s == inf else runs_s)), self._next)

    def _ahead(self, mine: _Slot, turn: int) -> float:
        return sum(
            works.before(turn if slot.level == mine.level else inf)
            for slot, works in self._works.items()
            if slot.level <= mine.level and slot.length <= mine.length and slot.kind in _rivals(mine.kind)
        )


def _rivals(kind: Kind) -> Iterable[Kind]:
    return (kind, Kind(kind.resource)) if kind.model else (kind,)


def _length(runs_s: float) -> int:
    """Half powers of two."""
    return int(2.0 * log2(1.0 + runs_s))
