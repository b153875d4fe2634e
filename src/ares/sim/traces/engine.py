"""Replays a trace: one event after the other, and a real scheduling cycle whenever something changed."""

import gc
import heapq
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import nextafter
from typing import Literal, NamedTuple

from msgspec.structs import replace

from ares.api.decisions import Promise
from ares.check.replay.decisions import AttemptStart, CycleDecisions, Log, Promised
from ares.check.replay.trace import Trace, TraceJob
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.schedule.plan import Plan
from ares.model.job import JobSpec
from ares.model.profile import PredictionPolicy, Profile
from ares.sim.traces.bound import srtf
from ares.sim.traces.failures import NodeFailure
from ares.sim.traces.machine import id_of
from ares.sim.traces.outcome import Outcome, ReplayFacts
from ares.sim.traces.policies import ReplayPolicy
from ares.sim.traces.standing import StandingPlan
from ares.sim.traces.world import DOWN, DUE, END, LEAVE, LOOK, RETRY, UP, Event, ReplayWorld

Estimates = Literal["user", "exact", "predicted"]
# instant: all that happens at one moment, then cycles until nothing more comes of it. reference: one event at a time,
# submissions first; a submission has a cycle only if the job itself fits now or a job outlived its estimate, which
# has none of its own; a job that was to end by now has ended.
# committed: the head of the queue stays the head while it waits; jobs that come meanwhile line up after its start.
EventOrder = Literal["instant", "reference", "committed"]
# Of how many submitted jobs how many are over.
Progress = Callable[[int, int], None]
Watch = Callable[[Cluster, CycleDecisions], None]

_PROGRESS_EVERY = 512
_ALL_AT_ONCE = frozenset({"claim", "allocate", "backfill"})
_GARBAGE_AFTER = 200_000
_NEVER = float("inf")
# One instant never takes this many cycles: then two parts of the scheduler undo each other's work.
_CYCLES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How to replay. `log` gets every decision as it is made, and nothing of them is kept here.

    `watch` gets them with the cluster as it is then, to look at and not to touch."""

    seed: int = 0
    estimates: Estimates | None = None
    event_order: EventOrder = "instant"
    failures: tuple[NodeFailure, ...] = ()
    log: Log | None = None
    watch: Watch | None = None
    progress: Progress | None = None


def replay(trace: Trace, policy: ReplayPolicy, options: ReplayOptions = ReplayOptions()) -> Outcome:  # noqa: B008 - frozen
    """The same trace, policy and options give the same outcome. Estimates are the policy's unless options say more."""
    if policy.oracle:
        return srtf(trace, policy.name, options.seed)
    return _Replay(trace, policy, options).run()


class _Since(NamedTuple):
    """What happened since the latest decision, for the log."""

    submitted: list[int]
    down: list[str]
    up: list[str]


class _Replay:
    def __init__(self, trace: Trace, policy: ReplayPolicy, options: ReplayOptions) -> None:
        self._trace = trace
        self._policy = policy
        self._options = options
        self._estimates: Estimates = options.estimates or policy.estimates
        specs = [_spec(job, self._estimates) for job in trace.jobs]
        self._profile = _profile(policy.profile, self._estimates)
        if options.event_order == "committed":
            # After each start every job that came meanwhile may be next.
            self._profile = replace(self._profile, max_placements_per_cycle=1)
        self._world = ReplayWorld(trace, self._profile, specs, options.seed)
        # After these actions a second cycle finds nothing more. After others it may.
        self._again = not _ALL_AT_ONCE.issuperset(self._profile.actions)
        # With one promise only, its start is the end of another job, which is an event anyway.
        filling = self._profile.backfill
        many = filling.strategy in ("conservative", "deadline") or filling.reservations > 1
        self._decides_when_due = many and options.event_order == "instant"
        self._due_at = -_NEVER
        self._seen = options.log is not None or options.watch is not None
        self._standing = StandingPlan(self._world.cluster, self._profile, specs)
        # Whether nothing has happened since the latest plan but submissions, and that time went on; and whether
        # nothing but these and ends of jobs.
        self._quiet = self._calm = False
        self._next = 0
        self._since = _Since([], [], [])
        self._cycles = self._events = 0
        self._fail_at(options.failures)

    def _fail_at(self, failures: Iterable[NodeFailure]) -> None:
        rows = {node.name: at for at, node in enumerate(self._trace.nodes)}
        for failure in failures:
            if failure.node not in rows:
                raise ValueError(f"a failure names node {failure.node!r}, which is not in the trace {self._trace.name}")
            heapq.heappush(self._world.events, (failure.at, DOWN, 0, rows[failure.node], failure.lasts_s))

    def run(self) -> Outcome:
        began = time.perf_counter()
        # Objects of a replay live to its end or have no cycles: the garbage collector would find none.
        looked = gc.get_threshold()
        gc.set_threshold(_GARBAGE_AFTER, *looked[1:])
        loops = {"instant": self._instants, "reference": self._one_by_one, "committed": self._committed}
        try:
            loops[self._options.event_order]()
        finally:
            gc.set_threshold(*looked)
        return self._outcome(time.perf_counter() - began)

    # ---- all that happens at one instant, then cycles

    def _instants(self) -> None:
        world, jobs, events = self._world, self._trace.jobs, self._world.events
        while self._next < len(jobs) or (events and self._alive()):
            now, changed = self._go_on()
            while self._next < len(jobs) and jobs[self._next].submit <= now:
                changed |= self._submit(self._next)
                self._next += 1
            if changed:
                self._settle()
                world.books.moment(now, world.cluster.pending, world.cluster.table)

    def _go_on(self) -> tuple[float, bool]:
        """Goes to the next moment. Returns it, and whether an event other than a submission changed anything."""
        world, events, jobs = self._world, self._world.events, self._trace.jobs
        comes = jobs[self._next].submit if self._next < len(jobs) else _NEVER
        now = world.now = min(comes, events[0][0] if events else _NEVER)
        changed = False
        while events and events[0][0] <= now:
            changed |= self._happen(heapq.heappop(events))
        return now, changed

    def _settle(self) -> None:
        cluster = self._world.cluster
        for _ in range(_CYCLES_MAX):
            if not cluster.pending and not cluster.may_grow:
                self._note((), ())
                return
            if self._stands():
                self._world.planned()
                self._note((), cluster.promises.values())
                return
            plan = self._cycle()
            if not (plan.more or plan.evictions or plan.resized or plan.unheld or (plan.placed and self._again)):
                return
        raise RuntimeError(f"{_CYCLES_MAX} cycles at {self._world.now:g} s and no end: the profile goes in circles")

    def _stands(self) -> bool:
        """Whether a cycle would decide what the latest one did."""
        world = self._world
        world.cluster.advance(world.now)
        submitted = (id_of(job) for job in self._since.submitted)
        if self._quiet and not world.overdue and self._standing.holds(world.now, submitted):
            return True
        # What was promised matters to the log and the watch; without them, only whether a job starts.
        return self._calm and not self._seen and self._standing.starts_none()

    # ---- committed: the head of the queue stays the head

    def _committed(self) -> None:
        """One start at a time: after each, every job that came meanwhile may be next."""
        world, jobs, events = self._world, self._trace.jobs, self._world.events
        lined_up, waits = 0, False
        while self._next < len(jobs) or (events and self._alive()):
            now, changed = self._go_on()
            while self._next < len(jobs) and jobs[self._next].submit <= now:
                self._next += 1
            while changed or not waits:
                if not waits:
                    for job in range(lined_up, self._next):
                        self._submit(job)
                    lined_up = self._next
                if not world.cluster.pending:
                    break
                waits = not self._cycle().placed
                changed = False
            world.books.moment(now, world.cluster.pending, world.cluster.table)

    # ---- one event at a time

    def _one_by_one(self) -> None:
        world, jobs, events = self._world, self._trace.jobs, self._world.events
        # How many jobs had outlived their estimate at the latest cycle.
        setbacks = 0
        while self._next < len(jobs) or (events and self._alive()):
            if self._next < len(jobs) and (not events or jobs[self._next].submit <= events[0][0]):
                job, self._next = self._next, self._next + 1
                now = world.now = jobs[job].submit
                self._end_as_estimated(now)
                changed = self._submit(job) and (world.fits(job) or world.cluster.future.setbacks != setbacks)
            else:
                event = heapq.heappop(events)
                now = world.now = event[0]
                self._end_as_estimated(now)
                changed = (self._happen(event) or event[1] == END) and event[1] != LOOK
            if changed:
                self._cycle()
                setbacks = world.cluster.future.setbacks
                world.books.moment(now, world.cluster.pending, world.cluster.table)

    def _end_as_estimated(self, now: float) -> None:
        """A job that ends at this moment, as expected, has released its resources; its own event still comes.

        A job that outlived its estimate got another one before, and a job that does so now gets one."""
        events, world = self._world.events, self._world
        world.cluster.advance(nextafter(now, -_NEVER))
        due: list[Event] = []
        while events and events[0][0] <= now:
            due.append(heapq.heappop(events))
        for event in due:
            if event[1] == END and world.runs(event[3], event[4]) and world.expected_by(event[3], now):
                self._ended(event[3])
            heapq.heappush(events, event)
        world.cluster.advance(nextafter(now, _NEVER))

    # ---- events

    def _submit(self, job: int) -> bool:
        self._events += 1
        self._since.submitted.append(job)
        return self._world.submit(job)

    def _happen(self, event: Event) -> bool:
        """Whether the event changed anything."""
        _, kind, _, whom, detail = event
        world = self._world
        if kind == DUE:
            return self._is_due()
        self._quiet &= kind == LOOK
        self._calm &= kind in (LOOK, END)
        self._events += 1
        if kind == END:
            if not world.runs(whom, detail):
                return False
            self._ended(whom)
        elif kind == LOOK:
            return world.look(whom, detail)
        elif kind == LEAVE:
            return world.leave(whom, detail)
        elif kind == RETRY:
            world.retry(whom, detail)
        elif kind == DOWN:
            world.fail(whom, detail)
            self._since.down.append(self._trace.nodes[whom].name)
        elif kind == UP:
            if not world.repair(whom):
                return False
            self._since.up.append(self._trace.nodes[whom].name)
        return True

    def _is_due(self) -> bool:
        """Whether a job was promised a start by now. If not, the promises have changed since."""
        now = self._world.now
        if any(promise.start <= now for promise in self._world.cluster.promises.values()):
            return True
        self._expect_due()
        return False

    def _expect_due(self) -> None:
        """Adds an event at the next promised start, as the real service runs a cycle then."""
        if not self._decides_when_due:
            return
        now = self._world.now
        due_at = min(
            (promise.start for promise in self._world.cluster.promises.values() if promise.start > now), default=_NEVER
        )
        if due_at < _NEVER and due_at != self._due_at:
            self._due_at = due_at
            heapq.heappush(self._world.events, (due_at, DUE, 0, 0, 0.0))

    def _ended(self, job: int) -> None:
        self._world.end(job)
        progress, over = self._options.progress, self._world.over
        if progress is not None and over % _PROGRESS_EVERY == 0:
            progress(over, len(self._trace.jobs))

    def _alive(self) -> bool:
        """Whether an event for a job is left. Failures of nodes do not count: they go on for ever."""
        return self._world.over < len(self._trace.jobs)

    # ---- deciding

    def _cycle(self) -> Plan:
        world = self._world
        world.cluster.advance(world.now)
        if world.cluster.pending or world.cluster.elastic:
            plan = cycle(world.cluster, world.now, tells=False)
            self._cycles += 1
        else:
            plan = Plan(at=world.now)
        started = world.apply(plan)
        world.cluster.promise(plan.promises, more=plan.more)
        self._quiet = self._calm = not (plan.more or plan.evictions or plan.resized or plan.unheld)
        self._expect_due()
        world.planned()
        self._note(started, plan.promises, more=plan.more)
        return plan

    def _note(self, started: Iterable[AttemptStart], promises: Iterable[Promise], *, more: bool = False) -> None:
        """Passes one decision to the log and the watch."""
        world, since, log, watch = self._world, self._since, self._options.log, self._options.watch
        if log is not None or watch is not None:
            decision = CycleDecisions(
                time=world.now,
                submitted=tuple(since.submitted),
                again=tuple(world.again),
                ended=tuple(world.ended),
                down=tuple(since.down),
                up=tuple(since.up),
                started=tuple(started),
                promises=tuple(_promised(promise) for promise in promises),
                resized=tuple(world.resized),
                more=more,
                corrected=tuple(world.corrected),
            )
            if log is not None:
                log(decision)
            if watch is not None:
                watch(world.cluster, decision)
        for happened in (*since, world.again, world.ended, world.resized, world.corrected):
            happened.clear()

    # ---- the end of the replay

    def _outcome(self, wall_s: float) -> Outcome:
        trace, world, books = self._trace, self._world, self._world.books
        jobs = trace.jobs
        ends = [end for end in books.end if end == end]
        began = jobs[0].submit if jobs else 0.0
        ended = max(ends, default=began)
        facts = ReplayFacts(
            policy=self._policy.name,
            trace=trace.name,
            seed=self._options.seed,
            nodes=tuple(node.name for node in trace.nodes),
            node_gpus=tuple(len(node.gpus) for node in trace.nodes),
            cpu_milli=sum(node.cpu_milli for node in trace.nodes),
            gpu_milli=1000 * sum(len(node.gpus) for node in trace.nodes),
            began=began,
            ended=ended,
            cycles=self._cycles,
            events=self._events,
            wall_s=wall_s,
            estimates=self._estimates,
            event_order=self._options.event_order,
            cut=world.cut,
            node_failures=world.failures,
            warnings=(*trace.warnings, *self._warnings()),
        )
        return Outcome(books.jobs(world.states.items()), books.intervals(ended), books.series(), facts)

    def _warnings(self) -> list[str]:
        world = self._world
        waiting = len(self._trace.jobs) - world.over
        said = {
            f"{world.refused} jobs that these nodes could never take: refused": world.refused,
            f"{world.cut} jobs ended at their time limit": world.cut,
            f"{waiting} jobs never ended: nothing more happened that could have started them": waiting,
        }
        return [words for words, count in said.items() if count]


def _promised(promise: Promise) -> Promised:
    return Promised(job=int(promise.job), start=promise.start, until=promise.until, placements=promise.placements)


def _profile(profile: Profile, estimates: Estimates) -> Profile:
    """The profile with the run-time estimates of the replay."""
    prediction = profile.prediction
    if estimates != "predicted":
        return replace(profile, prediction=replace(prediction, source="stated"))
    return profile if prediction.source != "stated" else replace(profile, prediction=PredictionPolicy())


def _spec(job: TraceJob, estimates: Estimates) -> JobSpec:
    """The specification that the scheduler gets."""
    if estimates != "exact":
        return job.spec
    return replace(job.spec, expected_runtime_s=job.run_s, expected_runtimes_s=job.runs_s)
