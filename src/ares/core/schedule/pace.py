"""Who starts now, and on which GPU, where jobs say how long they run on which model.

All of them are put in line before the GPUs: those with a deadline by how late they may start, then the longest first,
each where it adds the least to the time that all take together and makes nobody late. Whoever is first in line before
a GPU that is free starts there; the others wait, for a better GPU or for their turn.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from ares.core.schedule.columns import Floats


class Runner(NamedTuple):
    """A waiting job. `kind` is a row of the tables of run times and of GPUs it could have: like jobs share one."""

    job: str
    kind: int
    # How much its time counts beside that of others.
    weight: float
    deadline: float
    # Started later than this it is late on any GPU.
    latest_start: float


class Gpus(NamedTuple):
    """Each GPU there is: from when on it is free, and by kind of job how long that runs there; inf: not at all."""

    free_at: Floats
    runs_s: Floats


class Slot(NamedTuple):
    """Where and when a job is to run, and that it will be late."""

    gpu: int
    start: float
    end: float
    late: bool


class Paced(NamedTuple):
    """What is best for a job that says how long it runs on which GPU model: this model, from then on."""

    # None: several, as it comes.
    model: str | None
    start: float
    end: float
    # It ends after its deadline.
    late: bool
    # A model that it could have now and does without, and how long it would run there.
    instead: tuple[str, float] | None


class _Put(NamedTuple):
    runner: Runner
    # Nobody is to wait so that it ends in time: it cannot.
    late: bool


def pace(runners: Sequence[Runner], gpus: Gpus, now: float) -> dict[str, Slot]:
    """A slot for everyone who can have one. The same inputs give the same slots, whatever the order of `runners`."""
    lines = _Lines(gpus)
    best = gpus.runs_s.min(axis=1, initial=inf)

    def turn(one: Runner) -> tuple[float, float, str]:
        hopeless = one.deadline == inf or one.latest_start < now
        return (inf if hopeless else one.latest_start), -float(best[one.kind]), one.job

    for runner in sorted(runners, key=turn):
        lines.insert(runner)
    lines.use_idle(now)
    return lines.slots()


class _Lines:
    """Jobs in line before each GPU. For every place in every line it is known when one put there would begin, how much
    those behind it count, and how far they can be put off before one of them is late."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._of: list[list[_Put]] = [[] for _ in gpus.free_at]
        count = len(gpus.free_at)
        self._begin: Floats = np.full((count, 2), inf)
        self._begin[:, 0] = gpus.free_at
        self._behind: Floats = np.zeros((count, 2))
        self._slack: Floats = np.full((count, 2), inf)

    def insert(self, runner: Runner) -> None:
        """Where it adds the least; in time if that can be, else where it makes nobody else late."""
        runs = self._gpus.runs_s[runner.kind][:, None]
        with np.errstate(invalid="ignore"):
            ends = self._begin + runs
            cost = runner.weight * ends + runs * self._behind
        allowed = np.isfinite(ends) & (runs <= self._slack)
        in_time = allowed & (ends <= runner.deadline)
        late = not in_time.any()
        cost = np.where(allowed if late else in_time, cost, inf)
        if not cost.size or not np.isfinite(cost).any():
            return
        gpu, at = divmod(int(cost.argmin()), cost.shape[1])
        self._of[gpu].insert(at, _Put(runner, late))
        self._measure(gpu)

    def use_idle(self, now: float) -> None:
        """Nobody waits who would end sooner on a GPU that nobody is to use now."""
        for gpu in np.flatnonzero(self._gpus.free_at <= now).tolist():
            if self._of[gpu]:
                continue
            gains = [(self._gain(line, at, gpu, now), line, at) for line, at in self._places()]
            gain, line, at = max(gains, default=(0.0, 0, 0), key=lambda one: (one[0], -one[1], -one[2]))
            if gain > 0.0:
                put = self._of[line].pop(at)
                ends = now + float(self._gpus.runs_s[put.runner.kind, gpu])
                self._of[gpu].append(put._replace(late=ends > put.runner.deadline))
                self._measure(line)
                self._measure(gpu)

    def _places(self) -> list[tuple[int, int]]:
        return [(line, at) for line, puts in enumerate(self._of) for at in range(len(puts))]

    def _gain(self, line: int, at: int, gpu: int, now: float) -> float:
        """What all gain together when that one goes to that GPU at once; nothing unless it gains itself."""
        runner = self._of[line][at].runner
        runs = float(self._gpus.runs_s[runner.kind, line])
        mine = float(self._begin[line, at]) + runs - now - float(self._gpus.runs_s[runner.kind, gpu])
        return runner.weight * mine + runs * float(self._behind[line, at + 1]) if mine > 0.0 else 0.0

    def slots(self) -> dict[str, Slot]:
        found: dict[str, Slot] = {}
        for gpu, puts in enumerate(self._of):
            for at, put in enumerate(puts):
                start = float(self._begin[gpu, at])
                end = start + float(self._gpus.runs_s[put.runner.kind, gpu])
                found[put.runner.job] = Slot(gpu, start, end, end > put.runner.deadline)
        return found

    def _measure(self, gpu: int) -> None:
        """After the line before a GPU changed."""
        puts = self._of[gpu]
        count = len(puts)
        if count >= self._begin.shape[1]:
            self._widen()
        begin, behind, slack = self._begin[gpu], self._behind[gpu], self._slack[gpu]
        begin[1:], behind[:], slack[:] = inf, 0.0, inf
        for at, put in enumerate(puts):
            begin[at + 1] = begin[at] + self._gpus.runs_s[put.runner.kind, gpu]
        for at in range(count - 1, -1, -1):
            put = puts[at]
            behind[at] = behind[at + 1] + put.runner.weight
            slack[at] = min(slack[at + 1], inf if put.late else put.runner.deadline - begin[at + 1])

    def _widen(self) -> None:
        more = self._begin.shape
        self._begin = np.concatenate([self._begin, np.full(more, inf)], axis=1)
        self._behind = np.concatenate([self._behind, np.zeros(more)], axis=1)
        self._slack = np.concatenate([self._slack, np.full(more, inf)], axis=1)
