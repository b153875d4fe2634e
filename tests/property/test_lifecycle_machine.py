"""Any sequence of inputs, in order, late, repeated or forged: the promises of the lifecycle hold."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ares.core.run.handlers import MANUAL_RETRIES_MAX, revoked_fence
from ares.core.run.inputs import (
    Bind,
    Cancel,
    Context,
    Exit,
    Input,
    LeaseLost,
    Refused,
    Release,
    RetryDue,
    RetryNow,
    Start,
    Stepped,
)
from ares.core.run.lifecycle import TRANSITIONS, begin, step
from ares.core.run.retry import limit_of
from ares.model.event import LedgerEvent
from ares.model.job import FAILURE_CLASSES, JobSpec, RetryPolicy
from ares.model.state import BOUND, TERMINAL, ExitInfo, Fence, Job, JobState, Placement, Result

PLACE = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=256, gpus=(0,))
EXITS = st.one_of(
    st.just(ExitInfo(code=0)),
    st.builds(ExitInfo, code=st.integers(1, 4), failure=st.just("exit")),
    st.builds(ExitInfo, failure=st.sampled_from(FAILURE_CLASSES)),
)
SPECS = st.builds(
    JobSpec,
    command=st.just(("true",)),
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
        self.spec = spec
        self.now, self.epoch = 1.0, 1
        made = begin(id="j", tenant="t", spec=spec, name="x", submitted_by="ann", context=self._context(0.5))
        self.state: JobState = made.state
        self.events: list[LedgerEvent] = list(made.events)
        self.results: list[Result] = []
        self.granted: list[Fence] = []
        # Grants after which the job's processes may have run.
        self.maybe_started: set[Fence] = set()

    def _context(self, jitter: float) -> Context:
        return Context(now=self.now, jitter=jitter, epoch=self.epoch)

    def _do(self, what: Input, jitter: float = 0.5) -> Stepped | Refused:
        old, self.now = self.state, self.now + 1.0
        done = step(Job(spec=self.spec, state=old), what, self._context(jitter))
        if isinstance(done, Refused):
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
        taken_away = old.phase in BOUND and new.phase not in BOUND | TERMINAL
        if isinstance(what, (Bind, Cancel, LeaseLost)) or taken_away:
            assert new.fence > old.fence
        if old.phase in TERMINAL:
            kept = ("phase", "fence", "attempt", "exit", "reason", "ended_at")
            assert [getattr(new, one) for one in kept] == [getattr(old, one) for one in kept]
            assert done.result is None
        if isinstance(what, (Start, Exit, LeaseLost)):
            assert what.fence == old.fence == self.granted[-1]
        if done.result:
            assert done.result.fence == old.fence
            assert done.result.attempt == old.attempt

    # ---- inputs that fit

    @rule()
    def bind(self) -> None:
        done = self._do(Bind(placements=(PLACE,)))
        if isinstance(done, Stepped):
            assert done.state.fence.epoch == self.epoch
            self.granted.append(done.state.fence)

    @precondition(lambda self: self.state.phase in BOUND)
    @rule()
    def start(self) -> None:
        self.maybe_started.add(self.state.fence)
        self._do(Start(fence=self.state.fence))

    @precondition(lambda self: self.state.phase in BOUND)
    @rule(ended=EXITS, jitter=st.floats(0, 1, exclude_max=True))
    def exit(self, ended: ExitInfo, jitter: float) -> None:
        if ended.failure != "staging":
            self.maybe_started.add(self.state.fence)
        done = self._do(Exit(fence=self.state.fence, exit=ended, value=7), jitter)
        assert isinstance(done, Stepped)
        if done.state.phase == "RETRYING":
            assert 0.0 <= done.state.retry_delay_s <= self.spec.retry.max_s

    @precondition(lambda self: self.state.phase in BOUND)
    @rule()
    def lose(self) -> None:
        self.maybe_started.add(self.state.fence)
        done = self._do(LeaseLost(fence=self.state.fence, reason="silent"))
        assert isinstance(done, Stepped)
        assert (done.state.phase == "UNKNOWN") == (self.spec.effects == "unsafe")

    @rule()
    def retry_due(self) -> None:
        self._do(RetryDue(seq=self.state.seq))

    @rule(behind=st.integers(1, 5))
    def retry_due_of_an_earlier_backoff(self, behind: int) -> None:
        assert isinstance(self._do(RetryDue(seq=self.state.seq - behind)), Refused)

    @rule()
    def retry_now(self) -> None:
        self._do(RetryNow(by="ann"))

    @precondition(lambda self: len(self.events) > 6)
    @rule()
    def cancel(self) -> None:
        was = self.state.phase
        done = self._do(Cancel(by="ann"))
        assert isinstance(done, Refused) == (was in TERMINAL)
        if isinstance(done, Stepped):
            assert done.state.lingering == (was in BOUND)

    @precondition(lambda self: self.state.lingering)
    @rule()
    def release(self) -> None:
        assert revoked_fence(self.state) == self.granted[-1]
        assert isinstance(self._do(Release(fence=self.granted[-1])), Stepped)

    @rule()
    def restore(self) -> None:
        self.epoch += 1

    # ---- inputs that do not fit

    @rule(
        kind=st.sampled_from([Start, Exit, LeaseLost, Release]),
        epoch=st.integers(0, 4),
        counter=st.integers(-1, 30),
        ended=EXITS,
    )
    def forge(self, kind: Any, epoch: int, counter: int, ended: ExitInfo) -> None:
        fence = Fence(epoch=epoch, counter=counter)
        rightful = self.granted[-1] if self.granted else None
        if fence == rightful and (self.state.phase in BOUND or self.state.lingering):
            return
        more: dict[Any, dict[str, Any]] = {Exit: {"exit": ended}, LeaseLost: {"reason": "x"}}
        assert isinstance(self._do(kind(fence=fence, **more.get(kind, {}))), Refused)

    @precondition(lambda self: len(self.granted) > 1)
    @rule(data=st.data(), ended=EXITS)
    def report_late(self, data: st.DataObject, ended: ExitInfo) -> None:
        """Every earlier attempt may still report, any time."""
        fence = data.draw(st.sampled_from(self.granted[:-1]))
        for what in (Start(fence=fence), Exit(fence=fence, exit=ended), LeaseLost(fence=fence, reason="x")):
            assert isinstance(self._do(what), Refused)

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
        assert all(one.value == (7 if self.state.phase == "SUCCEEDED" else None) for one in self.results)

    @invariant()
    def grants_stay_within_the_budgets(self) -> None:
        state = self.state
        assert all(used <= limit_of(self.spec, failure) for failure, used in state.retries.items())
        assert state.manual_retries <= MANUAL_RETRIES_MAX
        assert len(self.granted) == state.attempt <= 1 + sum(state.retries.values()) + state.restarts

    @invariant()
    def what_must_not_be_repeated_starts_once(self) -> None:
        if self.spec.effects == "unsafe" or self.spec.restart == "never":
            assert len(self.maybe_started) <= 1

    @invariant()
    def resources_are_held_exactly_while_bound_or_lingering(self) -> None:
        state = self.state
        assert not state.lingering or state.phase == "CANCELLED"
        if state.phase in BOUND or state.lingering:
            assert state.placements
        if state.phase in ("PENDING", "RETRYING"):
            assert not state.placements
        assert (state.ended_at is not None) == (state.phase in TERMINAL)
        assert (state.retry_at is not None) == (state.phase == "RETRYING")


Lifecycle.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestLifecycle = Lifecycle.TestCase
