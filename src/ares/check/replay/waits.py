"""The longest that a job may wait: for the jobs ahead of it in the queue, then for the jobs in its room.

Once a job is promised a start it keeps its turn, and after the earliest time it was told no later job enters its room.
So it starts when the jobs that began before that time have ended. A job behind it waits for that, then for its own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Protocol

from ares.check.replay.decisions import CycleDecisions, Promised
from ares.check.replay.node import NodeLeft, beyond
from ares.check.replay.rules import PolicyRules
from ares.check.replay.trace import TraceJob
from ares.model.job import PRIORITIES
from ares.model.state import Placement

_ROUNDING_S = 1e-3
# A start within this counts as the time that was promised.
_KEPT_WITHIN_S = 60.0


class RunningAttempt(Protocol):
    """A running attempt, as far as `Waits` needs it."""

    since: float
    ends: float
    placements: tuple[Placement, ...]


@dataclass(slots=True)
class _Turn:
    """A promised start: when it was made, by when other jobs must leave the room, and the placements."""

    made: float
    by: float
    placements: tuple[Placement, ...]


class Waits:
    """Gets every decision after it was carried out. `say` reports a violation."""

    def __init__(self, jobs: tuple[TraceJob, ...], rules: PolicyRules, say: Callable[[float, int, str], None]) -> None:
        self._jobs = jobs
        self._rules = rules
        self._say = say
        self._dated = {at for at, one in enumerate(jobs) if one.spec.deadline_at or one.spec.start_by_at}
        self._levels = [PRIORITIES.index(one.spec.priority) for one in jobs]
        self._judges = rules.slips_s is not None and not (rules.evicts and self._may_evict())
        self._turns: dict[int, _Turn] = {}
        self._over: set[int] = set()
        self._told: dict[int, float] = {}
        self.counts = dict.fromkeys(("bounded", "slipped", "told", "kept"), 0)

    def judge(
        self,
        decision: CycleDecisions,
        rooms: Mapping[str, NodeLeft],
        running: Mapping[int, RunningAttempt],
        waiting: Iterable[int],
    ) -> None:
        """`waiting` are the jobs that wait for room only."""
        self._first_words(decision)
        if not self._judges:
            return
        self._end(decision)
        if decision.more:
            return
        promised = {one.job: one for one in decision.promises}
        known = all(one.ends < inf for one in running.values()) if promised.keys() - self._turns.keys() else True
        self._judge_turns(decision, promised, waiting if known else ())
        for job, turn in self._turns.items():
            late = decision.time > turn.by + _ROUNDING_S and job not in self._over
            if late and not self._behind(job, promised) and self._alone(job, turn, rooms, running):
                self._over.add(job)
                words = f"still waits, though all that were in its room before {_at(turn.by)} are gone"
                self._say(decision.time, job, words)
        self._begin(decision.time, promised)

    def _may_evict(self) -> bool:
        """Whether room may be kept for a job whose victims are still leaving. The log does not show that."""
        return len(set(self._levels)) > 1 or any(one.spec.gang and one.spec.gang.min_ranks for one in self._jobs)

    # ---- the first promise of each job, without excuses

    def _first_words(self, decision: CycleDecisions) -> None:
        for one in decision.promises:
            self._told.setdefault(one.job, one.start)
        for one in decision.started:
            told = self._told.pop(one.job, None)
            if told is not None:
                self.counts["told"] += 1
                self.counts["kept"] += decision.time <= told + _KEPT_WITHIN_S

    # ---- promised starts, and when their room is closed to later jobs

    def _end(self, decision: CycleDecisions) -> None:
        for one in decision.started:
            turn = self._turns.pop(one.job, None)
            if turn is not None:
                self.counts["bounded"] += 1
                self.counts["slipped"] += decision.time > turn.by + _ROUNDING_S
        if decision.down:
            # A node of the room is down, so the job will get another room.
            gone = set(decision.down)
            self._turns = {job: one for job, one in self._turns.items() if gone.isdisjoint(_nodes(one.placements))}

    def _begin(self, now: float, promised: Mapping[int, Promised]) -> None:
        slips_s = self._rules.slips_s or 0.0
        if promised:
            # Jobs that may come first did: the next promise of this job is a new one.
            self._turns = {job: one for job, one in self._turns.items() if job in promised}
        for job, one in promised.items():
            if self._jobs[job].runs_s or beyond(self._jobs[job].spec):
                # The job may wait for other reasons than room.
                continue
            turn = self._turns.get(job)
            if turn is None:
                self._turns[job] = _Turn(now, one.start + slips_s, one.placements)
            elif one.start <= turn.by + _ROUNDING_S:
                # Where a promise may slip, it counts from the first one.
                turn.by, turn.placements = turn.by if slips_s else min(turn.by, one.start), one.placements

    def _alone(
        self, job: int, turn: _Turn, rooms: Mapping[str, NodeLeft], running: Mapping[int, RunningAttempt]
    ) -> bool:
        """Whether the job would have room without the jobs that entered too late."""
        nodes = _nodes(turn.placements)
        left = {name: rooms[name].copy() for name in nodes if name in rooms}
        # Jobs that started with the same plan as the promise were placed beside its room.
        since = (one for one in running.items() if one[1].since >= turn.by and one[1].since > turn.made)
        new = (one for who, one in since if not self._before(who, job))
        for place in (place for one in new for place in one.placements if place.node in left):
            left[place.node].add(place, +1)
        for place in turn.placements:
            if place.node in left:
                left[place.node].add(place, -1)
        sure = self._jobs[job].spec.qos == "guaranteed"
        return len(left) == len(nodes) and not any(list(one.overused(guaranteed=sure)) for one in left.values())

    # ---- the order of jobs

    def _before(self, one: int, job: int) -> bool:
        """Whether job `one` may come before a job with a promised start."""
        ahead = self._rules.in_line and one < job
        return ahead or self._levels[one] < self._levels[job] or one in self._dated

    def _behind(self, job: int, promised: Iterable[int]) -> bool:
        return any(one != job and self._before(one, job) for one in promised)

    def _judge_turns(self, decision: CycleDecisions, promised: Mapping[int, Promised], waiting: Iterable[int]) -> None:
        """A job with a promised start keeps its turn, and no job that was submitted much later comes first."""
        others = [job for job in promised if job not in self._turns]
        if not others:
            return
        turn_s = self._rules.turn_s
        for job in waiting:
            if job in promised or job in self._over or self._jobs[job].runs_s or beyond(self._jobs[job].spec):
                continue
            for one in others:
                later_s = self._jobs[one].submit - self._jobs[job].submit
                if job in self._turns and not self._before(one, job):
                    self._lost(decision.time, job, f"was promised a start, and lost its turn to {self._id(one)}")
                elif turn_s is not None and later_s > self._allowed(turn_s, one, job) + _ROUNDING_S:
                    self._lost(decision.time, job, f"waits, and {self._id(one)} comes first, {later_s:g} s younger")

    def _allowed(self, turn_s: float, one: int, job: int) -> float:
        """How much later job `one` may be submitted and still come first, with its priority and deadline."""
        rules = self._rules
        levels = max(0, self._levels[job] - self._levels[one])
        return turn_s + levels * rules.level_s + (rules.deadline_s if one in self._dated else 0.0)

    def _lost(self, at: float, job: int, words: str) -> None:
        self._over.add(job)
        self._say(at, job, words)

    def _id(self, job: int) -> str:
        return f"job {self._jobs[job].id}"


def _nodes(placements: tuple[Placement, ...]) -> set[str]:
    return {place.node for place in placements}


def _at(at: float) -> str:
    return f"{round(at, 3):.15g} s"
