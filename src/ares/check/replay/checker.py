"""Checks a log of decisions while it is written, and reports each violation."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from ares.check.replay.ahead import End, earliest, entered, overlaps
from ares.check.replay.decisions import AttemptEnd, AttemptStart, CycleDecisions, Promised
from ares.check.replay.node import AskedRoom, beyond, empty, wishes, wrong_places
from ares.check.replay.rules import ReplayVerdict, rules_of
from ares.check.replay.trace import Trace
from ares.check.replay.waits import Waits
from ares.model.profile import Pool, Profile
from ares.model.state import Placement

# Times are sums of parts: they differ by rounding.
_ROUNDING_S = 1e-3
_SAID_MAX = 100


@dataclass(slots=True)
class _Running:
    """A running attempt, with its latest estimated end."""

    since: float
    ends: float
    placements: tuple[Placement, ...]


class Checker:
    """A `Log`: give it to a replay, then ask for the verdict."""

    def __init__(self, trace: Trace, name: str, profile: Profile, *, committed: bool = False) -> None:
        self._jobs = trace.jobs
        self._name = name
        self._rules = rules_of(profile, committed=committed)
        pools = profile.pools
        self._rooms = {node.name: empty(node, pools.get(node.pool, Pool())) for node in trace.nodes}
        self._infos = {node.name: node for node in trace.nodes}
        self._down: set[str] = set()
        self._now = 0.0
        # Whether attempts may be preempted, so that they end before their time.
        self._taken_away = bool({"preempt", "reclaim", "rotate", "shrink"}.intersection(profile.actions))
        self._wishes: dict[int, tuple[AskedRoom, ...]] = {}
        # Whether a job fits on the nodes that are up when no other job runs.
        self._possible: dict[int, bool] = {}
        self._came: set[int] = set()
        self._waiting: set[int] = set()
        self._running: dict[int, _Running] = {}
        self._ran: set[int] = set()
        # The latest promise of each job, and the first one since the last unforeseen event.
        self._promised: dict[int, Promised] = {}
        self._first: dict[int, float] = {}
        self._counts = dict.fromkeys(
            ("decisions", "starts", "ends", "heads", "promises", "plans", "drains", "excused"), 0
        )
        self._waits = Waits(trace, self._rules, self._say)
        # The earliest start that each job was promised while it was the head of the queue.
        self._soonest: dict[int, float] = {}
        self._said: list[str] = []
        self._more = 0

    def __call__(self, decision: CycleDecisions) -> None:
        self._counts["decisions"] += 1
        now = decision.time
        self._now = now
        self._fail(decision)
        struck = set(decision.down)
        for end in decision.ended:
            struck.update(self._end(end, decision.down))
        self._come(decision)
        struck.update(self._overdue(now))
        self._resize(decision.resized, -1)
        self._begin(decision)
        self._resize(decision.resized, +1)
        for job, ends in decision.corrected:
            if job in self._running:
                self._running[job].ends = ends
                struck.update(place.node for place in self._running[job].placements if self._rules.guesses)
        self._judge_head(decision)
        self._judge_plan(decision)
        self._judge_promises(decision, struck)
        self._judge_drain(decision)
        possible = (job for job in self._waiting if self._fits_empty(job))
        self._waits.judge(decision, self._rooms, self._running, possible)

    def verdict(self) -> ReplayVerdict:
        """The verdict after the last decision. Every job must have run or been refused."""
        said, more = self._said[:], self._more
        self._judge_rest()
        found = ReplayVerdict(
            policy=self._name,
            strategy=self._rules.strategy,
            not_judged=self._rules.not_judged,
            violations=tuple(self._said),
            more=self._more,
            **self._counts,
            **self._waits.counts,
        )
        self._said, self._more = said, more
        return found

    # ---- events

    def _come(self, decision: CycleDecisions) -> None:
        for job in decision.submitted:
            if job in self._came:
                self._say(decision.time, job, "was submitted twice")
            if self._jobs[job].submit > decision.time + _ROUNDING_S:
                self._say(decision.time, job, f"came before its submission at {_at(self._jobs[job].submit)}")
            self._came.add(job)
            self._waiting.add(job)
        for job in decision.again:
            self._waiting.add(job)

    def _fail(self, decision: CycleDecisions) -> None:
        self._down.update(decision.down)
        self._down.difference_update(decision.up)
        if decision.down or decision.up:
            self._possible.clear()

    def _end(self, end: AttemptEnd, down: tuple[str, ...]) -> set[str]:
        """Records the end. Returns the nodes that the attempt held longer than estimated."""
        self._counts["ends"] += 1
        running = self._running.pop(end.job, None)
        if running is None:
            self._say(end.at, end.job, "ended without having run")
            return set()
        self._add(running.placements, +1)
        late = {place.node for place in running.placements} if end.at > running.ends else set[str]()
        ran, whole = end.at - running.since, self._whole(end.job, running.placements)
        gang = self._jobs[end.job].spec.gang
        if gang is not None and gang.min_ranks is not None:
            return late
        # An attempt that goes on from saved work first takes its time to do so.
        if ran > whole + self._jobs[end.job].restart_s + _ROUNDING_S:
            self._say(end.at, end.job, f"ran for {ran:g} s; it takes {whole:g} s")
        elif ran < whole - _ROUNDING_S and not (
            self._taken_away or any(place.node in down for place in running.placements)
        ):
            self._say(end.at, end.job, f"ended after {ran:g} s; it takes {whole:g} s, and no node failed")
        return late

    def _whole(self, job: int, placements: tuple[Placement, ...]) -> float:
        """How long the attempt runs without a failure or preemption."""
        traced = self._jobs[job]
        models = {self._model(place) for place in placements if place.gpus}
        runs = (
            max((traced.runs_s.get(model, traced.run_s) for model in models), default=traced.run_s)
            if traced.runs_s
            else traced.run_s
        )
        return runs if traced.spec.time_limit_s is None else min(runs, traced.spec.time_limit_s)

    def _model(self, place: Placement) -> str:
        cards = self._infos[place.node].gpus if place.node in self._infos else ()
        return next((gpu.model for gpu in cards if gpu.index == place.gpus[0]), "")

    def _resize(self, resized: Iterable[AttemptStart], sign: int) -> None:
        """Ranks that leave are released before any job starts; ranks that join are allocated after that."""
        last = {change.job: change for change in resized}
        for job, change in last.items():
            running = self._running.get(job)
            if running is None:
                continue
            if sign < 0:
                kept = {place.rank for place in change.placements}
                left = tuple(place for place in running.placements if place.rank in kept)
                self._add((place for place in running.placements if place.rank not in kept), +1)
                running.placements = left
            else:
                had = {place.rank for place in running.placements}
                more = tuple(place for place in change.placements if place.rank not in had)
                self._take(job, more)
                running.placements = (*running.placements, *more)
                running.ends = inf if change.estimated_end is None else change.estimated_end

    def _begin(self, decision: CycleDecisions) -> None:
        now = decision.time
        for start in decision.started:
            self._counts["starts"] += 1
            job, places = start.job, start.placements
            if job in self._running:
                self._say(now, job, "was started again while it runs")
                self._add(self._running[job].placements, +1)
            elif job not in self._came:
                self._say(now, job, "was started before its submission")
            elif job not in self._waiting:
                self._say(now, job, "was started again after it had ended")
            for words in wrong_places(self._infos, self._down, self._wished(job), places):
                self._say(now, job, words)
            self._running[job] = _Running(now, inf if start.estimated_end is None else start.estimated_end, places)
            self._waiting.discard(job)
            self._ran.add(job)
            self._take(job, places)

    def _take(self, job: int, places: Iterable[Placement]) -> None:
        places = [place for place in places if place.node in self._rooms]
        self._add(places, -1)
        guaranteed = self._jobs[job].spec.qos == "guaranteed"
        for name in sorted({place.node for place in places}):
            for words in self._rooms[name].overused(guaranteed=guaranteed):
                self._say(self._now, job, f"was given what {name} does not have: {words} are in use")

    def _add(self, places: Iterable[Placement], sign: int) -> None:
        for place in places:
            if place.node in self._rooms:
                self._rooms[place.node].add(place, sign)

    # ---- the head of the queue

    def _judge_head(self, decision: CycleDecisions) -> None:
        """No later job may delay the head of the queue, by the running jobs and their estimated ends."""
        strategy = self._rules.strategy
        if not self._rules.in_line or strategy == "conservative" or not self._waiting or decision.more:
            return
        head = self._first_in_line()
        if head is None:
            return
        if beyond(self._jobs[head].spec) or self._unsure(decision.time):
            self._counts["excused"] += 1
            return
        self._counts["heads"] += 1
        now, started = decision.time, {start.job for start in decision.started}
        passed = {job for job in started if job > head}
        with_them = self._earliest(head, set(), now)
        without = self._earliest(head, passed, now) if passed else with_them
        said = next((promise.start for promise in decision.promises if promise.job == head), inf)
        if without <= now:
            self._say(now, head, "waits, though there is room for it and nobody is ahead of it")
        elif self._rules.drains and len(self._rooms) > 1 and self._soonest.get(head, inf) < said - _ROUNDING_S:
            # The head waits for the room it was promised, which is kept for it. `Waits` checks that.
            return
        elif strategy in ("easy", "deadline") and with_them > without + _ROUNDING_S:
            names = ", ".join(self._id(job) for job in sorted(passed))
            self._say(
                now, head, f"could start at {_at(without)}; because {names} passed it, not before {_at(with_them)}"
            )
        elif strategy == "strict" and passed:
            names = ", ".join(self._id(job) for job in sorted(passed))
            self._say(now, head, f"waits first in line, and {names} passed it")
        elif strategy in ("easy", "deadline") and abs(said - without) > _ROUNDING_S and said != without:
            self._say(now, head, f"could start at {_at(without)}; it was promised {_at(said)}")

    def _first_in_line(self) -> int | None:
        """The head of the queue, among jobs that fit on the empty cluster. Other jobs are in no job's way."""
        first = min(self._waiting)
        if self._fits_empty(first):
            return first
        return next((job for job in sorted(self._waiting) if self._fits_empty(job)), None)

    def _unsure(self, now: float) -> bool:
        """Whether a job has outlived its estimate, so that its end is unknown."""
        return any(attempt.ends <= now for attempt in self._running.values())

    def _overdue(self, now: float) -> set[str]:
        """The nodes of such jobs."""
        return {place.node for attempt in self._running.values() if attempt.ends <= now for place in attempt.placements}

    def _earliest(self, job: int, without: set[int], now: float) -> float:
        rooms = {name: room for name, room in self._rooms.items() if name not in self._down}
        for passed in without:
            for place in [place for place in self._running[passed].placements if place.node in rooms]:
                rooms[place.node] = rooms[place.node].copy()
                rooms[place.node].add(place, +1)
        ends: list[End] = [
            (attempt.ends, attempt.placements) for who, attempt in self._running.items() if who not in without
        ]
        return earliest(rooms, ends, self._wished(job), now)

    def _fits_empty(self, job: int) -> bool:
        if job not in self._possible:
            self._possible[job] = self._alone(job) < inf
        return self._possible[job]

    def _alone(self, job: int) -> float:
        # Without backfill all jobs wait for the head, even while it waits for a node to come back.
        down = set[str]() if self._rules.strategy == "strict" else self._down
        rooms = {name: room for name, room in self._rooms.items() if name not in down}
        ends: list[End] = [(0.0, attempt.placements) for attempt in self._running.values()]
        return earliest(rooms, ends, self._wished(job), 0.0)

    # ---- promises

    def _judge_plan(self, decision: CycleDecisions) -> None:
        """All promises can be kept together, if running jobs end when they are expected to."""
        if not decision.promises or self._rules.strategy == "aggressive":
            return
        overdue = self._overdue(decision.time)
        sure = tuple(promise for promise in decision.promises if not overdue or overdue.isdisjoint(_nodes(promise)))
        self._counts["excused"] += len(sure) < len(decision.promises)
        self._counts["plans"] += bool(sure)
        ends: Iterator[End] = ((attempt.ends, attempt.placements) for attempt in self._running.values())
        for job, words in overlaps(self._rooms, ends, sure, self._down):
            self._say(decision.time, job, words)

    def _judge_promises(self, decision: CycleDecisions, struck: set[str]) -> None:
        """No job starts later than promised. Without conservative backfill only the head of the queue has a promise,
        and only while it is the head. Only events on the nodes of the promise excuse a delay."""
        now, strategy = decision.time, self._rules.strategy
        # A job that waits again, or for a node that is back, may come before the former head.
        others = strategy != "conservative" and bool(decision.again or decision.up)
        before = self._promised.items() if others or struck else ()
        excused = {job for job, promise in before if others or not struck.isdisjoint(_nodes(promise))}
        promised = {promise.job: promise for promise in decision.promises}
        started = {start.job for start in decision.started}
        if decision.more and strategy != "conservative":
            # The cycle stopped at its limit: jobs that it did not reach get their promise in the next one.
            return
        kept = strategy == "conservative" or (self._rules.in_line and strategy in ("easy", "aggressive", "deadline"))
        for job, before in self._promised.items() if kept else ():
            at = inf if job in self._waiting else None
            at = now if job in started else promised[job].start if job in promised else at
            if at is None or (at == inf and (strategy != "conservative" or self._rules.partial)):
                continue
            self._counts["promises"] += 1
            allowed, base = (0.0, before.start)
            if strategy == "aggressive":
                allowed, base = self._rules.delay_max_s, self._first.get(job, before.start)
            if at > base + allowed + _ROUNDING_S:
                if job in excused:
                    self._counts["excused"] += 1
                else:
                    what = "started" if job in started else "is promised"
                    self._say(now, job, f"was promised {_at(base)}, and {what} {_at(at)}; nothing unforeseen happened")
        if strategy != "conservative":
            # Only the head: a job behind it may be delayed by it.
            head = self._first_in_line() if self._waiting else None
            promised = {job: promise for job, promise in promised.items() if job == head}
        self._promised = promised
        # An unforeseen event may delay the promise. Later events must not delay it further.
        first = {job: self._first.get(job, promise.start) for job, promise in promised.items()}
        self._first = {job: max(at, promised[job].start) if job in excused else at for job, at in first.items()}

    def _judge_drain(self, decision: CycleDecisions) -> None:
        """Once the promise of the head has slipped, no later job enters its room, unless that job ends by the earliest
        start that the head was promised as the head. No overrun and no failure excuses that."""
        for promise in decision.promises:
            self._soonest[promise.job] = min(self._soonest.get(promise.job, inf), promise.start)
        for start in decision.started:
            self._soonest.pop(start.job, None)
        if not self._rules.drains:
            return
        head = self._first_in_line() if decision.promises and self._waiting else None
        slipped = next((promise for promise in decision.promises if promise.job == head), None)
        if slipped is None or head is None:
            return
        # A job that waits again ahead of the head keeps its time. Jobs behind the head lose theirs.
        self._soonest = {job: at for job, at in self._soonest.items() if job <= head}
        now, by = decision.time, max(self._soonest[head], decision.time) + _ROUNDING_S
        if slipped.start > by:
            self._counts["drains"] += 1
            late = [new for new in decision.started if new.job > head and (new.estimated_end or inf) > by]
            gone = ((run.ends, run.placements) for run in self._running.values() if now < run.ends <= by)
            for new in entered(self._rooms, gone, slipped, late):
                self._say(now, new.job, f"entered room promised to {self._id(head)} for {_at(self._soonest[head])}")

    # ---- the end of the log

    def _judge_rest(self) -> None:
        end = inf
        for job in range(len(self._jobs)):
            if job not in self._came:
                self._say(end, job, "never came, though the trace has it")
            elif job in self._running:
                self._say(end, job, f"still runs, since {_at(self._running[job].since)}")
            elif job not in self._ran and not beyond(self._jobs[job].spec) and self._fits_empty(job):
                self._say(end, job, "never ran, though there would be room for it on the empty cluster")

    # ---- helpers

    def _wished(self, job: int) -> tuple[AskedRoom, ...]:
        found = self._wishes.get(job)
        if found is None:
            found = self._wishes[job] = wishes(self._jobs[job].spec)
        return found

    def _id(self, job: int) -> str:
        return f"job {self._jobs[job].id}"

    def _say(self, at: float, job: int, words: str) -> None:
        if len(self._said) < _SAID_MAX:
            when = "in the end" if at == inf else f"at {_at(at)}"
            self._said.append(f"{when}: {self._id(job)} {words}")
        else:
            self._more += 1


def _nodes(promise: Promised) -> set[str]:
    return {place.node for place in promise.placements}


def _at(at: float) -> str:
    return "no time" if at == inf else f"{round(at, 3):.15g} s"
