"""Which jobs start now, and on which GPU, where jobs say how long they run on which model.

All of these jobs are put in line before the GPUs: jobs with a deadline by their latest start, then the longest
first. Each goes where it adds the least to the total time and makes no other job late; of the places where a job
meets its deadline, to the cheapest one, now or later. The first in line before a free GPU starts there; the others
wait, for a better GPU or for their turn.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.node_table import Bools, Floats, Ints, NodeTable
from ares.core.forecast.estimate import runs_on

# Prices that differ by less are the same: they are products.
_SAME = 1 + 1e-9
# A job that waits for a cheaper GPU keeps this part of the time till its deadline: estimates are not exact.
_RESERVE = 0.1


class PacedRunner(NamedTuple):
    """A waiting job. `kind` is a row of the table of run times: like jobs share one."""

    job: str
    kind: int
    # How much its time counts beside that of other jobs.
    weight: float
    deadline: float
    # Started later than this, the job is late on any GPU.
    latest_start: float


class Gpus(NamedTuple):
    """Each GPU: from when on it is free, and its sort. `runs_s`: run time by kind of job and sort of GPU; inf where the
    job cannot run."""

    free_at: Floats
    sort: Ints
    runs_s: Floats
    # By sort: what a GPU of it costs in an hour.
    price_hour: Floats


class PacedSlot(NamedTuple):
    """Where and when a job is to run, and whether it will be late."""

    gpu: int
    start: float
    end: float
    late: bool


class PacedJob(NamedTuple):
    """The best choice for a job that says how long it runs on which GPU model: this model, from then on."""

    # None: on several models, as they come.
    model: str | None
    start: float
    end: float
    # The job ends after its deadline.
    late: bool
    # A model that the job could have now and does without, and how long it would run there.
    instead: tuple[str, float] | None
    # The job starts on a GPU that another job has later, and ends by then.
    slips_in: bool = False
    # It would cost more there, and the job meets its deadline here.
    cheaper: bool = False


class _Put(NamedTuple):
    runner: PacedRunner
    # The job misses its deadline anyway: no other job is to wait for it.
    late: bool


def pace(runners: Sequence[PacedRunner], gpus: Gpus, now: float) -> dict[str, PacedSlot]:
    """A slot for each job that can have one. The same inputs give the same slots, whatever the order of `runners`."""
    if not runners:
        return {}
    lines = _GpuQueues(gpus, len(runners))
    best = gpus.runs_s.min(axis=1, initial=inf)

    def turn(runner: PacedRunner) -> tuple[float, float, str]:
        hopeless = runner.deadline == inf or runner.latest_start < now
        return (inf if hopeless else runner.latest_start), -float(best[runner.kind]), runner.job

    for runner in sorted(runners, key=turn):
        lines.insert(runner, now)
    lines.use_idle(now)
    return lines.slots()


class _GpuQueues:
    """Jobs in line before each GPU. For every place in every line it is known when a job put there would begin, how
    much the jobs behind it count, and how far they can be put off before one of them is late.

    Of the GPUs of one sort without a line, only the one that is free first is looked at."""

    def __init__(self, gpus: Gpus, jobs: int) -> None:
        self._gpus = gpus
        known = np.flatnonzero(np.isfinite(gpus.free_at))
        by_time = known[np.argsort(gpus.free_at[known], kind="stable")]
        self._unused = [deque(by_time[gpus.sort[by_time] == sort].tolist()) for sort in range(gpus.runs_s.shape[1])]
        rows = jobs + len(self._unused)
        self._gpu: Ints = np.zeros(rows, np.int64)
        self._sort: Ints = np.zeros(rows, np.int64)
        self._of: list[list[_Put]] = []
        # By line and place.
        self._begin: Floats = np.full((rows, 2), inf)
        self._behind: Floats = np.zeros((rows, 2))
        self._slack: Floats = np.full((rows, 2), inf)
        self._kind: Ints = np.full((rows, 2), -1, np.int64)
        self._weight: Floats = np.zeros((rows, 2))
        # Jobs that meet their deadline there.
        self._dated: Bools = np.zeros((rows, 2), np.bool_)
        for sort in range(len(self._unused)):
            self._open(sort)

    def insert(self, runner: PacedRunner, now: float) -> None:
        """Puts the job where it adds the least: in time if that can be, where it costs least; else where it makes no
        other job late."""
        lines = len(self._of)
        runs = self._gpus.runs_s[runner.kind][self._sort[:lines]][:, None]
        with np.errstate(invalid="ignore"):
            ends = self._begin[:lines] + runs
            cost = runner.weight * ends + runs * self._behind[:lines]
            money = runs * self._gpus.price_hour[self._sort[:lines]][:, None]
        allowed = np.isfinite(ends) & (runs <= self._slack[:lines])
        in_time = allowed & (ends <= runner.deadline)
        late = not in_time.any()
        cost = np.where(allowed if late else in_time, cost, inf)
        if not late and runner.deadline < inf:
            sure = (self._begin[:lines] <= now) | (ends <= runner.deadline - _RESERVE * (runner.deadline - now))
            money = np.where(in_time & sure, money, inf)
            cost = np.where(money <= money.min(initial=inf) * _SAME, cost, inf)
        if not cost.size or not np.isfinite(cost).any():
            return
        line, at = divmod(int(cost.argmin()), cost.shape[1])
        self._put(line, at, _Put(runner, late))

    def use_idle(self, now: float) -> None:
        """Moves jobs to GPUs without a line that are free now, where a job would end sooner there."""
        line = 0
        while line < len(self._of):
            if self._of[line] or self._begin[line, 0] > now or not self._move_to(line, now):
                line += 1

    def _move_to(self, line: int, now: float) -> bool:
        """Gives the idle GPU to the job that gains most, counting the jobs behind it; False when none gains itself."""
        lines = len(self._of)
        kinds, began = self._kind[:lines, :-1], self._begin[:lines, :-1]
        there = kinds >= 0
        runs = self._gpus.runs_s[kinds, self._sort[:lines][:, None]]
        with np.errstate(invalid="ignore"):
            runs_there = self._gpus.runs_s[kinds, self._sort[line]]
            mine = np.where(there, began + runs - now - runs_there, 0.0)
            money = runs * self._gpus.price_hour[self._sort[:lines]][:, None]
            money_there = runs_there * self._gpus.price_hour[self._sort[line]]
            # What a job with a deadline saves by waiting is not spent to end sooner than it has to.
            mine = np.where(self._dated[:lines, :-1] & (money_there > money * _SAME), 0.0, mine)
            gains = np.where(mine > 0.0, self._weight[:lines, :-1] * mine + runs * self._behind[:lines, 1:], 0.0)
        other, at = divmod(int(gains.argmax()), gains.shape[1])
        if gains[other, at] <= 0.0:
            return False
        put = self._of[other].pop(at)
        self._measure(other)
        ends = now + float(self._gpus.runs_s[put.runner.kind, self._sort[line]])
        self._put(line, 0, put._replace(late=ends > put.runner.deadline))
        return True

    def slots(self) -> dict[str, PacedSlot]:
        found: dict[str, PacedSlot] = {}
        for line, puts in enumerate(self._of):
            for at, put in enumerate(puts):
                start = self._begin.item(line, at)
                end = start + self._gpus.runs_s.item(put.runner.kind, self._sort.item(line))
                found[put.runner.job] = PacedSlot(self._gpu.item(line), start, end, end > put.runner.deadline)
        return found

    def _open(self, sort: int) -> None:
        """Opens a line before the next GPU of the sort, if there is one."""
        if self._unused[sort]:
            line, gpu = len(self._of), self._unused[sort].popleft()
            self._of.append([])
            self._gpu[line], self._sort[line], self._begin[line, 0] = gpu, sort, self._gpus.free_at[gpu]

    def _put(self, line: int, at: int, put: _Put) -> None:
        first = not self._of[line]
        self._of[line].insert(at, put)
        self._measure(line)
        if first and len(self._of) < len(self._begin):
            self._open(self._sort.item(line))

    def _measure(self, line: int) -> None:
        """Computes the columns of a line anew after it changed."""
        puts, sort = self._of[line], self._sort.item(line)
        count = len(puts)
        if count >= self._begin.shape[1]:
            self._widen()
        begin, behind, slack = self._begin[line], self._behind[line], self._slack[line]
        begin[1:], behind[:], slack[:] = inf, 0.0, inf
        self._kind[line], self._weight[line], self._dated[line] = -1, 0.0, False
        for at, put in enumerate(puts):
            begin[at + 1] = begin[at] + self._gpus.runs_s[put.runner.kind, sort]
            self._kind[line, at], self._weight[line, at] = put.runner.kind, put.runner.weight
            self._dated[line, at] = put.runner.deadline < inf and not put.late
        for at in range(count - 1, -1, -1):
            put = puts[at]
            behind[at] = behind[at + 1] + put.runner.weight
            slack[at] = min(slack[at + 1], inf if put.late else put.runner.deadline - begin[at + 1])

    def _widen(self) -> None:
        more = self._begin.shape
        self._begin = np.concatenate([self._begin, np.full(more, inf)], axis=1)
        self._behind = np.concatenate([self._behind, np.zeros(more)], axis=1)
        self._slack = np.concatenate([self._slack, np.full(more, inf)], axis=1)
        self._kind = np.concatenate([self._kind, np.full(more, -1, np.int64)], axis=1)
        self._weight = np.concatenate([self._weight, np.zeros(more)], axis=1)
        self._dated = np.concatenate([self._dated, np.zeros(more, np.bool_)], axis=1)


# ---- GPU models that a job with run times by model could run on: on one of them, or on several as they come.


class ModelChoice(NamedTuple):
    """The ask for this choice, and the run time with it. `slowest` is the model that decides the run time."""

    ask: Ask
    model: str | None
    slowest: str
    runs_s: float


def choices(table: NodeTable, ask: Ask) -> Iterator[ModelChoice]:
    """Yields nothing for asks that do not tell models apart."""
    records = [record for record in table.records if record is not None]
    models = sorted({gpu.model for record in records for gpu in record.info.gpus if not gpu.mig})
    if not ask.runs or not models:
        return
    if ask.gpu_model is None:
        for model in models:
            yield ModelChoice(ask._replace(gpu_model=model, runs=()), model, model, runs_on(ask.runs, model))
    if ask.gpu_model is not None or ask.gpus * ask.ranks > 1:
        slowest = max(models, key=lambda model: runs_on(ask.runs, model))
        slowest = slowest if ask.gpu_model is None else ask.gpu_model
        yield ModelChoice(ask._replace(runs=()), None, slowest, runs_on(ask.runs, slowest))
