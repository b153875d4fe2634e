"""Allocate: give waiting jobs free resources, in the order of their ranks."""

import heapq
from collections import deque
from dataclasses import dataclass, field
from math import fsum

from ares.core.queue.factors import FACTORS, STATIC, Facts
from ares.core.queue.order import Place, facts_of, job_of
from ares.core.queue.waiting import ClassKey, JobClass
from ares.core.schedule.ask import Ask
from ares.core.schedule.place import place_many
from ares.core.schedule.plan import LeftOut
from ares.core.schedule.round import Found, Round
from ares.core.schedule.transaction import Taken

# Jobs of one class that are placed ahead at once.
_BATCH_MAX = 1024

# (minus primary rank, minus secondary rank, place in line, index of the turn): the smallest comes first.
_Key = tuple[float, float, Place, int]


@dataclass(slots=True)
class _Turn:
    """A class on its way through the cycle."""

    job_class: JobClass
    # Those of its jobs that are dealt with: the first of the line.
    done: int = 0
    # Of the next job: its number in line, what its rank is made from, and the weighted factors that stay as they are.
    ranked: int = -1
    facts: Facts = field(init=False)
    lasting: tuple[list[float], list[float]] = field(init=False)


@dataclass(slots=True)
class _Run:
    """Like jobs one after the other, of whatever class: their places are found together, ever more at a time."""

    ask: Ask
    # Found and taken ahead; given back when somebody else comes in between.
    ahead: deque[Taken] = field(default_factory=deque[Taken])
    streak: int = 1


def allocate(round_: Round) -> None:
    _Allocation(round_).run()


class _Allocation:
    def __init__(self, round_: Round) -> None:
        self._round = round_
        # Some got the room that was kept for them.
        self._placed = {one.job for one in round_.placed}
        self._turns = [_Turn(one) for one in round_.cluster.waiting.active.values()]
        self._order = order = round_.profile.order
        self._run: _Run | None = None
        sums = (order.primary, order.secondary)
        self._lasting = [[(one.weight, FACTORS[one.name]) for one in each if one.name in STATIC] for each in sums]
        self._moving = [[(one.weight, FACTORS[one.name]) for one in each if one.name not in STATIC] for each in sums]
        self._fixed = not any(self._moving)

    def run(self) -> None:
        round_ = self._round
        heap = [self._key(turn, index) for index, turn in enumerate(self._turns) if self._skip(turn)]
        heapq.heapify(heap)
        while heap and not round_.full:
            index = heap[0][3]
            turn = self._turns[index]
            if not self._fixed and len(heap) > 1:
                # Ranks only fall while a cycle gives things away, so a place that got worse is put back in line.
                key = self._key(turn, index)
                if key > heap[0]:
                    heapq.heapreplace(heap, key)
                    continue
            if not self._step(turn) or (len(heap) == 1 and not self._rush(turn)):
                heapq.heappop(heap)
                self._leave(turn)
            elif not self._skip(turn):
                heapq.heappop(heap)
            elif len(heap) > 1:
                heapq.heapreplace(heap, self._key(turn, index))
        self._end_run()
        round_.more = round_.more or bool(heap)

    def _skip(self, turn: _Turn) -> bool:
        """Goes on to the next job that still waits; whether there is one."""
        line = turn.job_class.line
        while self._placed and turn.done < len(line) and job_of(line.nth(turn.done)) in self._placed:
            turn.done += 1
        return turn.done < len(line)

    def _key(self, turn: _Turn, index: int) -> _Key:
        """As `factors.rank` has it; what cannot change within the cycle is computed once for each job."""
        place = turn.job_class.line.nth(turn.done)
        order, shares, now = self._order, self._round.shares, self._round.now
        if turn.ranked != turn.done:
            key = turn.job_class.key
            facts = turn.facts = facts_of(place, key.level, key.account, key.dated)
            first, second = self._lasting
            turn.lasting = (
                [weight * of(facts, shares, order, now) for weight, of in first],
                [weight * of(facts, shares, order, now) for weight, of in second],
            )
            turn.ranked = turn.done
        facts, (first_lasting, second_lasting), (first, second) = turn.facts, turn.lasting, self._moving
        primary = fsum(first_lasting + [weight * of(facts, shares, order, now) for weight, of in first])
        secondary = fsum(second_lasting + [weight * of(facts, shares, order, now) for weight, of in second])
        return -primary, -secondary, place, index

    def _step(self, turn: _Turn) -> bool:
        """Places the next job of the class, if it can be."""
        one, round_ = turn.job_class, self._round
        found = self._next_of_run(one.key) if _simple(one.key) else self._alone(one.key)
        if found is None:
            return False
        round_.note_placed(job_of(one.line.nth(turn.done)), one.key, one.id, found)
        turn.done += 1
        return True

    def _rush(self, turn: _Turn) -> bool:
        """Nobody else can come in between: all that are left of a class, together. Whether they found a place."""
        one, round_ = turn.job_class, self._round
        if not _simple(one.key) or round_.profile.shares or self._placed:
            return True
        while not round_.full and turn.done < len(one.line):
            wanted = min(round_.profile.max_placements_per_cycle - len(round_.placed), len(one.line) - turn.done)
            self._end_run()
            taken = place_many(round_.evaluations, round_.txn, one.key.asks[0], wanted)
            for extra in reversed(taken[wanted:]):
                round_.txn.give(extra)
            jobs = [job_of(one.line.nth(turn.done + at)) for at in range(min(wanted, len(taken)))]
            round_.note_run(jobs, one.key, one.id, taken[:wanted])
            turn.done += len(jobs)
            if not jobs:
                return False
        return True

    def _alone(self, key: ClassKey) -> Found | None:
        self._end_run()
        return self._round.find(key)

    def _next_of_run(self, key: ClassKey) -> Found | None:
        round_, ask = self._round, key.asks[0]
        if self._run is None or self._run.ask != ask:
            found = self._alone(key)
            self._run = _Run(ask)
            return found
        if round_.profile.shares and round_.gate(key, ask) is not None:
            return None
        run = self._run
        if not run.ahead:
            run.streak = min(2 * run.streak, _BATCH_MAX)
            left = round_.profile.max_placements_per_cycle - len(round_.placed)
            run.ahead.extend(place_many(round_.evaluations, round_.txn, ask, min(run.streak, left)))
        return Found((run.ahead.popleft(),), 0) if run.ahead else None

    def _end_run(self) -> None:
        if self._run is not None:
            for taken in reversed(self._run.ahead):
                self._round.txn.give(taken)
            self._run = None

    def _leave(self, turn: _Turn) -> None:
        one, reserved = turn.job_class, self._round.cluster.reserved
        line = (job_of(one.line.nth(at)) for at in range(turn.done, len(one.line)))
        # Room is being made for some of them: the next one need not wait until those have it.
        first = next((job for job in line if job not in reserved), job_of(one.line.nth(turn.done)))
        self._round.left[one.id] = LeftOut(class_id=one.id, jobs=len(one.line) - turn.done, first_job=first)


def _simple(key: ClassKey) -> bool:
    """Whether nothing but free resources decides where its jobs go."""
    return len(key.asks) == 1 and key.asks[0].ranks == 1 and not key.asks[0].near and not key.licences
