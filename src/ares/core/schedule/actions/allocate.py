"""Allocate: give waiting jobs free resources, in the order of their ranks, up to the first that waits for room."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from ares.core.ask import Ask
from ares.core.capacity.transaction import Taken
from ares.core.queue.order import job_of
from ares.core.queue.static_queue import Settled
from ares.core.queue.waiting import ClassKey, JobClass
from ares.core.schedule.actions.backfill import Behind, strategy_of
from ares.core.schedule.place import place_many
from ares.core.schedule.plan import LeftOut
from ares.core.schedule.ranked_queue import Turn, Turns
from ares.core.schedule.trial import Found, Round

# Jobs of one class that are placed ahead at once.
_BATCH_MAX = 1024


@dataclass(slots=True)
class _Run:
    """Like jobs one after the other, of whatever class: their places are found together, ever more at a time."""

    ask: Ask
    # Found and taken ahead; given back when somebody else comes in between.
    ahead: deque[Taken] = field(default_factory=deque[Taken])
    streak: int = 1


def allocate(round_: Round) -> None:
    settled = round_.cluster.waiting.settled
    if settled is None:
        _ByClass(round_).run()
    else:
        _ByJob(round_, settled).run()


class _Allocation:
    """What both ways through the queue have in common."""

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self._run: _Run | None = None
        self._behind = Behind(round_)

    def _next(self, key: ClassKey) -> Found | None:
        return self._next_of_run(key) if _simple(key) else self._alone(key)

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

    def _hand_over(self, rest: Iterator[tuple[str, JobClass]]) -> None:
        """Everybody must look out for what is spoken for; without backfill as well."""
        if strategy_of(self._round.profile) == "strict":
            self._behind.run(rest)
        else:
            self._round.behind = (self._behind, rest)

    def _waits(self, job: str, job_class: JobClass) -> bool:
        """Whether nobody, or not everybody, may pass a job that found no place."""
        self._end_run()
        waits = self._behind.waits(job, job_class)
        if waits and strategy_of(self._round.profile) == "strict":
            # Without backfill nobody goes through those that wait; others may still make room for the first.
            left = LeftOut(class_id=job_class.id, jobs=len(job_class.line), first_job=job)
            self._round.left[job_class.id] = left
        return waits


class _ByClass(_Allocation):
    """The order moves as jobs wait and hold: classes take turns."""

    def __init__(self, round_: Round) -> None:
        super().__init__(round_)
        self._turns = Turns(round_)

    def run(self) -> None:
        round_, turns = self._round, self._turns
        if self._behind.from_the_start:
            self._hand_over(turns.rest(self._behind.closed))
            return
        while len(turns) and not round_.full:
            turn = turns.first()
            if not round_.reach(turn.job):
                break
            if not self._step(turn) or (len(turns) == 1 and not self._rush(turn)):
                if self._waits(turn.job, turn.job_class):
                    round_.behind = (self._behind, turns.rest(self._behind.closed))
                    return
                turns.end()
                self._leave(turn)
            else:
                turns.go_on(turn)
        self._end_run()
        round_.more = round_.more or (round_.full and bool(len(turns)))

    def _step(self, turn: Turn) -> bool:
        """Places the next job of the class, if it can be."""
        one = turn.job_class
        found = self._next(self._round.key_of(turn.job, one.key))
        if found is None:
            return False
        self._round.note_placed(turn.job, one.key, one.id, found)
        turn.done += 1
        return True

    def _rush(self, turn: Turn) -> bool:
        """Nobody else can come in between: all that are left of a class, together. Whether they found a place."""
        one, round_ = turn.job_class, self._round
        if not _simple(one.key) or one.key.asks[0].runs or round_.profile.shares or self._turns.passed_over:
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

    def _leave(self, turn: Turn) -> None:
        one, reserved = turn.job_class, self._round.cluster.reserved
        line = (job_of(one.line.nth(at)) for at in range(turn.done, len(one.line)))
        # Room is being made for some of them: the next one need not wait until those have it.
        first = next((job for job in line if job not in reserved), job_of(one.line.nth(turn.done)))
        self._round.left[one.id] = LeftOut(class_id=one.id, jobs=len(one.line) - turn.done, first_job=first)


class _ByJob(_Allocation):
    """The order never moves: one line of all jobs."""

    def __init__(self, round_: Round, settled: Settled) -> None:
        super().__init__(round_)
        self._line = settled.line
        self._placed = round_.dealt_with

    def run(self) -> None:
        round_ = self._round
        if self._behind.from_the_start:
            self._hand_over(self._rest(0))
            return
        through: set[int] = set()
        for at, (_, _, place) in enumerate(self._line):
            job, number = place[3], place[4]
            if number in through or job in self._placed:
                continue
            if round_.full:
                round_.more = True
                break
            if not round_.reach(job):
                break
            one = round_.cluster.waiting.class_of(job)
            assert one is not None, f"{job} waits"
            # In most cycles the first in line still has no room: a quick look saves the long one.
            key = round_.key_of(job, one.key)
            found = self._next(key) if round_.placed or self._behind.may_fit(one, inf) else None
            if found is not None:
                round_.note_placed(job, one.key, one.id, found)
            elif self._waits(job, one):
                round_.behind = (self._behind, self._rest(at))
                return
            else:
                through.add(number)
                round_.left[number] = LeftOut(class_id=number, jobs=len(one.line), first_job=job)
        self._end_run()

    def _rest(self, at: int) -> Iterator[tuple[str, JobClass]]:
        waiting = self._round.cluster.waiting
        for _, _, place in self._line[at:] if at else self._line:
            if place[3] in self._placed or place[4] in self._behind.closed:
                continue
            if (one := waiting.class_of(place[3])) is not None:
                yield place[3], one


def _simple(key: ClassKey) -> bool:
    """Whether nothing but free resources decides where its jobs go."""
    return len(key.asks) == 1 and key.asks[0].ranks == 1 and not key.asks[0].near and not key.licences
