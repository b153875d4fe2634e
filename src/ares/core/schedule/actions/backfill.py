"""Backfill: which jobs may start before a job that waits for room. Strategies differ in which jobs get a promise.

A promise is a claim on the future: jobs that come after may use the room only as long as the promise is kept.
"""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Literal

from ares.api.decisions import Promise
from ares.core.ask import Ask
from ares.core.capacity.bookings import claim_of
from ares.core.capacity.claims import Claim
from ares.core.capacity.transaction import taken_by
from ares.core.queue.waiting import JobClass
from ares.core.schedule.plan import LeftOut
from ares.core.schedule.promised_room import choose_again, in_its_room
from ares.core.schedule.quick_look import QuickLook
from ares.core.schedule.slot import Slot, earliest, full
from ares.core.schedule.trial import Assignment, Trial
from ares.model.profile import BackfillStrategy, Profile

# A run time that compares with no number, not even with infinity.
_EVER = float("nan")

# Of these only the first jobs are promised a start.
_FEW_PROMISES = ("easy", "deadline")

Strategy = BackfillStrategy | Literal["strict"]
Candidate = tuple[str, JobClass]


def strategy_of(profile: Profile) -> Strategy:
    """Without the action no job may pass another."""
    return profile.backfill.strategy if "backfill" in profile.actions else "strict"


def backfill(trial: Trial) -> None:
    if trial.behind is not None:
        behind, rest = trial.behind
        behind.run(rest)


class BackfillPass:
    """Goes through the jobs that allocate left, from the first that waits for room."""

    def __init__(self, trial: Trial) -> None:
        self._round = trial
        self._cluster = trial.cluster
        self._waiting = trial.waiting
        self._policy = trial.profile.backfill
        self._strategy = strategy_of(trial.profile)
        self._kept = trial.cluster.promises
        # Promises hold as long as nothing got better.
        self._slack = trial.cluster.future.slack != trial.cluster.promised_at
        # Jobs whose promise cannot be kept: a running job outlived its estimate, or a node is gone.
        self._lost: set[str] = set()
        self._counted = 0
        # By class: the shortest run time that found no place; jobs that run as long need not try.
        self._refused: dict[int, float] = {}
        # By class: whether its jobs wait for room that other jobs could give back.
        self._ever: dict[int, bool] = {}
        # Classes of which no job can start any more.
        self.closed: set[int] = set()
        self._look = QuickLook(trial)
        if self._strategy == "conservative" or trial.resumes:
            self._claim_kept()

    @property
    def from_the_start(self) -> bool:
        """Whether there are claims already, so that even the first in line must respect them; or whether jobs that the
        last cycle did not come to go before it."""
        resumes = self._strategy == "greedy" and self._round.resumes
        return self._strategy == "conservative" or bool(self._round.claims) or resumes

    def waits(self, job: str, job_class: JobClass) -> bool:
        """The job found no place. Whether jobs behind may not simply pass it."""
        if self._strategy == "greedy" or self._has_its_own(job_class):
            return False
        if self._strategy == "strict":
            return self._could_ever(job_class)
        self._begin_placed()
        return self._promise(job, job_class)

    # ---- jobs behind

    def run(self, rest: Iterable[Candidate]) -> None:
        trial = self._round
        self._begin_placed()
        self._close_hopeless()
        for job, job_class in self._resumed(self._in_order(rest)):
            if len(trial.placed) >= trial.profile.max_placements_per_cycle:
                trial.more = True
                break
            if not trial.reach(job):
                break
            if self._hopeless(job, job_class):
                continue
            if job in trial.promises:
                self._leave(job, job_class)
            elif self._strategy == "conservative" and self._stands(job):
                self._keep(job)
                self._leave(job, job_class)
            elif not self._start(job, job_class):
                self._found_none(job, job_class)
                if self._strategy == "strict" and not self._has_its_own(job_class) and self._could_ever(job_class):
                    break
        # Jobs that this cycle did not come to keep their promises.
        keeps = self._strategy == "conservative" or (trial.budget is not None and trial.budget.spent)
        for job, kept in self._kept.items():
            if keeps and job in trial.claims.of:
                trial.promises.setdefault(job, kept)
        trial.claims.lift()

    def _found_none(self, job: str, job_class: JobClass) -> None:
        if not self._could_ever(job_class) and job not in self._kept:
            self.closed.add(job_class.id)
        elif self._entitled(job_class):
            self._promise(job, job_class)
        # Where there is no room even for the shortest job of the class, the others need not be looked at.
        elif job_class.shortest_s >= self._refused.get(job_class.id, _EVER) or not (
            self._round.paced or self._look.may_fit(job_class, job_class.shortest_s)
        ):
            self.closed.add(job_class.id)
        self._leave(job, job_class)

    def _resumed(self, rest: Iterator[Candidate]) -> Iterator[Candidate]:
        """Jobs that the last cycle did not come to, then the others. No job loses by it: promised room is held, and
        jobs that are promised a start by rank still come first."""
        trial, budget = self._round, self._round.budget
        if budget is None or not budget.before:
            yield from rest
            return
        by_rank = self._strategy in ("easy", "aggressive", "deadline")
        later: list[Candidate] = []
        for candidate in rest:
            first = by_rank and len(trial.promises) < self._policy.reservations
            if first or candidate[0] not in budget.before:
                yield candidate
            else:
                later.append(candidate)
        budget.all_had_one()
        yield from later

    def _in_order(self, rest: Iterable[Candidate]) -> Iterator[Candidate]:
        rest = self._within_depth(rest) if self._policy.depth else rest
        by_rank = self._policy.order == "rank" or self._strategy in ("conservative", "strict", "greedy")
        return iter(rest) if by_rank else self._shortest_first(iter(rest))

    def _within_depth(self, rest: Iterable[Candidate]) -> Iterator[Candidate]:
        """So many jobs that wait for room. Jobs that could never run, are over a limit or have room of their own are
        told so and do not count: however many there are, the jobs behind them are looked at."""
        seen = 0
        for job, job_class in rest:
            if self._could_ever(job_class) and not self._has_its_own(job_class):
                if seen >= self._policy.depth:
                    return
                seen += 1
            yield job, job_class

    def _shortest_first(self, rest: Iterator[Candidate]) -> Iterator[Candidate]:
        while len(self._round.promises) < self._policy.reservations:
            # The first waiting jobs are promised a start in the order of ranks.
            candidate = next(rest, None)
            if candidate is None:
                return
            yield candidate
        yield from sorted(rest, key=lambda candidate: self._waiting.likely_of(candidate[0]))

    @property
    def _looks_quickly(self) -> bool:
        """Whether no promise is to be made, and no caller wants to know why jobs behind do not start."""
        if self._round.tells or self._strategy not in ("easy", "aggressive"):
            return False
        return len(self._round.promises) >= self._policy.reservations

    def _close_hopeless(self) -> None:
        """Classes that no row has room for need no rank."""
        if self._looks_quickly:
            too_large = self._look.too_large
            self.closed.update(each.id for each in self._waiting.active.values() if too_large(each))

    def _hopeless(self, job: str, job_class: JobClass) -> bool:
        """A quick look at most jobs behind: there is no room."""
        if not self._looks_quickly or self._waiting.gap_of(job) is not None:
            return False
        if self._look.too_large(job_class):
            self.closed.add(job_class.id)
            return True
        if not self._no_room(job_class, self._round.runs_of(job)):
            return False
        if not self._round.paced and self._no_room(job_class, self._look.shortest(job_class)):
            self.closed.add(job_class.id)
        return True

    def _no_room(self, job_class: JobClass, runs_s: float) -> bool:
        return runs_s >= self._refused.get(job_class.id, _EVER) or not self._look.may_fit(job_class, runs_s)

    def _start(self, job: str, job_class: JobClass) -> bool:
        """Gives the job a place now, if it may have one: to its end, or for as long as no claim needs it."""
        runs_s, gap_s = self._round.runs_of(job), self._waiting.gap_of(job)
        return self._start_to_end(job, job_class, runs_s) or (
            gap_s is not None and gap_s < runs_s and self._start_in_gap(job, job_class, gap_s)
        )

    def _start_in_gap(self, job: str, job_class: JobClass, gap_s: float) -> bool:
        found = self._round.find(job_class.key, gap_s) if self._look.may_fit(job_class, gap_s) else None
        if found is None:
            return False
        leaves_at = min(self._round.claims.next_on(taken.row) for taken in found.taken)
        self._place(job, job_class, found._replace(leaves_at=leaves_at), leaves_at - self._round.now)
        return True

    def _start_to_end(self, job: str, job_class: JobClass, runs_s: float) -> bool:
        if job in self._round.claims.of:
            # What is held for the job itself is not in its way.
            self._round.claims.drop(job)
            self._look.again()
        elif runs_s >= self._refused.get(job_class.id, _EVER):
            return False
        if self._full(job_class, runs_s) or not self._look.may_fit(job_class, runs_s):
            self._refused[job_class.id] = runs_s
            return False
        found = self._round.find(self._round.key_of(job, job_class.key), runs_s)
        if found is None:
            self._refused[job_class.id] = runs_s
            return False
        self._place(job, job_class, found, runs_s)
        return True

    def _place(self, job: str, job_class: JobClass, found: Assignment, runs_s: float) -> None:
        self._round.note_placed(job, job_class.key, job_class.id, found)
        own = self._cluster.booked(job_class.key.asks[0].reservation, self._round.now)
        ends_at = self._round.now + runs_s
        for taken in found.taken:
            if own is not None:
                self._round.claims.use(own.name, taken)
                ends_at = min(ends_at, own.until)
            self._round.claims.begin(taken, ends_at)
        if self._strategy in _FEW_PROMISES and self._round.promises:
            choose_again(self._round)
        self._counted += 1
        self._look.again()

    def may_fit(self, job_class: JobClass, runs_s: float) -> bool:
        """A quick look at whether there may be room."""
        return self._look.may_fit(job_class, runs_s)

    def _full(self, job_class: JobClass, runs_s: float) -> bool:
        """Whether there is no room for so long, as far as that can be told without hiding claims."""
        if self._has_its_own(job_class):
            return False
        cluster, claims, now = self._cluster, self._round.claims, self._round.now
        return all(full(cluster, claims, ask, now, runs_s) for ask in self._ungated(job_class))

    def _ungated(self, job_class: JobClass) -> Iterator[Ask]:
        """The job's alternatives that neither licences nor limits stand in the way of."""
        gated = bool(job_class.key.licences or self._round.profile.shares)
        return (ask for ask in job_class.key.asks if not gated or self._round.gate(job_class.key, ask) is None)

    # ---- promises

    def _has_its_own(self, job_class: JobClass) -> bool:
        """Room is booked for the job: no other room is held for it."""
        return self._cluster.booked(job_class.key.asks[0].reservation, self._round.now) is not None

    def _entitled(self, job_class: JobClass) -> bool:
        if self._has_its_own(job_class) or self._strategy in ("greedy", "strict"):
            return False
        if self._strategy == "conservative" or (self._strategy == "deadline" and job_class.key.dated):
            return True
        return len(self._round.promises) < self._policy.reservations

    def _promise(self, job: str, job_class: JobClass) -> bool:
        """Promises the job its earliest start; False when that start is not known."""
        if job in self._cluster.reserved:
            # Room is kept for the job already: its victims are on their way out.
            return False
        trial, runs_s = self._round, self._waiting.runs_of(job)
        kept = self._kept.get(job)
        if kept is not None and self._still(kept) and (claim := claim_of(self._cluster, kept)) is not None:
            trial.claims.add(claim)
            trial.promises[job] = kept
            self._look.again()
            return True
        found = self._opening(job_class, runs_s)
        if self._strategy == "conservative" and kept is not None and kept.start > trial.now:
            if job not in self._lost and (found is None or kept.start <= found.start):
                self._keep(job)
                return True
            self._slack = True
        if found is None:
            return False
        # The latest cycle may have made no promise to the job: its node was away.
        told = self._cluster.told.get(job)
        held_from = self._held_from(found.start, told)
        if told is not None and found.start > held_from:
            found = in_its_room(trial, told, runs_s) or found
        start = found.start
        trial.claims.add(Claim(job, held_from, max(start, held_from) + runs_s, found.taken))
        trial.promises[job] = Promise(
            job=job,
            start=start,
            until=None if runs_s == inf else start + runs_s,
            placements=trial.placements(found.taken),
            first_start=start if told is None else told.first_start,
            made_at=trial.now,
            held_from=None if held_from == start else held_from,
        )
        self._look.again()
        return True

    def _held_from(self, start: float, told: Promise | None) -> float:
        """Other jobs have to be gone by the earliest start the job was ever promised: though a holder may stay longer
        than estimated, no new job comes into that room. Where delay is allowed, by so much after the first promise."""
        if self._strategy == "aggressive":
            return (start if told is None else told.first_start) + self._policy.delay_max_s
        if told is None or not self._policy.drain or self._strategy == "conservative":
            # Where every job is promised a start, room kept longer for one would be in the way of jobs ahead of it.
            return start
        if self._policy.hold == "likely" and not self._cluster.guard.counts(told) and self._cluster.guessed(told):
            # Half of what is told by likely run times slips.
            return start
        return min(start, told.start if told.held_from is None else told.held_from)

    def _still(self, kept: Promise) -> bool:
        """Whether nothing that matters has changed since the promise was made."""
        trial, cluster = self._round, self._cluster
        if trial.placed or trial.claims or kept.start <= trial.now or self._strategy == "aggressive":
            return False
        return cluster.promised_when == cluster.future.changes

    def _opening(self, job_class: JobClass, runs_s: float) -> Slot | None:
        """The alternative of the job that has room first."""
        trial = self._round
        best: Slot | None = None
        if not (self._cluster.future.ending or trial.claims.ending):
            # The job has no place now, and no running job has a known end.
            return None
        for ask in self._ungated(job_class):
            found = earliest(self._cluster, trial.txn, trial.claims, ask, trial.now, runs_s)
            if found is not None and (best is None or found.start < best.start):
                best = found
        return best

    def _could_ever(self, job_class: JobClass) -> bool:
        """Whether the job waits for room, and not for something that may never come."""
        found = self._ever.get(job_class.id)
        if found is None:
            asks = (ask for ask in job_class.key.asks if self._round.gate(job_class.key, ask) is None)
            found = self._ever[job_class.id] = any(self._cluster.evaluations.ever(ask) for ask in asks)
        return found

    # ---- conservative: a promise stays

    def _claim_kept(self) -> None:
        """A promise that cannot be kept any more blocks no other job: other jobs may now start sooner than promised."""
        claims = self._round.claims
        setback = self._cluster.future.setbacks != self._cluster.promised_before
        if setback:
            claims.timeline(expected=len(self._kept))
        for job, kept in self._kept.items():
            claim = claim_of(self._cluster, kept)
            if claim is None or (setback and not claims.has_room(claim._replace(start=kept.start))):
                self._lost.add(job)
            else:
                claims.add(claim)
        self._slack = self._slack or bool(self._lost)

    def _stands(self, job: str) -> bool:
        """Whether the job can only start as promised: nothing got better since."""
        kept = self._kept.get(job)
        return kept is not None and not self._slack and kept.start > self._round.now and job in self._round.claims.of

    def _keep(self, job: str) -> None:
        kept, claims = self._kept[job], self._round.claims
        if job not in claims.of and (claim := claim_of(self._cluster, kept)) is not None:
            claims.add(claim)
            self._look.again()
        self._round.promises[job] = kept

    # ---- jobs placed, and jobs left out

    def _begin_placed(self) -> None:
        """What was placed in this cycle is given back at its end, too."""
        trial = self._round
        for placed in trial.placed[self._counted :]:
            ends_at = trial.now + self._waiting.runs_of(placed.job)
            for place in placed.placements:
                trial.claims.begin(taken_by(self._cluster.table, self._cluster.rows[place.node], place), ends_at)
        self._counted = len(trial.placed)

    def _leave(self, job: str, job_class: JobClass) -> None:
        """A job that would fit is held back by claims; any other lacks room."""
        trial = self._round
        if not trial.tells or job_class.id in trial.left or job_class.id in trial.held_back:
            return
        left = LeftOut(class_id=job_class.id, jobs=len(job_class.line), first_job=job)
        lacks = job in trial.promises or not self._look.may_fit(job_class, 0.0)
        (trial.left if lacks else trial.held_back)[job_class.id] = left
