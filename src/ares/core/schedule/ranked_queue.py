"""Waiting jobs in the order of their ranks, class by class, while a cycle places jobs."""

import heapq
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from math import fsum

from ares.core.queue.factors import FACTORS, STATIC, JobFacts
from ares.core.queue.kept_turns import kept_turns
from ares.core.queue.order import Place, job_of
from ares.core.queue.waiting import JobClass, facts_of
from ares.core.schedule.trial import Trial

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
    # For the next job: its number in line, what its rank is made from, and the weighted factors that stay as they are.
    ranked: int = -1
    facts: JobFacts = field(init=False)
    lasting: tuple[list[float], list[float]] = field(init=False)

    @property
    def job(self) -> str:
        return job_of(self.job_class.line.nth(self.done))


class RankedQueue:
    """Which class is next. Jobs that are placed already are passed over."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        # Jobs that got the room kept for them, and jobs that wait for a better GPU.
        self._placed = trial.dealt_with
        self._order = order = trial.profile.order
        sums = (order.primary, order.secondary)
        self._lasting = [
            [(factor.weight, FACTORS[factor.name]) for factor in each if factor.name in STATIC] for each in sums
        ]
        self._moving = [
            [(factor.weight, FACTORS[factor.name]) for factor in each if factor.name not in STATIC] for each in sums
        ]
        self._fixed = not any(self._moving)
        self._kept = kept_turns(trial.waiting, trial.cluster.promises, trial.profile, trial.shares, trial.now)
        self._turns = [RankedClass(job_class, index) for index, job_class in enumerate(trial.waiting.active.values())]
        self._heap = [self._key(turn) for turn in self._turns if self._skip(turn)]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        """The number of classes that still have jobs to look at."""
        return len(self._heap)

    @property
    def passed_over(self) -> bool:
        return bool(self._placed)

    def first(self) -> RankedClass:
        """The class of the next job. There must be one."""
        heap = self._heap
        while True:
            turn = self._turns[heap[0][-1]]
            if self._fixed or len(heap) == 1:
                return turn
            # Ranks only fall while a cycle places jobs, so a class whose rank fell is put back in line.
            key = self._key(turn)
            if key <= heap[0]:
                return turn
            heapq.heapreplace(heap, key)

    def go_on(self, turn: RankedClass) -> None:
        """The first class goes on with the next of its jobs, if there is one."""
        if not self._skip(turn):
            heapq.heappop(self._heap)
        elif len(self._heap) > 1:
            heapq.heapreplace(self._heap, self._key(turn))

    def end(self) -> None:
        """The first class is done for this cycle."""
        heapq.heappop(self._heap)

    def rest(self, closed: Container[int] = ()) -> Iterator[tuple[str, JobClass]]:
        """Every job that is not dealt with, in order; no more of a class once it is `closed`."""
        while self._heap:
            turn = self.first()
            if turn.job_class.id in closed:
                self.end()
                continue
            yield turn.job, turn.job_class
            turn.done += 1
            self.go_on(turn)

    def _skip(self, turn: RankedClass) -> bool:
        """Goes on to the next job that is not dealt with; False when there is none."""
        line = turn.job_class.line
        while self._placed and turn.done < len(line) and job_of(line.nth(turn.done)) in self._placed:
            turn.done += 1
        return turn.done < len(line)

    def _key(self, turn: RankedClass) -> _Key:
        """The rank as in `factors.rank`; what cannot change within the cycle is computed once for each job."""
        place = turn.job_class.line.nth(turn.done)
        order, shares, now = self._order, self._trial.shares, self._trial.now
        if turn.ranked != turn.done:
            key = turn.job_class.key
            facts = turn.facts = facts_of(place, key)
            first, second = self._lasting
            turn.lasting = (
                [weight * of(facts, shares, order, now) for weight, of in first],
                [weight * of(facts, shares, order, now) for weight, of in second],
            )
            turn.ranked = turn.done
        facts, (first_lasting, second_lasting), (first, second) = turn.facts, turn.lasting, self._moving
        primary = fsum(first_lasting + [weight * of(facts, shares, order, now) for weight, of in first])
        secondary = 0.0
        if second or second_lasting:
            secondary = fsum(second_lasting + [weight * of(facts, shares, order, now) for weight, of in second])
        counts, after = self._kept.within(job_of(place), facts, primary)
        return -counts, after, -primary, -secondary, place, turn.index
