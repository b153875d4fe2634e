"""Any sequence of inputs, in order, late, repeated or forged: the promises of the lifecycle hold."""

from typing import Any, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ares.core.lifecycle.fences import revoked_fence
from ares.core.lifecycle.graph import TRANSITIONS, begin, step
from ares.core.lifecycle.handlers import MANUAL_RETRIES_MAX
from ares.core.lifecycle.inputs import (
    AssemblyOver,
    Bind,
    Cancel,
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
    RetryNow,
    Stepped,
    VerdictDue,
)
from ares.core.lifecycle.ranks import held, place_of, size_limits, used
from ares.core.lifecycle.retry import FLOOR_S, limit_of
from ares.core.refusal import Refusal
from ares.model.job import FAILURE_CLASSES, Gang, JobSpec, Preemption, RetryPolicy
from ares.model.state import BOUND, TERMINAL, ExitInfo, Fence, Job, JobState, LedgerEvent, Placement, Result
from tests.searching import examples

NODES = ("n1", "n2", "n3")
EXITS = st.one_of(
    st.just(ExitInfo(code=0)),
    st.builds(ExitInfo, code=st.integers(1, 4), failure=st.just("exit")),
    st.builds(ExitInfo, failure=st.sampled_from(FAILURE_CLASSES)),
)


def _gang(ranks: int, fewer: int | None) -> Gang:
    return Gang(ranks=ranks, min_ranks=None if fewer is None else max(1, ranks - fewer))


GANGS = st.builds(_gang, st.integers(1, 4), st.sampled_from([None, 1, 3]))
SPECS = st.builds(
    JobSpec,
    command=st.just(("true",)),
    gang=st.none() | GANGS,
    preemption=st.builds(Preemption, allowed=st.sampled_from([True, True, False])),
    effects=st.sampled_from(["staged", "idempotent", "unsafe"]),
    restart=st.sampled_from(["never", "on-failure", "always"]),
    retry=st.builds(
        RetryPolicy,
        limit=st.integers(0, 3),
        class_limits=st.dictionaries(st.sampled_from(FAILURE_CLASSES), st.integers(0, 2), max_size=3),
        final_exit_codes=st.sampled_from([(), (3,)]),
    ),
)


class Lifecycle(RuleBasedStateMachine):
    """Keeps the whole history, and judges each step against it."""

    @initialize(spec=SPECS)
    def submit(self, spec: JobSpec) -> None:
        self._begin(spec)

    def _begin(self, spec: JobSpec) -> None:
        self.spec = spec
        self.now, self.epoch = 1.0, 1
        made = begin(id="j", tenant="t", spec=spec, name="x", submitted_by="ann", context=self._context(0.5))
        self.state: JobState = made.state
        self.events: list[LedgerEvent] = list(made.events)
        self.results: list[Result] = []
        self.granted: list[Fence] = []
        # Grants after which the job's processes may have run.
        self.maybe_started: set[Fence] = set()
        # Of the latest attempt: ranks that nobody has seen end, every number it used, what its first rank gave.
        self.alive: dict[int, Placement] = {}
        self.numbers: set[int] = set()
        self.value: str | None = None
        # GPU-seconds, counted second by second.
        self.gpu_s = 0.0

    def _context(self, jitter: float) -> Context:
        return Context(now=self.now, jitter=jitter, epoch=self.epoch)

    def _do(self, what: Input, jitter: float = 0.5) -> Stepped | Refusal:
        old, self.now = self.state, self.now + 1.0
        self.gpu_s += sum(len(place.gpus) for place in old.placements) if old.phase in BOUND else 0
        done = step(Job(spec=self.spec, state=old), what, self._context(jitter))
        if isinstance(done, Refusal):
            assert done.message
            return done
        self._judge(old, what, done)
        self.state = done.state
        self.events += done.events
        self.results += [done.result] if done.result else []
        return done

    def _judge(self, old: JobState, what: Input, done: Stepped) -> None:
        new = done.state
        assert new.phase in TRANSITIONS[old.phase, type(what)].targets
        assert done.events
        assert new.seq == old.seq + len(done.events)
        assert [event.seq for event in done.events] == list(range(old.seq + 1, new.seq + 1))
        assert all((event.phase, event.at) == (new.phase, self.now) for event in done.events)
        # A fence grows by exactly one when an attempt is granted or taken away, and never otherwise.
        assert new.fence.counter - old.fence.counter in {0, 1}
        assert new.fence.epoch >= old.fence.epoch
        taken_away = old.phase in BOUND and (new.phase not in BOUND | TERMINAL or new.lingering)
        lost = isinstance(what, LeaseLost) and new.phase not in BOUND
        if isinstance(what, Bind) or lost or taken_away:
            assert new.fence > old.fence
        if old.lingering or {old.phase, new.phase} <= BOUND:
            assert new.fence == old.fence
        if old.phase in TERMINAL:
            kept = ("phase", "fence", "attempt", "exit", "reason", "ended_at")
            assert [getattr(new, one) for one in kept] == [getattr(old, one) for one in kept]
            assert done.result is None
        if isinstance(what, (RankStarted, Exit, LeaseLost, AssemblyOver, Preempt, RanksResized)):
            assert what.fence == old.fence == self.granted[-1]
        if done.result:
            assert done.result.fence == old.fence
            assert done.result.attempt == old.attempt
        self._follow_ranks(old, what, new)

    def _follow_ranks(self, old: JobState, what: Input, new: JobState) -> None:
        match what:
            case Bind(placements=places):
                assert not self.alive, "granted while ranks of the last attempt may be alive"
                self.alive, self.value = {place.rank: place for place in places}, None
                self.numbers = set(self.alive)
            case RanksResized(placements=places):
                added = {place.rank: place for place in places if place not in old.placements}
                assert not self.numbers & added.keys(), "a rank's number was given twice"
                self.alive |= added
                self.numbers |= added.keys()
            case Exit(rank=rank):
                self.alive.pop(rank, None)
                first = rank == old.placements[0].rank
                self.value = what.value if first and what.exit.failure is None else self.value
            case LeaseLost(ranks=ranks) | Release(ranks=ranks):
                for rank in ranks or tuple(self.alive):
                    if isinstance(what, LeaseLost) or new.phase != "RUNNING" or place_of(old.leaving, rank):
                        self.alive.pop(rank, None)
            case _:
                pass

    def _rank(self, data: st.DataObject) -> int:
        """One of the attempt's ranks, or now and then a wrong one."""
        return data.draw(st.sampled_from([*(sorted(self.alive) or [0]), 0, 9]), label="rank")

    def _places(self, count: int, first: int = 0) -> tuple[Placement, ...]:
        return tuple(
            Placement(node=NODES[rank % 3], incarnation=1, cpu_milli=1000, memory_mib=256, gpus=(rank,), rank=rank)
            for rank in range(first, first + count)
        )

    # ---- inputs that fit

    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        least, most = size_limits(self.spec)
        count = data.draw(st.integers(max(0, least - 1), most + 1), label="ranks")
        done = self._do(Bind(placements=self._places(count)))
        if isinstance(done, Stepped):
            assert least <= count <= most
            assert done.state.fence.epoch == self.epoch
            assert not done.state.hold
            self.granted.append(done.state.fence)

    @precondition(lambda self: self.state.phase in BOUND)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.maybe_started.add(self.state.fence)
        done = self._do(RankStarted(fence=self.state.fence, rank=self._rank(data)))
        if isinstance(done, Stepped) and done.events[-1].kind == "started" and self.spec.gang is not None:
            assert {place.rank for place in done.state.placements} <= set(done.state.started_ranks)

    @precondition(lambda self: self.state.phase in BOUND)
    @rule(data=st.data())
    def start_all(self, data: st.DataObject) -> None:
        self.maybe_started.add(self.state.fence)
        for place in self.state.placements:
            self._do(RankStarted(fence=self.state.fence, rank=place.rank))
        assert self.state.phase == "RUNNING"

    @precondition(lambda self: self.state.phase in BOUND)
    @rule(data=st.data(), ended=EXITS, jitter=st.floats(0, 1, exclude_max=True))
    def exit(self, data: st.DataObject, ended: ExitInfo, jitter: float) -> None:
        rank = self._rank(data) if self.spec.gang is not None else 0
        if ended.failure != "staging" or self.spec.gang is not None:
            self.maybe_started.add(self.state.fence)
        was_alive, let_go = rank in self.alive, place_of(self.state.leaving, rank) is not None
        done = self._do(Exit(fence=self.state.fence, exit=ended, rank=rank, value=f"of rank {rank}"), jitter)
        assert isinstance(done, Stepped) == was_alive
        if isinstance(done, Stepped):
            # Of a gang the other ranks are heard first, unless the fault cannot be another rank's.
            heard = ended.failure not in ("staging", "time-limit")
            assert (done.state.phase in BOUND) == (let_go or (heard and self._unfinished()))
        if self.state.phase == "RETRYING":
            assert 0.0 <= self.state.retry_delay_s <= max(self.spec.retry.max_s, 2 * FLOOR_S)

    @precondition(lambda self: self.state.phase in BOUND)
    @rule()
    def verdict(self) -> None:
        due = bool(self.state.failing)
        done = self._do(VerdictDue(fence=self.state.fence))
        assert isinstance(done, Stepped) == due
        assert (self.state.phase in BOUND) != due

    def _unfinished(self) -> bool:
        return any(place.rank in self.alive for place in self.state.placements)

    @precondition(lambda self: self.state.phase in BOUND)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        self.maybe_started.add(self.state.fence)
        ranks = data.draw(st.sets(st.sampled_from([*sorted(self.alive), 9])), label="ranks")
        current = {place.rank for place in self.state.placements} & self.alive.keys()
        left, was = current - (ranks or current), self.state
        done = self._do(LeaseLost(fence=self.state.fence, reason="silent", ranks=tuple(sorted(ranks))))
        if left == current:
            # At most ranks that the gang had let go.
            assert self.state.phase == was.phase
            return
        assert isinstance(done, Stepped)
        assert (done.state.phase == "UNKNOWN") == (self.spec.effects == "unsafe")
        gang = self.spec.gang
        elastic = gang is not None and gang.min_ranks is not None and len(left) >= gang.min_ranks
        goes_on = elastic and was.phase == "RUNNING" and self.spec.effects != "unsafe"
        assert (done.state.phase in BOUND) == goes_on
        assert done.state.generation == was.generation + goes_on

    @precondition(lambda self: self.state.phase == "STAGING")
    @rule()
    def assembly_over(self) -> None:
        self.maybe_started.add(self.state.fence)
        done = self._do(AssemblyOver(fence=self.state.fence, reason="too slow"))
        assert isinstance(done, Stepped) == (self.spec.gang is not None)

    @precondition(lambda self: self.state.phase in BOUND)
    @rule()
    def preempt(self) -> None:
        self.maybe_started.add(self.state.fence)
        failing = bool(self.state.failing)
        done = self._do(Preempt(fence=self.state.fence, by="j9", reason="needed"))
        never = self.spec.effects == "unsafe" or self.spec.restart == "never" or not self.spec.preemption.allowed
        # A failure that was acknowledged is not forgotten.
        assert isinstance(done, Refusal) == (never or failing)

    @precondition(lambda self: self.state.phase == "RUNNING" and self.spec.gang is not None)
    @rule(data=st.data())
    def resize(self, data: st.DataObject) -> None:
        first = max(self.numbers) + 1 - data.draw(st.sampled_from([0, 0, 1]), label="reused")
        ranks = [place.rank for place in self.state.placements]
        dropped = data.draw(st.sets(st.sampled_from(ranks), max_size=2), label="dropped")
        stay = tuple(place for place in self.state.placements if place.rank not in dropped)
        places = (*stay, *self._places(data.draw(st.integers(0, 2), label="added"), first))
        running = [place for place in self.state.placements if place in self.alive.values()]
        done = self._do(RanksResized(fence=self.state.fence, placements=places, reason="more or less"))
        if isinstance(done, Stepped):
            least, most = size_limits(self.spec)
            assert least <= len(places) <= most
            assert any(place in running for place in places)

    @precondition(lambda self: self.state.phase == "PENDING")
    @rule(count=st.integers(0, 2))
    def nominate(self, count: int) -> None:
        was = self.state.hold
        done = self._do(Nominate(hold=self._places(count), evicting=("j8",) * count, reason="room"))
        assert isinstance(done, Stepped) == bool(count or was)

    @rule()
    def retry_due(self) -> None:
        self._do(RetryDue(seq=self.state.seq))

    @rule(behind=st.integers(1, 5))
    def retry_due_of_an_earlier_backoff(self, behind: int) -> None:
        assert isinstance(self._do(RetryDue(seq=self.state.seq - behind)), Refusal)

    @rule()
    def retry_now(self) -> None:
        self._do(RetryNow(by="ann"))

    @precondition(lambda self: len(self.events) > 6)
    @rule()
    def cancel(self) -> None:
        was = self.state.phase
        done = self._do(Cancel(by="ann"))
        assert isinstance(done, Refusal) == (was in TERMINAL)
        if isinstance(done, Stepped):
            assert done.state.lingering == bool(self.alive)
            assert not done.state.hold

    @precondition(lambda self: self.state.lingering or self.state.leaving)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.state.lingering:
            assert revoked_fence(self.state) == self.granted[-1]
        ranks = data.draw(st.sets(st.sampled_from(sorted(self.alive))), label="ranks")
        goes = {place.rank for place in (self.state.leaving if self.state.phase in BOUND else held(self.state))}
        done = self._do(Release(fence=self.granted[-1], ranks=tuple(sorted(ranks))))
        assert isinstance(done, Stepped) == bool((ranks or goes) & goes)

    @precondition(lambda self: self.state.lingering)
    @rule()
    def release_all(self) -> None:
        done = self._do(Release(fence=self.granted[-1]))
        assert isinstance(done, Stepped)
        assert not done.state.lingering

    @rule()
    def restore(self) -> None:
        self.epoch += 1

    # ---- inputs that do not fit

    @rule(
        kind=st.sampled_from([RankStarted, Exit, LeaseLost, AssemblyOver, Preempt, Release]),
        epoch=st.integers(0, 4),
        counter=st.integers(-1, 30),
        ended=EXITS,
    )
    def forge(self, kind: Any, epoch: int, counter: int, ended: ExitInfo) -> None:
        fence = Fence(epoch=epoch, counter=counter)
        rightful = self.granted[-1] if self.granted else None
        if fence == rightful and (self.state.phase in BOUND or self.state.lingering):
            return
        why = {"reason": "x"}
        more: dict[Any, dict[str, Any]] = {
            Exit: {"exit": ended}, LeaseLost: why, AssemblyOver: why, Preempt: {**why, "by": "j9"},
        }  # fmt: skip
        assert isinstance(self._do(kind(fence=fence, **more.get(kind, {}))), Refusal)

    @precondition(lambda self: len(self.granted) > 1)
    @rule(data=st.data(), ended=EXITS)
    def report_late(self, data: st.DataObject, ended: ExitInfo) -> None:
        """Every earlier attempt may still report, any time."""
        fence = data.draw(st.sampled_from(self.granted[:-1]))
        late = (
            RankStarted(fence=fence),
            Exit(fence=fence, exit=ended),
            LeaseLost(fence=fence, reason="x"),
            Release(fence=fence),
        )
        for what in late:
            assert isinstance(self._do(what), Refusal)

    # ---- what always holds

    @invariant()
    def ledger_is_complete(self) -> None:
        assert [event.seq for event in self.events] == list(range(1, self.state.seq + 1))

    @invariant()
    def fences_strictly_grow(self) -> None:
        assert all(a < b for a, b in zip(self.granted, self.granted[1:], strict=False))

    @invariant()
    def one_result_at_most_and_only_at_the_end(self) -> None:
        assert len(self.results) == (1 if self.state.phase in {"SUCCEEDED", "FAILED"} else 0)
        assert all(one.value == (self.value if self.state.phase == "SUCCEEDED" else None) for one in self.results)

    @invariant()
    def grants_stay_within_the_budgets(self) -> None:
        state = self.state
        assert all(used <= limit_of(self.spec, failure) for failure, used in state.retries.items())
        assert state.manual_retries <= MANUAL_RETRIES_MAX
        assert len(self.granted) == state.attempt
        assert state.attempt <= 1 + sum(state.retries.values()) + state.restarts + state.preemptions

    @invariant()
    def what_must_not_be_repeated_starts_once(self) -> None:
        if self.spec.effects == "unsafe" or self.spec.restart == "never":
            assert len(self.maybe_started) <= 1

    @invariant()
    def exactly_what_nobody_saw_end_is_held(self) -> None:
        state = self.state
        assert {place.rank: place for place in held(state)} == self.alive
        assert state.lingering == (bool(self.alive) and state.phase not in BOUND)
        assert (state.phase == "PREEMPTED") <= state.lingering
        if state.phase == "PENDING" or (state.phase == "RETRYING" and not state.lingering):
            assert not state.placements
        if not self.alive:
            assert not state.leaving
        assert (state.ended_at is not None) == (state.phase in TERMINAL)
        assert (state.retry_at is not None) == (state.phase == "RETRYING")
        assert not state.hold or state.phase in {"PENDING", "PREEMPTED"}

    @invariant()
    def every_second_of_a_placement_is_counted_once(self) -> None:
        gpu_s, cpu_s = used(self.state, self.now)
        assert gpu_s == pytest.approx(self.gpu_s)
        assert cpu_s == pytest.approx(self.gpu_s)


class ElasticGang(Lifecycle):
    """The same, from where most of it is about ranks: three of them run, and little ends the attempt for good."""

    @initialize(policy=st.sampled_from(["on-failure", "always"]))
    def submit(self, policy: Literal["on-failure", "always"]) -> None:
        patient = RetryPolicy(limit=50, class_limits=dict.fromkeys(FAILURE_CLASSES, 50))
        gang = Gang(ranks=4, min_ranks=1)
        self._begin(JobSpec(command=("true",), gang=gang, restart=policy, retry=patient))
        self.run_again()

    @precondition(lambda self: self.state.phase == "PENDING")
    @rule()
    def run_again(self) -> None:
        done = self._do(Bind(placements=self._places(3)))
        assert isinstance(done, Stepped)
        self.granted.append(done.state.fence)
        for rank in range(3):
            self._do(RankStarted(fence=done.state.fence, rank=rank))
        self.maybe_started.add(done.state.fence)
        assert self.state.phase == "RUNNING"


Lifecycle.TestCase.settings = settings(max_examples=examples(75), stateful_step_count=40)
TestLifecycle = Lifecycle.TestCase
ElasticGang.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=40)
TestElasticGang = ElasticGang.TestCase
