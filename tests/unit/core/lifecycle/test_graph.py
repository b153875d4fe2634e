"""The transition table: what is in it, what is refused, and what each step writes."""

from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from ares.core.lifecycle.fences import revoked_fence
from ares.core.lifecycle.graph import TRANSITIONS, begin, diagram, step
from ares.core.lifecycle.handlers import MANUAL_RETRIES_MAX
from ares.core.lifecycle.inputs import (
    AssemblyOver,
    BeginDue,
    Bind,
    Cancel,
    Context,
    Exit,
    HoldBack,
    Input,
    LeaseLost,
    LetGo,
    NeedsMet,
    NeedsOverdue,
    NeedsUnmet,
    Nominate,
    OwnerMoved,
    OwnerTold,
    Preempt,
    RanksResized,
    RankStarted,
    Release,
    RetryDue,
    RetryNow,
    Stepped,
)
from ares.core.lifecycle.ranks import used
from ares.core.refusal import Refusal
from ares.model.job import JobSpec, Need
from ares.model.state import TERMINAL, ExitInfo, Fence, Job, JobState, Phase, Placement

NOW = Context(now=100.0, jitter=0.5)
PLACE = Placement(node="n1", incarnation=4, cpu_milli=1000, memory_mib=256)
SPEC = JobSpec(command=("true",))


def _state(phase: Phase, **changes: Any) -> JobState:
    held = {"placements": (PLACE,), "bound_at": 50.0} if phase in {"STAGING", "RUNNING"} else {}
    usual = {"seq": 7, "fence": Fence(counter=3), "attempt": 2}
    return JobState(id="j1", tenant="t", name="x", phase=phase, **{**usual, **held, **changes})


def _step(state: JobState, what: Input, context: Context = NOW) -> Stepped:
    done = step(Job(spec=SPEC, state=state), what, context)
    assert isinstance(done, Stepped), done
    return done


def _refused(state: JobState, what: Input) -> Refusal:
    done = step(Job(spec=SPEC, state=state), what, NOW)
    assert isinstance(done, Refusal), done
    return done


FENCE = Fence(counter=3)
INPUTS: list[Input] = [
    Bind(placements=(PLACE,)),
    RankStarted(fence=FENCE),
    Exit(fence=FENCE, exit=ExitInfo(code=0)),
    LeaseLost(fence=FENCE, reason="silent"),
    Cancel(by="ann"),
    RetryDue(seq=7),
    RetryNow(by="ann"),
    Release(fence=FENCE),
    AssemblyOver(fence=FENCE, reason="late"),
    Preempt(fence=FENCE, by="j9", reason="needed"),
    Nominate(hold=(PLACE,), evicting=("j8",), reason="makes room"),
    RanksResized(fence=FENCE, placements=(PLACE,), reason="more"),
    HoldBack(by="ann"),
    LetGo(by="ann"),
    BeginDue(),
    NeedsMet(reason="it ended"),
    NeedsOverdue(reason="it takes long"),
    NeedsUnmet(reason="it failed", then="skip"),
]
PHASES: list[Phase] = [
    "WAITING", "PENDING", "STAGING", "RUNNING", "RETRYING", "PREEMPTED", "SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN",
    "SKIPPED",
]  # fmt: skip
UNTABLED = [(p, what) for p in PHASES for what in INPUTS if (p, type(what)) not in TRANSITIONS]


@pytest.mark.parametrize(
    ("phase", "what"), UNTABLED, ids=lambda one: one if isinstance(one, str) else type(one).__name__
)
def test_what_is_not_in_the_table_is_refused(phase: Phase, what: Input) -> None:
    refused = _refused(_state(phase), what)
    assert refused.code == ("terminal" if phase in TERMINAL else "not-allowed")
    assert phase in refused.message


def test_every_phase_but_the_first_is_reached_and_only_ends_are_dead_ends() -> None:
    reached = {target for one in TRANSITIONS.values() for target in one.targets}
    left = {phase for phase, _ in TRANSITIONS}
    assert reached == set(PHASES)
    # A job that never ran has nothing to let go of.
    assert left == set(PHASES) - {"SKIPPED"}
    ended = [(phase, kind, one.targets) for (phase, kind), one in TRANSITIONS.items() if phase in TERMINAL]
    # That of a cluster says that nothing of a cancelled job is left.
    told = [("CANCELLED", kind, {"CANCELLED"}) for kind in (OwnerTold, OwnerMoved)]
    assert ended == [*told, *((phase, Release, {phase}) for phase in ("SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN"))]


def test_the_diagram_shows_every_edge_of_the_table() -> None:
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    for (phase, kind), one in TRANSITIONS.items():
        name = str(kind.__struct_config__.tag)
        for target in one.targets:
            assert any(line.startswith(f"    {phase} --> {target}: ") and name in line for line in lines)


@pytest.mark.parametrize("what", [RankStarted, Exit, LeaseLost])
@pytest.mark.parametrize("fence", [Fence(counter=2), Fence(counter=4), Fence(epoch=2, counter=3)])
def test_another_fence_changes_nothing_and_both_are_named(what: Any, fence: Fence) -> None:
    more = {RankStarted: {}, Exit: {"exit": ExitInfo(code=0)}, LeaseLost: {"reason": "silent"}}[what]
    refused = _refused(_state("STAGING"), what(fence=fence, **more))
    assert refused.code == "stale-fence"
    assert f"fence {fence}" in refused.message
    assert "1.3" in refused.message


@pytest.mark.parametrize("placements", [(), (PLACE, PLACE), (replace(PLACE, rank=1),)])
def test_a_job_of_one_rank_is_bound_to_exactly_one_placement(placements: tuple[Placement, ...]) -> None:
    assert _refused(_state("PENDING"), Bind(placements=placements)).code == "not-allowed"


@pytest.mark.parametrize("what", [RankStarted(fence=FENCE), Release(fence=FENCE), Release(fence=FENCE, ranks=(0,))])
def test_a_running_job_of_one_rank_neither_starts_again_nor_lets_go(what: Input) -> None:
    refused = _refused(_state("RUNNING"), what)
    assert (refused.code, "RUNNING" in refused.message) == ("not-allowed", True)


@pytest.mark.parametrize("phase", ["RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN"])
def test_nothing_is_released_twice(phase: Phase) -> None:
    refused = _refused(_state(phase), Release(fence=Fence(counter=2)))
    assert refused.code == ("terminal" if phase in TERMINAL else "not-allowed")


def test_what_an_attempt_held_is_counted_when_it_ends() -> None:
    held = replace(PLACE, cpu_milli=2500, gpus=(1, 3), gpu_milli=500)
    running = _state("RUNNING", placements=(held,), gpu_s=7.0, cpu_s=1.0)
    ends: list[Input] = [
        Exit(fence=FENCE, exit=ExitInfo(code=0)),
        Exit(fence=FENCE, exit=ExitInfo(code=1, failure="exit")),
        LeaseLost(fence=FENCE, reason="silent"),
        Cancel(by="ann"),
        Preempt(fence=FENCE, by="j9", reason="needed"),
    ]
    for what in ends:
        after = _step(running, what).state
        assert (after.gpu_s, after.cpu_s) == (57.0, 126.0)
        assert used(after, 900.0) == (57.0, 126.0)
    assert used(running, 60.0) == (17.0, 26.0)


def test_a_binding_clears_what_the_last_attempt_left() -> None:
    ended = ExitInfo(code=1, failure="exit")
    old = _state("PENDING", exit=ended, started_at=1.0, reason="waits for 2 GPUs")
    new = _step(old, Bind(placements=(PLACE,))).state
    assert (new.exit, new.started_at, new.reason, new.bound_at) == (None, None, "", 100.0)


@pytest.mark.parametrize(("at", "shown"), [(60.0, 60.0), (10.0, 50.0), (900.0, 100.0), (0.0, 100.0)])
def test_a_start_is_shown_between_the_binding_and_now(at: float, shown: float) -> None:
    assert _step(_state("STAGING"), RankStarted(fence=FENCE, at=at)).state.started_at == shown


def test_an_epoch_never_goes_back() -> None:
    state = _state("PENDING", fence=Fence(epoch=5, counter=9))
    assert _step(state, Bind(placements=(PLACE,)), Context(now=1.0, jitter=0.0, epoch=3)).state.fence == Fence(
        epoch=5, counter=10
    )


def test_the_revoked_fence_is_the_one_that_was_granted() -> None:
    running = _state("RUNNING", fence=Fence(epoch=2, counter=9))
    cancelled = _step(running, Cancel(by="ann"), Context(now=1.0, jitter=0.0, epoch=7)).state
    assert cancelled.fence > running.fence
    assert revoked_fence(cancelled) == running.fence


def test_manual_retries_end_at_their_limit() -> None:
    state, used = _state("RETRYING", retry_delay_s=4.0, retry_at=104.0), 0
    while isinstance(done := step(Job(spec=SPEC, state=state), RetryNow(by="ann"), NOW), Stepped):
        used += 1
        assert (done.state.phase, done.state.retry_delay_s, done.state.retry_at) == ("PENDING", 0.0, None)
        state = replace(done.state, phase="RETRYING", retry_delay_s=4.0)
    assert used == MANUAL_RETRIES_MAX
    assert done.code == "budget-exhausted"
    assert str(MANUAL_RETRIES_MAX) in done.message


def test_a_new_job_has_one_entry_and_no_grant() -> None:
    made = begin(
        id="j1_4", tenant="t", spec=SPEC, name="x", submitted_by="ann", trace="00-1", context=replace(NOW, epoch=3),
        array="j1", index=4, retry_of="j0", manual_retries=2,
    )  # fmt: skip
    state = made.state
    assert (state.phase, state.seq, state.fence, state.attempt) == ("PENDING", 1, Fence(epoch=3), 0)
    assert (state.array, state.index, state.retry_of, state.manual_retries) == ("j1", 4, "j0", 2)
    assert [(event.seq, event.kind, event.by, event.reason) for event in made.events] == [
        (1, "submitted", "ann", "retry of j0")
    ]


@pytest.mark.parametrize("fence", [Fence(counter=1), Fence(counter=3), Fence(epoch=0, counter=2), Fence(counter=9)])
def test_only_the_revoked_attempt_is_released(fence: Fence) -> None:
    lingering = _state("CANCELLED", lingering=True, placements=(PLACE,))
    assert _refused(lingering, Release(fence=fence)).code == "stale-fence"
    assert not _step(lingering, Release(fence=Fence(counter=2))).state.lingering


def _restarted(ran_s: float, quick: int) -> JobState:
    spec = replace(SPEC, restart="always")
    state = _state("RUNNING", started_at=NOW.now - ran_s, quick_restarts=quick)
    done = step(Job(spec=spec, state=state), Exit(fence=FENCE, exit=ExitInfo(code=0)), NOW)
    assert isinstance(done, Stepped), done
    assert [event.kind for event in done.events] == ["restarted"]
    return done.state


def test_a_program_that_exits_at_once_is_restarted_ever_later_and_one_that_ran_is_not() -> None:
    assert [_restarted(1.0, quick).retry_delay_s for quick in (0, 1, 2, 20, 100_000)] == [
        0.75,
        1.25,
        2.25,
        150.25,
        150.25,
    ]
    assert _restarted(1.0, 5).quick_restarts == 6
    steady = _restarted(60.0, 20)
    assert (steady.phase, steady.retry_delay_s, steady.quick_restarts) == ("RETRYING", 0.75, 1)


def test_the_end_of_an_earlier_backoff_does_not_cut_a_later_one_short() -> None:
    waiting = _state("RETRYING", retry_delay_s=60.0)
    refused = _refused(waiting, RetryDue(seq=waiting.seq - 4))
    assert (refused.code, "entry 3" in refused.message) == ("not-allowed", True)
    assert _step(waiting, RetryDue(seq=waiting.seq)).state.phase == "PENDING"


NEEDY = replace(SPEC, needs=(Need(job="p"),), begin_at=200.0)


def test_a_job_is_queued_when_the_last_thing_that_kept_it_is_gone() -> None:
    """Held, early and with a need: in every order, it is queued by the last of the three and by no other."""
    late = Context(now=250.0, jitter=0.5)
    for order in permutations((LetGo(by="ann"), NeedsMet(reason="p ended"), "time")):
        state, now = _state("WAITING", held_by="ann"), NOW
        for number, what in enumerate(order):
            if isinstance(what, str):
                now = late
                done = step(Job(spec=NEEDY, state=state), BeginDue(), now)
                assert isinstance(done, Stepped) == (number == 2)
            else:
                done = step(Job(spec=NEEDY, state=state), what, now)
                assert isinstance(done, Stepped)
            state = done.state if isinstance(done, Stepped) else state
            assert state.phase == ("PENDING" if number == 2 else "WAITING")


@pytest.mark.parametrize(("then", "phase"), [("skip", "SKIPPED"), ("fail", "FAILED"), ("run", "PENDING")])
def test_needs_that_cannot_be_met_end_a_job_once_as_it_asked(then: Any, phase: Phase) -> None:
    spec = replace(SPEC, needs=(Need(job="p"),))
    done = step(Job(spec=spec, state=_state("WAITING")), NeedsUnmet(reason="p failed", then=then), NOW)
    assert isinstance(done, Stepped)
    assert (done.state.phase, done.result) == (phase, None)
    assert isinstance(step(Job(spec=spec, state=done.state), NeedsMet(reason="p ended"), NOW), Refusal)


def test_a_hold_gives_up_the_room_kept_and_remembers_that_needs_were_met() -> None:
    spec = replace(SPEC, needs=(Need(job="p"),))
    waiting = _state("PENDING", hold=(PLACE,), evicting=("j8",), queued_at=3.0)
    held = step(Job(spec=spec, state=waiting), HoldBack(by="ann"), NOW)
    assert isinstance(held, Stepped)
    assert (held.state.hold, held.state.evicting, held.state.needs_met) == ((), (), True)
    free = step(Job(spec=spec, state=held.state), LetGo(by="ann"), NOW)
    assert isinstance(free, Stepped)
    assert (free.state.phase, free.state.queued_at) == ("PENDING", 3.0)


def test_a_job_whose_last_attempt_still_ends_is_not_held() -> None:
    assert (
        "still ending" in _refused(_state("RETRYING", lingering=True, placements=(PLACE,)), HoldBack(by="ann")).message
    )
