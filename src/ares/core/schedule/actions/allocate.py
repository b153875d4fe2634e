"""Allocate: free resources for waiting jobs, in the order of their ranks, up to the first that waits for room."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from ares.core.ask import Ask
from ares.core.capacity.transaction import Allocation
from ares.core.queue.order import job_of
from ares.core.queue.static_queue import StaticQueue
from ares.core.queue.waiting import ClassKey, JobClass
from ares.core.schedule.actions.backfill import BackfillPass, strategy_of
from ares.core.schedule.place import place_many
from ares.core.schedule.plan import LeftOut
from ares.core.schedule.ranked_queue import RankedClass, RankedQueue
from ares.core.schedule.trial import Assignment, Trial

# Jobs of one class that are placed ahead at once.
_BATCH_MAX = 1024


@dataclass(slots=True)
class _LikeJobs:
    """Like jobs one after the other, of whatever class: their places are found together, ever more at a time."""

    ask: Ask
    # Places found and taken ahead; given back when another job comes in between.
    ahead: deque[Allocation] = field(default_factory=deque[Allocation])
    streak: int = 1


def allocate(trial: Trial) -> None:
    settled = trial.waiting.settled
    if settled is None:
        _ByClass(trial).run()
    else:
        _ByJob(trial, settled).run()


class _Allocation:
    """What the two ways through the queue have in common."""

    def __init__(self, trial: Trial) -> None:
        self._round = trial
        self._run: _LikeJobs | None = None
        self._behind = BackfillPass(trial)

    def _next(self, key: ClassKey) -> Assignment | None:
        return self._next_of_run(key) if _simple(key) else self._alone(key)

    def _alone(self, key: ClassKey) -> Assignment | None:
        self._end_run()
        return self._round.find(key)

    def _next_of_run(self, key: ClassKey) -> Assignment | None:
        trial, ask = self._round, key.asks[0]
        if self._run is None or self._run.ask != ask:
            found = self._alone(key)
            self._run = _LikeJobs(ask)
            return found
        if trial.profile.shares and trial.gate(key, ask) is not None:
            return None
        run = self._run
        if not run.ahead:
            run.streak = min(2 * run.streak, _BATCH_MAX)
            left = trial.profile.max_placements_per_cycle - len(trial.placed)
            run.ahead.extend(place_many(trial.evaluations, trial.txn, ask, min(run.streak, left)))
        return Assignment((run.ahead.popleft(),), 0) if run.ahead else None

    def _end_run(self) -> None:
        if self._run is not None:
            for taken in reversed(self._run.ahead):
                self._round.txn.give(taken)
            self._run = None

    def _hand_over(self, rest: Iterator[tuple[str, JobClass]]) -> None:
        """Every job behind must respect claims, also without backfill."""
        if strategy_of(self._round.profile) == "strict":
            self._behind.run(rest)
        else:
            self._round.behind = (self._behind, rest)

    def _waits(self, job: str, job_class: JobClass) -> bool:
        """Whether the job that found no place blocks some or all jobs behind it."""
        self._end_run()
        waits = self._behind.waits(job, job_class)
        if waits and strategy_of(self._round.profile) == "strict":
            # Without backfill no job behind is looked at; other actions may still make room for the first.
            left = LeftOut(class_id=job_class.id, jobs=len(job_class.line), first_job=job)
            self._round.left[job_class.id] = left
        return waits


class _ByClass(_Allocation):
    """For orders that move as jobs wait and hold resources: classes take turns."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self._turns = RankedQueue(trial)

    def run(self) -> None:
        trial, turns = self._round, self._turns
        if self._behind.from_the_start:
            self._hand_over(turns.rest(self._behind.closed))
            return
        while len(turns) and not trial.full:
            turn = turns.first()
            if trial.budget is not None and not trial.reach(turn.job):
                break
            if not self._step(turn) or (len(turns) == 1 and not self._rush(turn)):
                if self._waits(turn.job, turn.job_class):
                    trial.behind = (self._behind, turns.rest(self._behind.closed))
                    return
                turns.end()
                self._leave(turn)
            else:
                turns.go_on(turn)
        self._end_run()
        trial.more = trial.more or (trial.full and bool(len(turns)))

    def _step(self, turn: RankedClass) -> bool:
        """Places the next job of the class; False when that is not possible."""
        job, job_class = turn.job, turn.job_class
        found = self._next(self._round.key_of(job, job_class.key))
        if found is None:
            return False
        self._round.note_placed(job, job_class.key, job_class.id, found)
        turn.done += 1
        return True

    def _rush(self, turn: RankedClass) -> bool:
        """No other class can come in between: the rest of this class at once. False when a job found no place."""
        job_class, trial = turn.job_class, self._round
        if not _simple(job_class.key) or job_class.key.asks[0].runs or trial.profile.shares or self._turns.passed_over:
            return True
        while not trial.full and turn.done < len(job_class.line):
            wanted = min(trial.profile.max_placements_per_cycle - len(trial.placed), len(job_class.line) - turn.done)
            self._end_run()
            taken = place_many(trial.evaluations, trial.txn, job_class.key.asks[0], wanted)
            for extra in reversed(taken[wanted:]):
                trial.txn.give(extra)
            jobs = job_class.line.jobs(turn.done, min(wanted, len(taken)))
            trial.note_run(jobs, job_class.key, job_class.id, taken[:wanted])
            turn.done += len(jobs)
            if not jobs:
                return False
        return True

    def _leave(self, turn: RankedClass) -> None:
        job_class, reserved = turn.job_class, self._round.cluster.reserved
        first = turn.job
        if reserved:
            line = (job_of(job_class.line.nth(at)) for at in range(turn.done, len(job_class.line)))
            # Room is being made for some of these jobs: the next job need not wait until they have it.
            first = next((job for job in line if job not in reserved), first)
        self._round.left[job_class.id] = LeftOut(
            class_id=job_class.id, jobs=len(job_class.line) - turn.done, first_job=first
        )


class _ByJob(_Allocation):
    """For orders that never move: one line of all jobs."""

    def __init__(self, trial: Trial, settled: StaticQueue) -> None:
        super().__init__(trial)
        self._line = settled.line
        self._placed = trial.dealt_with

    def run(self) -> None:
        trial = self._round
        if self._behind.from_the_start:
            self._hand_over(self._rest(0))
            return
        through: set[int] = set()
        for at, (_, _, place) in enumerate(self._line):
            job, number = place[3], place[4]
            if number in through or job in self._placed:
                continue
            if trial.full:
                trial.more = True
                break
            if not trial.reach(job):
                break
            job_class = trial.waiting.class_of(job)
            assert job_class is not None, f"{job} waits"
            # In most cycles the first in line still has no room: a quick look saves the long one.
            key = trial.key_of(job, job_class.key)
            found = self._next(key) if trial.placed or self._behind.may_fit(job_class, inf) else None
            if found is not None:
                trial.note_placed(job, job_class.key, job_class.id, found)
            elif self._waits(job, job_class):
                trial.behind = (self._behind, self._rest(at))
                return
            else:
                through.add(number)
                trial.left[number] = LeftOut(class_id=number, jobs=len(job_class.line), first_job=job)
        self._end_run()

    def _rest(self, at: int) -> Iterator[tuple[str, JobClass]]:
        waiting = self._round.waiting
        for _, _, place in self._line[at:] if at else self._line:
            if place[3] in self._placed or place[4] in self._behind.closed:
                continue
            if (job_class := waiting.class_of(place[3])) is not None:
                yield place[3], job_class


def _simple(key: ClassKey) -> bool:
    """Whether free resources alone decide where jobs of the class go."""
    return len(key.asks) == 1 and key.asks[0].ranks == 1 and not key.asks[0].near and not key.licences
