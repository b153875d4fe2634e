"""Jobs that save their work make room for those that have had less service."""

from dataclasses import replace as changed
from math import log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.check.replay.checker import Checker
from ares.check.replay.trace import Trace, TraceJob, fleet, saving
from ares.core.capacity.holding import holding
from ares.core.forecast.estimate import stated
from ares.core.queue.service import FIRST_S, GROWTH, QUANTUM, counted, next_step, service_of
from ares.core.schedule.cluster import Cluster
from ares.model.checkpoint import CheckpointPolicy
from ares.model.job import Gang, JobSpec, Preemption
from ares.model.profile import Profile
from ares.model.state import Placement, Spent
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.policies import POLICIES
from ares.sim.traces.summary import summary
from tests.unit.core.world import cluster, node, placed, plan, spec, state

HOUR = 3600.0
SAVES = Preemption(checkpoint_signal="SIGUSR1")


def _spec(**more: Any) -> JobSpec:
    return spec(gpus=1, **({"preemption": SAVES} | more))


def _busy(wanted: JobSpec, ran_s: float, **more: Any) -> Cluster:
    """One GPU, held since `ran_s` ago. It is 100 hours after the beginning."""
    made = cluster(node("a", gpus=1))
    _hold(made, "old", wanted, placed("a", gpus=(0,)), 100 * HOUR - ran_s, **more)
    return made


def _hold(made: Cluster, job: str, wanted: JobSpec, place: Placement, since: float, **more: Any) -> None:
    """It came when its attempt began."""
    now = state(job, at=since, phase="RUNNING", placements=(place,), bound_at=since, **more)
    runs = stated(wanted)
    made.hold(holding(now, wanted, (place,), None if runs is None else runs.seconds))


def _victims(made: Cluster, **changes: Any) -> list[tuple[str, tuple[str, ...]]]:
    decided = plan(made, 100 * HOUR, **changes)
    assert {eviction.rule for eviction in decided.evictions} <= {"service"}
    return [(eviction.job, eviction.victims) for eviction in decided.evictions]


def test_a_job_that_has_had_service_makes_room_for_one_that_has_had_none() -> None:
    made = _busy(_spec(), 2 * HOUR)
    made.enqueue(state("new", at=99 * HOUR), _spec())
    (eviction,) = plan(made, 100 * HOUR).evictions
    assert (eviction.job, eviction.victims, eviction.rule) == ("new", ("old",), "service")
    assert "has had less service" in eviction.reason
    assert _victims(made, actions=("claim", "allocate", "backfill", "preempt")) == []


@pytest.mark.parametrize(
    ("wanted", "ran_s", "asker"),
    [
        (spec(gpus=1), 50 * HOUR, _spec()),  # it saves nothing
        (_spec(preemption=Preemption(allowed=False, checkpoint_signal="SIGUSR1")), 50 * HOUR, _spec()),
        (_spec(), FIRST_S - 1, _spec()),  # what it has had counts nothing yet
        (_spec(priority="HIGH"), 50 * HOUR, _spec()),  # it matters more
    ],
    ids=["not-saving", "not-preemptible", "little", "more-important"],
)
def test_these_jobs_keep_their_place(wanted: JobSpec, ran_s: float, asker: JobSpec) -> None:
    made = _busy(wanted, ran_s)
    made.enqueue(state("new", at=99 * HOUR), asker)
    assert _victims(made) == []


def test_a_job_that_goes_on_holds_its_place_for_a_quarter_of_what_it_had() -> None:
    had = {"gpu_s": 16 * HOUR, "preemptions": 9, "rotations": 9}
    made = _busy(_spec(), 16 * HOUR * QUANTUM - 1, **had)
    made.enqueue(state("new", at=99 * HOUR), _spec())
    assert _victims(made) == []
    made = _busy(_spec(), 16 * HOUR * QUANTUM, **had)
    made.enqueue(state("new", at=99 * HOUR), _spec())
    assert _victims(made) == [("new", ("old",))]


def test_jobs_that_have_had_about_as_much_do_not_take_turns() -> None:
    made = _busy(_spec(), 3.9 * HOUR)
    made.enqueue(state("back", at=0.0, gpu_s=1.1 * HOUR, preemptions=1, rotations=1), _spec())
    assert _victims(made) == []
    made.enqueue(state("new", at=99 * HOUR), _spec())
    assert _victims(made) == [("new", ("old",))]


def test_a_job_that_waited_for_long_is_not_passed_for_ever() -> None:
    """An hour of service against 64 hours of waiting: 65 hours later a new job does not come first."""
    first = state("back", at=0.0, gpu_s=HOUR, preemptions=1, rotations=1)
    for later, comes in ((63 * HOUR, "new"), (65 * HOUR, "back")):
        made = cluster(node("a", gpus=1), profile=Profile())
        made.enqueue(first, _spec())
        made.enqueue(state("new", at=later), _spec())
        assert [each.job for each in plan(made, 100 * HOUR).placed] == [comes]


def test_a_promise_that_is_about_to_come_true_is_waited_for() -> None:
    made = cluster(node("a", gpus=2))
    _hold(made, "old", _spec(), placed("a", gpus=(0,)), 90 * HOUR)
    ends_soon = spec(gpus=1, expected_runtime_s=10 * HOUR + 30)
    _hold(made, "ends", ends_soon, placed("a", gpus=(1,)), 90 * HOUR)
    made.enqueue(state("new", at=99 * HOUR), _spec(expected_runtime_s=60.0))
    assert _victims(made) == []


def test_turns_by_service_use_up_no_preemption_of_the_cap() -> None:
    made = _busy(_spec(priority="BEST_EFFORT"), 50 * HOUR, preemptions=20, rotations=18)
    made.enqueue(state("urgent", at=99 * HOUR), _spec(priority="CRITICAL"))
    (eviction,) = plan(made, 100 * HOUR).evictions
    assert (eviction.rule, eviction.victims) == ("priority", ("old",))


def test_service_is_time_at_full_width_and_work_that_was_lost_is_none() -> None:
    wide = _spec(gang=Gang(ranks=4))
    assert service_of(state("j", gpu_s=8 * HOUR), wide) == 2 * HOUR
    assert service_of(state("j", cpu_s=8 * HOUR), spec(cpu=2, preemption=SAVES)) == 4 * HOUR
    assert service_of(state("j", gpu_s=8 * HOUR), spec(gpus=1)) == 0.0
    sdk = spec(gpus=1, checkpoint=CheckpointPolicy())
    spent = (Spent(gpu_s=3 * HOUR), Spent(gpu_s=5 * HOUR, fate="lost"))
    assert service_of(state("j", gpu_s=8 * HOUR, spent=spent), sdk) == 3 * HOUR


@given(st.floats(0, 1e9))
def test_service_counts_in_steps_that_never_exceed_it(service_s: float) -> None:
    step = counted(service_s)
    assert step <= service_s < next_step(service_s)
    assert next_step(service_s) == (FIRST_S if step == 0.0 else step * GROWTH)


# ---- in a replay


def _trace(seed: int) -> Trace:
    """Two nodes of two GPUs, and jobs of minutes behind jobs of days. No run time is told."""
    lengths = [40 * HOUR, 60 * HOUR, 50 * HOUR, 30 * HOUR, *([600.0] * 20)]
    jobs = tuple(
        TraceJob(id=str(at), submit=at * (500.0 + seed), run_s=run_s, spec=replace(spec(gpus=1), name=f"j{at}"))
        for at, run_s in enumerate(lengths)
    )
    return saving(Trace("made", jobs, fleet(2, 8, 2)), 60.0)


@pytest.mark.parametrize("seed", [0, 7])
def test_short_jobs_do_not_wait_for_long_ones_and_all_work_is_done_once(seed: int) -> None:
    policy, trace = POLICIES["default"], _trace(seed)
    checker = Checker(trace, policy.name, policy.profile)
    outcome = replay(trace, policy, ReplayOptions(log=checker))
    with_turns = summary(outcome)
    plain = summary(replay(changed(trace, jobs=tuple(replace(job, spec=spec(gpus=1)) for job in trace.jobs)), policy))
    assert checker.verdict().violations == ()
    assert with_turns.unfinished == plain.unfinished == 0
    assert with_turns.mean_jct_s < 0.6 * plain.mean_jct_s
    # The number of turns goes by how long a job runs, however many short ones come; each turn costs a minute.
    assert 0 < with_turns.preemptions < 20
    for job, turns in zip(trace.jobs, outcome.jobs.preemptions, strict=True):
        most = 1 + log(max(1.0, job.run_s / FIRST_S)) / log(1 + QUANTUM) if job.run_s > FIRST_S else 0
        assert turns <= most
    ran = outcome.intervals.end - outcome.intervals.begin
    assert ran.sum() == pytest.approx(sum(job.run_s for job in trace.jobs) + 60.0 * with_turns.preemptions)
