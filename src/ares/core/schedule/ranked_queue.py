"""Waiting jobs in the order of their ranks, class by class, while a cycle places jobs."""

import heapq
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from math import fsum, inf
from typing import NamedTuple

import numpy as np

from ares.core.queue.factors import BY_CLASS, FACTORS, STATIC, Factor, JobFacts
from ares.core.queue.factors.factor import Floats, Ints
from ares.core.queue.heads import about, estimable
from ares.core.queue.kept_turns import Bools, kept_turns
from ares.core.queue.order import Place, job_of
from ares.core.queue.waiting import JobClass, facts_of
from ares.core.schedule.trial import Trial

_AT_ONCE = 256
# Terms of the primary and of the secondary rank.
_Terms = tuple[list[float], list[float]]
_NO_TERMS: _Terms = ([], [])
_Weighted = list[tuple[float, Factor]]
# The first three of a key, or less, and the class.
_Bound = tuple[float, bool, float, float, int]
# (minus what the primary rank counts in line, whether after jobs that count as much, minus primary rank, minus
# secondary rank, place in line, index of the class): the smallest comes first.
_Key = tuple[float, bool, float, float, Place, int]


@dataclass(slots=True)
class RankedClass:
    """A class of like jobs on its way through the cycle."""

    job_class: JobClass
    index: int
    # How many of its jobs are dealt with: the first of the line.
    done: int = 0
    # Weighted factors that are the same for all of its jobs, and stay as they are.
    lasting: _Terms | None = None
    # The same that move, and how many jobs had been placed then.
    moving: _Terms = _NO_TERMS
    moved_at: int = -1
    # For the next job: its number in line, its place, what its rank is made from, and its own weighted factors.
    ranked: int = -1
    place: Place = field(init=False)
    facts: JobFacts = field(init=False)
    own: _Terms = _NO_TERMS
    key: "_Key" = field(init=False)

    @property
    def job(self) -> str:
        return job_of(self.place if self.ranked == self.done else self.job_class.line.nth(self.done))


class _Later(NamedTuple):
    """Classes that have no exact rank yet, the first one last."""

    ids: Ints
    counts: Floats
    after: Bools
    primary: Floats

    def take(self, left: int) -> list[_Bound]:
        """The next of the first `left`, as values. Whatever the secondary rank is, the bound is below it."""
        some = slice(max(0, left - _AT_ONCE), left)
        counts, after, primary, ids = (
            column[some].tolist() for column in (self.counts, self.after, self.primary, self.ids)
        )
        return [
            (count, late, rank, -inf, number)
            for count, late, rank, number in zip(counts, after, primary, ids, strict=True)
        ]


class RankedQueue:
    """Which class is next. Jobs that are placed already are passed over.

    Of many classes most never have a turn: they wait in the order of what they rank at most, and get their exact rank
    when no class with one comes before that.
    """

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        # Jobs that got the room kept for them, and jobs that wait for a better GPU.
        self._placed = trial.dealt_with
        self._order = order = trial.profile.order
        self._shares = trial.shares
        names = {factor.name for factor in (*order.primary, *order.secondary)}
        # Factors that stay as they are, those that move, and those that each job of a class has its own of.
        self._lasting = self._weighted(names & STATIC & BY_CLASS)
        self._moving = self._weighted(names - STATIC)
        self._own = self._weighted((names & STATIC) - BY_CLASS)
        self._fixed = not any(self._moving)
        self._kept = kept_turns(trial.waiting, trial.cluster.promises, trial.profile, trial.shares, trial.now)
        self._turns: list[RankedClass] = []
        self._heap: list[_Key] = []
        # Classes without an exact rank, the first one last; the next of them as values; and how many there are.
        self._later: _Later | None = None
        self._next: list[_Bound] = []
        self._left = 0
        self._line_up()

    def _weighted(self, names: set[str]) -> tuple[_Weighted, _Weighted]:
        first, second = (
            [(factor.weight, FACTORS[factor.name]) for factor in each if factor.name in names]
            for each in (self._order.primary, self._order.secondary)
        )
        return first, second

    def _line_up(self) -> None:
        trial = self._trial
        heads = trial.waiting.heads() if estimable(self._order) else None
        if heads is None:
            for job_class in trial.waiting.active.values():
                self._enter(job_class)
            return
        ids, facts = heads.columns()
        least, primary = about(facts, self._order.primary, trial.shares, self._order, trial.now)
        counts, after = self._kept.within_each(facts, least, primary)
        # Of these classes the first job may be dealt with, or have a promise: their ranks are not those of the columns.
        found = (trial.waiting.class_of(job) for job in (*self._placed, *self._kept.jobs))
        apart = {job_class.id: job_class for job_class in found if job_class is not None}
        for number, job_class in apart.items():
            self._enter(job_class)
            counts[ids == number] = -inf
        order = np.lexsort((primary, ~after, counts)) if after.any() else counts.argsort()
        order = order[int(np.count_nonzero(counts == -inf)) :]
        self._later, self._left = _Later(ids[order], -counts[order], after[order], -primary[order]), len(order)

    def _enter(self, job_class: JobClass) -> None:
        turn = RankedClass(job_class, len(self._turns))
        self._turns.append(turn)
        if self._skip(turn):
            heapq.heappush(self._heap, self._key(turn))

    def _catch_up(self) -> None:
        """Every class that may come first has its exact rank."""
        heap, active = self._heap, self._trial.waiting.active
        while self._left:
            if not self._next and self._later is not None:
                self._next = self._later.take(self._left)
            bound = self._next[-1]
            if heap and bound > heap[0]:
                return
            self._next.pop()
            self._left -= 1
            self._enter(active[bound[-1]])

    def __len__(self) -> int:
        """The number of classes that still have jobs to look at."""
        return len(self._heap) + self._left

    @property
    def passed_over(self) -> bool:
        return bool(self._placed)

    def first(self) -> RankedClass:
        """The class of the next job. There must be one."""
        heap = self._heap
        while True:
            if self._left:
                self._catch_up()
            turn = self._turns[heap[0][-1]]
            if self._fixed or not (self._left or len(heap) > 1):
                return turn
            # Ranks only fall while a cycle places jobs, so a class whose rank fell is put back in line.
            key = self._key(turn)
            if key <= heap[0]:
                return turn
            heapq.heapreplace(heap, key)

    def go_on(self, turn: RankedClass) -> None:
        """The first class goes on with the next of its jobs, if there is one."""
        heap = self._heap
        if not self._skip(turn):
            heapq.heappop(heap)
        elif self._left or len(heap) > 1:
            heapq.heapreplace(heap, self._key(turn))

    def end(self) -> None:
        """The first class is done for this cycle."""
        heapq.heappop(self._heap)

    def rest(self, closed: Container[int] = ()) -> Iterator[tuple[str, JobClass]]:
        """Every job that is not dealt with, in order; no more of a class once it is `closed`."""
        while len(self):
            turn = self.first()
            if turn.job_class.id in closed:
                self.end()
                continue
            yield turn.job, turn.job_class
            turn.done += 1
            if turn.job_class.id in closed:
                self.end()
            else:
                self.go_on(turn)

    def _skip(self, turn: RankedClass) -> bool:
        """Goes on to the next job that is not dealt with; False when there is none."""
        line = turn.job_class.line
        count = len(line)
        while self._placed and turn.done < count and job_of(line.nth(turn.done)) in self._placed:
            turn.done += 1
        return turn.done < count

    def _key(self, turn: RankedClass) -> _Key:
        """The rank as in `factors.rank`; what cannot change within the cycle is computed once for each class or job."""
        if turn.ranked == turn.done and turn.moved_at == self._shares.taken:
            return turn.key
        if turn.ranked != turn.done:
            turn.place = turn.job_class.line.nth(turn.done)
            turn.facts = facts_of(turn.place, turn.job_class.key)
            turn.own, turn.ranked = self._terms(self._own, turn.facts), turn.done
        if turn.lasting is None:
            turn.lasting = self._terms(self._lasting, turn.facts)
        if turn.moved_at != self._shares.taken:
            turn.moving = self._terms(self._moving, turn.facts)
            turn.moved_at = self._shares.taken
        (first, second), (first_own, second_own), (first_moving, second_moving) = turn.lasting, turn.own, turn.moving
        primary, secondary = fsum(first + first_own + first_moving), fsum(second + second_own + second_moving)
        counts, after = self._kept.within(job_of(turn.place), turn.facts, primary)
        turn.key = -counts, after, -primary, -secondary, turn.place, turn.index
        return turn.key

    def _terms(self, weighted: tuple[_Weighted, _Weighted], facts: JobFacts) -> _Terms:
        first, second = weighted
        order, shares, now = self._order, self._shares, self._trial.now
        return (
            [weight * of(facts, shares, order, now) for weight, of in first],
            [weight * of(facts, shares, order, now) for weight, of in second] if second else [],
        )
