"""The jobs of a replay and the cluster they run on. Every change of a job is a step of the real lifecycle."""

import heapq
import random
from array import array
from collections.abc import Iterable

from msgspec.structs import replace

from ares.check.replay.decisions import AttemptEnd, AttemptStart
from ares.check.replay.trace import Trace, TraceJob
from ares.core.energy import rates_of
from ares.core.lifecycle.fences import revoked_fence
from ares.core.lifecycle.graph import begin, step
from ares.core.lifecycle.inputs import (
    Bind,
    Context,
    Exit,
    Input,
    LeaseLost,
    Nominate,
    Preempt,
    RanksResized,
    RankStarted,
    Release,
    RetryDue,
)
from ares.core.queue.waiting import JobClass
from ares.core.refusal import Refusal
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import DISRUPTIVE
from ares.core.schedule.follower import follow, forget, planned_s
from ares.core.schedule.plan import Eviction, Placed, Plan, Resized
from ares.core.schedule.quick_look import may_have_room
from ares.core.schedule.trial import Trial
from ares.model.job import JobSpec
from ares.model.profile import Profile
from ares.model.state import TERMINAL, ExitInfo, Job, JobState, Placement, Rate
from ares.sim.traces.books import ReplayBooks
from ares.sim.traces.looks import looks
from ares.sim.traces.machine import id_of, machine

# Kinds of events, in their order at one instant.
END, UP, DOWN, RETRY, SUBMIT, LOOK, LEAVE, DUE = range(8)
# Time, kind, turn among ends of one moment, the job or node, and the attempt or the duration.
Event = tuple[float, int, int, int, float]

# The service looks every second, so an overrun is noticed this long after the estimate.
_LOOK_S = 1.0
_WELL = ExitInfo(code=0)
# Times are sums: what is left may differ from what was done by their rounding.
_ROUNDING_S = 1e-3
_RATES_KEPT = 4096
_UNHELD = "the room kept for it cannot be had any more; it waits for any"


class ReplayWorld:
    """`now` is set by the engine. What happens by itself later is put into `events`."""

    def __init__(self, trace: Trace, profile: Profile, specs: list[JobSpec], seed: int) -> None:
        self.trace = trace
        self.now = 0.0
        self.events: list[Event] = []
        self.cluster = cluster = machine(trace, profile)
        self._empty = machine(trace, profile)
        # By class, whether its jobs could ever run here.
        self._possible: dict[int, bool] = {}
        self.specs = specs
        # Of jobs that are not over; the books have what counts of the others.
        self.states: dict[int, JobState] = {}
        self.books = ReplayBooks(trace, trace.nodes)
        self._chance = random.Random(seed)
        # What placements draw and cost, by what they are of where.
        self._rates: dict[tuple[object, ...], tuple[Rate, ...]] = {}
        # Jobs that run beyond their estimate: the next cycle makes a new one.
        self.overdue: set[int] = set()
        self._expected: dict[int, float | None] = {}
        self._records = {name: record for name in cluster.rows if (record := cluster.table.records[cluster.rows[name]])}
        self._names = tuple(node.name for node in trace.nodes)
        # Of jobs that run: how much is left of their run when all ranks work on it, since when, and how fast.
        self._left_s = array("d", (job.run_s for job in trace.jobs))
        self._since = array("d", bytes(8 * len(trace.jobs)))
        self._rate = array("d", [1.0]) * len(trace.jobs)
        self._resumed = bytearray(len(trace.jobs))
        # Time alone can make a job eligible for preemption, so a look is due then.
        self._disruptive = bool(DISRUPTIVE.intersection(profile.actions))
        self.down: dict[int, float] = {}
        # `_begun`: how many runs began; of ends at one moment the earlier start comes first.
        self.cut = self.refused = self.failures = self.over = self._begun = 0
        # Since the latest decision, for the log.
        self.ended: list[AttemptEnd] = []
        self.again: list[int] = []
        self.resized: list[AttemptStart] = []
        self.corrected: list[tuple[int, float]] = []

    # ---- submissions

    def submit(self, job: int) -> bool:
        """Whether the job got into the queue. A job that can never run here is refused, as by admission."""
        traced, spec = self.trace.jobs[job], self.specs[job]
        stepped = begin(
            id=id_of(job), tenant=traced.tenant, spec=spec, name=spec.name, submitted_by=traced.user or traced.tenant,
            context=Context(now=traced.submit, jitter=0.0),
        )  # fmt: skip
        state = stepped.state
        follow(self.cluster, None, state, spec, self.now)
        if self._could_ever(state.id):
            self.states[job] = state
            return True
        forget(self.cluster, state.id)
        self.refused += 1
        self.over += 1
        return False

    def _could_ever(self, job_id: str) -> bool:
        """Whether an empty cluster would take the job."""
        found = self._class_of(job_id)
        if found.id not in self._possible:
            self._possible[found.id] = self._has_room(self._empty, found)
        return self._possible[found.id]

    def fits(self, job: int) -> bool:
        """Whether there is room for it now."""
        found = self._class_of(id_of(job))
        return may_have_room(found.key.asks, self.cluster.most_free()) and self._has_room(self.cluster, found)

    def _has_room(self, cluster: Cluster, job_class: JobClass) -> bool:
        with Trial.what_if(cluster, self.now) as trial:
            return any(trial.place(ask) is not None for ask in job_class.key.asks)

    def _class_of(self, job_id: str) -> JobClass:
        found = self.cluster.waiting.class_of(job_id)
        assert found is not None, f"job {job_id} waits"
        return found

    # ---- decisions of a cycle

    def apply(self, plan: Plan) -> list[AttemptStart]:
        """As the scheduling service does, in the same order."""
        started = [self._start(placed) for placed in plan.placed]
        for job in plan.unheld:
            self._change(int(job), Nominate(hold=(), evicting=(), reason=_UNHELD))
        shrunk = {job for eviction in plan.evictions for job in eviction.shrunk}
        for resized in plan.resized:
            if resized.job not in shrunk:
                self._resize(resized)
        for eviction in plan.evictions:
            self._evict(eviction, [resized for resized in plan.resized if resized.job in eviction.shrunk])
        return started

    def _start(self, placed: Placed) -> AttemptStart:
        job, now = int(placed.job), self.now
        spec, before, context = self.specs[job], self.states[job], Context(now=self.now, jitter=0.0)
        places = placed.placements
        bind = Bind(
            placements=places,
            alternative=placed.alternative,
            rates=self._rates_of(places),
            planned_s=planned_s(self.cluster, before, spec, places),
            leaves_at=placed.leaves_at,
        )
        state = self._stepped(spec, before, bind, context)
        for place in places:
            state = self._stepped(spec, state, RankStarted(fence=state.fence, rank=place.rank, at=now), context)
        self.states[job] = state
        follow(self.cluster, before, state, spec, now)
        self.books.start(job, now, places)
        self._run(job, state)
        ends_at = self.cluster.ends_at(placed.job)
        if placed.leaves_at is not None:
            self._push(placed.leaves_at, LEAVE, job, _attempt(state))
        if self._disruptive:
            for at in looks(self.cluster, state, now):
                self._push(at, LOOK, job, _attempt(state))
        return AttemptStart(job=job, estimated_end=ends_at, placements=places)

    def _run(self, job: int, state: JobState) -> None:
        """It runs from now on, with the ranks it has: when it will end by itself, and when it was thought to."""
        traced, now, spec = self.trace.jobs[job], self.now, self.specs[job]
        if not self._resumed[job]:
            self._left_s[job] = self.true_run(traced, state.placements)
            self.books.saved_s[job] = 0.0
        gang = spec.gang
        self._since[job], self._begun = now, self._begun + 1
        self._rate[job] = rate = 1.0 if gang is None or gang.min_ranks is None else len(state.placements) / gang.ranks
        ends = now + self._left_s[job] / rate
        limit = None if spec.time_limit_s is None else (state.started_at or now) + spec.time_limit_s
        self._push(ends if limit is None else min(ends, limit), END, job, _attempt(state), self._begun)
        self._expect(job, ends)

    def _expect(self, job: int, ends: float) -> None:
        """Adds a look for the case that the job outlives its estimate."""
        ends_at = self._expected[job] = self.cluster.ends_at(id_of(job))
        if ends_at is not None and ends_at + _LOOK_S < ends:
            self._push(max(ends_at + _LOOK_S, self.now), LOOK, job, _attempt(self.states[job]))

    def look(self, job: int, attempt: float) -> bool:
        """Whether the attempt still runs. If it is beyond its estimate, the next cycle makes a new one."""
        if not self.runs(job, attempt):
            return False
        # A cycle in between may have thought of another end already.
        if self.expected_by(job, self.now) or self._expected[job] != self.cluster.ends_at(id_of(job)):
            self.overdue.add(job)
        return True

    def planned(self) -> None:
        """A cycle was run: every overdue job has a new estimate. When the guard comes or goes, every job has."""
        self.overdue.update(map(int, self.cluster.holdings if self.cluster.guard.news() else ()))
        for job in sorted(self.overdue):
            state = self.states.get(job)
            ends_at = None if state is None or state.phase != "RUNNING" else self.cluster.ends_at(state.id)
            if ends_at is None or ends_at > self.now:
                self.overdue.discard(job)
            if ends_at is not None and ends_at > self.now:
                self.corrected.append((job, ends_at))
                self._expect(job, self._since[job] + self._left_s[job] / self._rate[job])

    def _rates_of(self, places: tuple[Placement, ...]) -> tuple[Rate, ...]:
        key = tuple((place.node, place.cpu_milli, place.memory_mib, place.gpus, place.gpu_milli) for place in places)
        found = self._rates.get(key)
        if found is None:
            if len(self._rates) >= _RATES_KEPT:
                self._rates.clear()
            found = self._rates[key] = rates_of(self._records, self.cluster.profile, places)
        return found

    def true_run(self, traced: TraceJob, places: Iterable[Placement]) -> float:
        """The true run time on these placements, by the slowest rank."""
        if not traced.runs_s:
            return traced.run_s
        models = {self._records[place.node].info.gpus[place.gpus[0]].model for place in places if place.gpus}
        return max((traced.runs_s.get(model, traced.run_s) for model in models), default=traced.run_s)

    # ---- ends

    def runs(self, job: int, attempt: float) -> bool:
        """Whether that attempt still runs. A preempted attempt does not end by itself."""
        state = self.states.get(job)
        return state is not None and state.phase == "RUNNING" and _attempt(state) == attempt

    def expected_by(self, job: int, now: float) -> bool:
        """Whether the scheduler thought that it would have ended by now."""
        ends_at = self.cluster.ends_at(id_of(job))
        return ends_at is not None and ends_at <= now

    def end(self, job: int) -> None:
        """It ended by itself, with its own result, or at its time limit."""
        traced, spec, before = self.trace.jobs[job], self.specs[job], self.states[job]
        done = self.now - self._since[job]
        code, limit = traced.fails, spec.time_limit_s
        if limit is not None and self._left_s[job] / self._rate[job] > done + _ROUNDING_S:
            self.cut += 1
            how = ExitInfo(failure="time-limit")
        else:
            how = _WELL if not code else ExitInfo(code=code, failure="exit")
        context, state = Context(now=self.now, jitter=self._chance.random() if how.failure else 0.0), before
        ranks = [place.rank for place in before.placements if place.rank not in before.ended_ranks]
        for rank in ranks[:1] if how.failure else ranks:
            state = self._stepped(spec, state, Exit(fence=before.fence, exit=how, rank=rank), context)
        self._resumed[job] = False
        self._gone(job, before, state)

    def _gone(self, job: int, before: JobState, state: JobState) -> None:
        """The attempt is over: what is left of it is gone at once."""
        if state.lingering:
            context = Context(now=self.now, jitter=0.0)
            state = self._stepped(self.specs[job], state, Release(fence=revoked_fence(state)), context)
        follow(self.cluster, before, state, self.specs[job], self.now)
        self.books.leave(job, self.now)
        self.ended.append(AttemptEnd(job=job, at=self.now))
        if state.phase in TERMINAL:
            del self.states[job], self._expected[job]
            self.books.close(job, state)
            self.books.end[job] = self.now
            self.over += 1
            return
        self.states[job] = state
        if state.phase == "RETRYING":
            self._push(self.now + state.retry_delay_s, RETRY, job, state.seq)
        else:
            self.again.append(job)

    def retry(self, job: int, seq: float) -> None:
        state = self.states.get(job)
        if state is not None and state.phase == "RETRYING" and state.seq == seq:
            self._change(job, RetryDue(seq=state.seq))
            self.again.append(job)

    # ---- preemption

    def _evict(self, eviction: Eviction, shrinks: list[Resized]) -> None:
        evicting = (*eviction.victims, *eviction.shrunk)
        nominate = Nominate(
            hold=eviction.hold, evicting=evicting, reason=eviction.reason, alternative=eviction.alternative
        )
        self._change(int(eviction.job), nominate)
        for resized in shrinks:
            self._resize(resized)
        for victim in eviction.victims:
            self._preempt(int(victim), f"job {eviction.job}", eviction.reason, rotates=eviction.rule == "service")

    def leave(self, job: int, attempt: float) -> bool:
        """The gap that the job used is over. Whether the job still ran in it."""
        if not self.runs(job, attempt):
            return False
        self._preempt(job, "scheduler", "the gap it ran in ends")
        return True

    def _preempt(self, job: int, by: str, reason: str, *, rotates: bool = False) -> None:
        """A job with checkpoints goes on from the last one; another job starts from the beginning."""
        spec, before = self.specs[job], self.states[job]
        what = Preempt(fence=before.fence, by=by, reason=reason, rotates=rotates)
        state = self._stepped(spec, before, what, Context(now=self.now, jitter=0.0))
        self._resumed[job] = saves = spec.preemption.checkpoint_signal is not None
        self.books.saved_s[job] += self.now - self.books.last_start[job] if saves else 0.0
        self._left_s[job] += self.trace.jobs[job].restart_s - (self.now - self._since[job]) * self._rate[job]
        self._gone(job, before, state)

    def _resize(self, resized: Resized) -> None:
        """Ranks that are let go are gone at once, new ones run at once."""
        job, context = int(resized.job), Context(now=self.now, jitter=0.0)
        spec, before = self.specs[job], self.states[job]
        rates = self._rates_of(resized.placements)
        what = RanksResized(fence=before.fence, placements=resized.placements, reason=resized.reason, rates=rates)
        state = self._stepped(spec, before, what, context)
        if state.leaving:
            state = self._stepped(spec, state, Release(fence=state.fence), context)
        for place in state.placements:
            if place.rank not in state.started_ranks:
                state = self._stepped(
                    spec, state, RankStarted(fence=state.fence, rank=place.rank, at=self.now), context
                )
        self._resized(job, before, state)

    def _resized(self, job: int, before: JobState, state: JobState) -> None:
        self.states[job] = state
        follow(self.cluster, before, state, self.specs[job], self.now)
        old, new = ({place.rank: place for place in each.placements} for each in (before, state))
        self.books.leave(job, self.now, [rank for rank in old if rank not in new])
        self.books.enter(job, self.now, [place for rank, place in new.items() if rank not in old])
        self._left_s[job] -= (self.now - self._since[job]) * self._rate[job]
        self._resumed[job] = True
        self._run(job, state)
        ends_at = self.cluster.ends_at(state.id)
        self.resized.append(AttemptStart(job=job, estimated_end=ends_at, placements=state.placements))

    # ---- nodes

    def fail(self, node: int, lasts_s: float) -> None:
        """The node is gone, and what ran on it: nothing of that is saved."""
        self.failures += 1
        name, until = self._names[node], self.now + lasts_s
        self.down[node] = max(until, self.down.get(node, 0.0))
        self._push(until, UP, node, 0)
        self.cluster.set_ready(name, False)
        for job in sorted(self.cluster.on_node.get(name, ())):
            self._lose(int(job), name)

    def _lose(self, job: int, name: str) -> None:
        before = self.states[job]
        ranks = tuple(place.rank for place in before.placements if place.node == name)
        what = LeaseLost(fence=before.fence, reason=f"node {name} failed", ranks=ranks)
        state = self._stepped(self.specs[job], before, what, Context(now=self.now, jitter=self._chance.random()))
        if state.phase == "RUNNING":
            self._resized(job, before, state)
            return
        self._resumed[job] = False
        self._gone(job, before, state)

    def repair(self, node: int) -> bool:
        """Whether the node is back. Of two failures at once the longer one counts."""
        if self.down.get(node, 0.0) > self.now:
            return False
        self.down.pop(node, None)
        name = self._names[node]
        record = self._records[name] = replace(self._records[name], incarnation=self._records[name].incarnation + 1)
        self.cluster.put_node(record)
        return self.cluster.set_ready(name, True)

    # ---- helpers

    def _change(self, job: int, what: Input) -> None:
        before = self.states[job]
        state = self.states[job] = self._stepped(self.specs[job], before, what, Context(now=self.now, jitter=0.0))
        follow(self.cluster, before, state, self.specs[job], self.now)

    def _stepped(self, spec: JobSpec, state: JobState, what: Input, context: Context) -> JobState:
        stepped = step(Job(spec=spec, state=state), what, context)
        if isinstance(stepped, Refusal):
            raise RuntimeError(f"the replay is broken: {stepped.message}")
        return stepped.state

    def _push(self, at: float, kind: int, whom: int, attempt: float, turn: int = 0) -> None:
        heapq.heappush(self.events, (at, kind, turn, whom, attempt))


def _attempt(state: JobState) -> int:
    """A number that differs between attempts, and between sizes of a gang."""
    return (state.attempt << 20) + state.generation
