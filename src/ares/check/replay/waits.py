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
from ares.check.replay.trace import Trace
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

    def __init__(self, trace: Trace, rules: PolicyRules, say: Callable[[float, int, str], None]) -> None:
        self._jobs = jobs = trace.jobs
        self._rules = rules
        self._say = say
        self._dated = {at for at, job in enumerate(jobs) if job.spec.deadline_at or job.spec.start_by_at}
        self._levels = [PRIORITIES.index(job.spec.priority) for job in jobs]
        self._widths = _widths(trace)
        # Whether all nodes were up all the time: a job is a larger part of fewer nodes.
        self._whole = True
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
        promised = {promise.job: promise for promise in decision.promises}
        known = (
            all(attempt.ends < inf for attempt in running.values()) if promised.keys() - self._turns.keys() else True
        )
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
        if len(set(self._levels)) > 1 or any(job.spec.gang and job.spec.gang.min_ranks for job in self._jobs):
            return True
        return self._rules.rotates and any(job.spec.preemption.checkpoint_signal for job in self._jobs)

    # ---- the first promise of each job, without excuses

    def _first_words(self, decision: CycleDecisions) -> None:
        for promise in decision.promises:
            self._told.setdefault(promise.job, promise.start)
        for start in decision.started:
            told = self._told.pop(start.job, None)
            if told is not None:
                self.counts["told"] += 1
                self.counts["kept"] += decision.time <= told + _KEPT_WITHIN_S

    # ---- promised starts, and when their room is closed to later jobs

    def _end(self, decision: CycleDecisions) -> None:
        for start in decision.started:
            turn = self._turns.pop(start.job, None)
            if turn is not None:
                self.counts["bounded"] += 1
                self.counts["slipped"] += decision.time > turn.by + _ROUNDING_S
        if decision.down:
            self._whole = False
            # A node of the room is down, so the job will get another room.
            gone = set(decision.down)
            self._turns = {job: turn for job, turn in self._turns.items() if gone.isdisjoint(_nodes(turn.placements))}

    def _begin(self, now: float, promised: Mapping[int, Promised]) -> None:
        slips_s = self._rules.slips_s or 0.0
        if promised:
            # Jobs that may come first did: the next promise of this job is a new one.
            self._turns = {job: turn for job, turn in self._turns.items() if job in promised}
        for job, promise in promised.items():
            if self._jobs[job].runs_s or beyond(self._jobs[job].spec):
                # The job may wait for other reasons than room.
                continue
            turn = self._turns.get(job)
            if turn is None:
                self._turns[job] = _Turn(now, promise.start + slips_s, promise.placements)
            elif promise.start <= turn.by + _ROUNDING_S:
                # Where a promise may slip, it counts from the first one.
                turn.by, turn.placements = turn.by if slips_s else min(turn.by, promise.start), promise.placements

    def _alone(
        self, job: int, turn: _Turn, rooms: Mapping[str, NodeLeft], running: Mapping[int, RunningAttempt]
    ) -> bool:
        """Whether the job would have room without the jobs that entered too late."""
        nodes = _nodes(turn.placements)
        left = {name: rooms[name].copy() for name in nodes if name in rooms}
        # Jobs that started with the same plan as the promise were placed beside its room.
        since = (entry for entry in running.items() if entry[1].since >= turn.by and entry[1].since > turn.made)
        new = (attempt for who, attempt in since if not self._before(who, job))
        for place in (place for attempt in new for place in attempt.placements if place.node in left):
            left[place.node].add(place, +1)
        for place in turn.placements:
            if place.node in left:
                left[place.node].add(place, -1)
        sure = self._jobs[job].spec.qos == "guaranteed"
        return len(left) == len(nodes) and not any(list(room.overused(guaranteed=sure)) for room in left.values())

    # ---- the order of jobs

    def _before(self, other: int, job: int) -> bool:
        """Whether job `other` may come before a job with a promised start."""
        ahead = self._rules.in_line and other < job
        return ahead or self._levels[other] < self._levels[job] or other in self._dated

    def _behind(self, job: int, promised: Iterable[int]) -> bool:
        return any(other != job and self._before(other, job) for other in promised)

    def _judge_turns(self, decision: CycleDecisions, promised: Mapping[int, Promised], waiting: Iterable[int]) -> None:
        """A job with a promised start keeps its turn, and no job that was submitted much later comes first."""
        others = [job for job in promised if job not in self._turns]
        if not others:
            return
        turn_s = self._rules.turn_s
        for job in waiting:
            if job in promised or job in self._over or self._jobs[job].runs_s or beyond(self._jobs[job].spec):
                continue
            for other in others:
                later_s = self._jobs[other].submit - self._jobs[job].submit
                if job in self._turns and not self._before(other, job):
                    self._lost(decision.time, job, f"was promised a start, and lost its turn to {self._id(other)}")
                elif turn_s is not None and later_s > self._allowed(turn_s, other, job, decision.time) + _ROUNDING_S:
                    self._lost(decision.time, job, f"waits, and {self._id(other)} comes first, {later_s:g} s younger")

    def _allowed(self, turn_s: float, other: int, job: int, now: float) -> float:
        """How much later job `other` may be submitted and still come first, with its priority, deadline and width."""
        rules = self._rules
        levels = max(0, self._levels[job] - self._levels[other])
        wider = self._width(other, now, at_most=not self._whole) - self._width(job, now)
        dated_s = rules.deadline_s if other in self._dated else 0.0
        return turn_s + levels * rules.level_s + dated_s + wider * rules.width_s

    def _width(self, job: int, now: float, *, at_most: bool = False) -> float:
        """What the width of a job counts by now: 1 for half of the cluster, once it has waited for long."""
        waited = min(1.0, max(0.0, now - self._jobs[job].submit) / self._rules.ageing_s)
        return waited * (1.0 if at_most else self._widths[job])

    def _lost(self, at: float, job: int, words: str) -> None:
        self._over.add(job)
        self._say(at, job, words)

    def _id(self, job: int) -> str:
        return f"job {self._jobs[job].id}"


def _widths(trace: Trace) -> list[float]:
    """Of each job: the part of half the cluster, of all nodes, that it asks for, of the resource it asks most of. A job
    of one GPU or one CPU is not wide."""
    cpu, memory = (
        sum(sizes) for sizes in zip(*((node.cpu_milli, node.memory_mib) for node in trace.nodes), strict=True)
    )
    gpus = 1000 * sum(len(node.gpus) for node in trace.nodes)
    found = list[float]()
    for job in trace.jobs:
        wants, ranks = job.spec.resources, 1 if job.spec.gang is None else job.spec.gang.ranks
        asked = (wants.cpu_milli / cpu, wants.memory_mib / memory, wants.gpus * wants.gpu_milli / gpus if gpus else 0.0)
        single = (wants.gpus * wants.gpu_milli or wants.cpu_milli) * ranks <= 1000
        found.append(0.0 if single else min(1.0, 2.0 * ranks * max(asked)))
    return found


def _nodes(placements: tuple[Placement, ...]) -> set[str]:
    return {place.node for place in placements}


def _at(at: float) -> str:
    return f"{round(at, 3):.15g} s"
