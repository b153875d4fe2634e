"""Copies of a log have its jobs, and what is said to be other is other; a verdict of "worse" takes more than noise."""

from dataclasses import replace

import pytest

from ares.check.replay.trace import Trace, TraceJob, fleet
from ares.model.job import JobSpec, Resources
from ares.sim.traces.engine import replay
from ares.sim.traces.policies import policy
from bench.copies import asked_for, copies, second_half
from bench.predictions import judge

_WEEK_S = 7 * 86_400.0
_SPEC = JobSpec(command=("true",), resources=Resources(cpu_milli=1000, memory_mib=1))


def log(jobs: int = 48) -> Trace:
    """Four weeks of a busy machine, users in turn."""
    made = (
        TraceJob(id=str(at), submit=at * 4 * _WEEK_S / jobs, run_s=60.0 * (1 + at % 7), spec=_SPEC, user=f"u{at % 3}")
        for at in range(jobs)
    )
    return Trace("made", tuple(made), fleet(1, 1))


def test_copies_are_of_the_same_jobs() -> None:
    made = log()
    found = {copy.name: copy.trace for copy in copies(made)}
    assert found["as it is"] == made
    assert [job.submit for job in found["users relabelled"].jobs] == [job.submit for job in made.jobs]
    assert {job.user.partition("-")[0] for job in found["users relabelled"].jobs} == {"u0", "u1", "u2"}
    assert len({job.user for job in found["users relabelled"].jobs}) > 3
    before = {job.id: job.submit for job in made.jobs}
    moved = [abs(job.submit - before[job.id]) for job in found["time shifted"].jobs]
    assert sorted(before) == sorted(job.id for job in found["time shifted"].jobs)
    assert 0.0 < max(moved) <= 1800.0
    for name in ("weeks resampled 1", "weeks resampled 2"):
        assert len({job.id for job in found[name].jobs}) == len(found[name].jobs)
        assert {job.run_s for job in found[name].jobs} <= {job.run_s for job in made.jobs}


@pytest.mark.parametrize("load", [0.8, 1.2])
def test_a_load_is_that_many_times_as_many_jobs_in_the_same_time(load: float) -> None:
    made = log()
    jobs = next(copy.trace for copy in copies(made) if copy.name == f"load {load:g}").jobs
    lasts = made.jobs[-1].submit - made.jobs[0].submit
    assert jobs[-1].submit - jobs[0].submit == pytest.approx(lasts / load)


def test_limits_that_are_made_are_never_too_short() -> None:
    jobs = asked_for(log()).jobs
    assert all(job.spec.time_limit_s is not None and job.spec.time_limit_s >= job.run_s for job in jobs)
    assert all(job.user for job in jobs)


def test_the_second_half_is_that_of_jobs_and_may_be_cut() -> None:
    assert [job.id for job in second_half(log(), most=2).jobs] == ["24", "25"]
    assert len(second_half(log()).jobs) == 24


def test_a_verdict_knows_better_from_worse_and_both_from_the_same() -> None:
    made = log()
    at_once = replace(made, jobs=tuple(_at(job, 0.0) for job in made.jobs))
    easy = policy("easy")
    same, slow = replay(made, easy), replay(at_once, easy)
    assert judge(same, same) == (1.0, 1.0, 1.0, judge(same, same).longest)
    worse, better = judge(same, slow), judge(slow, same)
    assert 1.0 < worse.low <= worse.ratio <= worse.high
    assert better.low <= better.ratio <= better.high < 1.0


def _at(job: TraceJob, submit: float) -> TraceJob:
    return TraceJob(id=job.id, submit=submit, run_s=job.run_s, spec=job.spec, user=job.user)
