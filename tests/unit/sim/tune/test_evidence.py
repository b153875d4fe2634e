"""A gain is told apart from chance by the same jobs under both profiles, block by block."""

from dataclasses import replace

import numpy as np
import pytest

from ares.core.shadow import chance_of
from ares.sim.traces.engine import replay
from ares.sim.traces.outcome import Outcome
from ares.sim.traces.policies import policy
from ares.sim.tune.evidence import gain_interval, paired_interval, waits_bearably
from tests.unit.sim.traces.made import job, trace

DAY = 86_400.0


def _outcome(days: int) -> Outcome:
    jobs = [job(at * DAY / 4, 100.0, expected_runtime_s=100.0) for at in range(4 * days + 1)]
    return replay(trace(*jobs), policy("fcfs"))


def _waiting(base: Outcome, waits: np.ndarray) -> Outcome:
    """The same jobs, each starting and ending so much later."""
    jobs = base.jobs
    return replace(base, jobs=replace(jobs, first_start=jobs.submit + waits, end=jobs.submit + waits + jobs.run))


@pytest.mark.parametrize(("days", "of"), [(50, "weeks"), (10, "days"), (3, "eighths")])
def test_what_is_better_every_time_is_surely_better(days: int, of: str) -> None:
    base = _outcome(days)
    waits = np.full(len(base.jobs.id), 1000.0)
    found = gain_interval(_waiting(base, waits), _waiting(base, waits / 2), "mean_wait_s")
    assert found is not None
    assert found.of == of
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(0.5))


def test_noise_is_not_better() -> None:
    base, chance = _outcome(60), np.random.default_rng(7)
    waits = [chance.exponential(1000.0, len(base.jobs.id)) for _ in range(2)]
    found = gain_interval(*(_waiting(base, each) for each in waits), "mean_wait_s")
    assert found is not None
    assert found.low < 0.0 < found.high


def test_one_lucky_week_is_not_enough() -> None:
    base = _outcome(60)
    before = np.full(len(base.jobs.id), 100.0)
    before[:20] = 50_000.0
    after = np.full(len(base.jobs.id), 110.0)
    found = gain_interval(_waiting(base, before), _waiting(base, after), "mean_wait_s")
    assert found is not None
    assert before.mean() > 10 * after.mean(), "on average it is far better"
    assert found.low < 0.0


def test_figures_that_are_no_means_over_jobs_have_no_interval() -> None:
    base = _outcome(10)
    assert gain_interval(base, base, "makespan_s") is None


def test_the_longest_wait_may_double_and_no_more() -> None:
    assert waits_bearably(10_000.0, 20_000.0)
    assert not waits_bearably(10_000.0, 20_001.0)
    assert waits_bearably(0.0, 3600.0)


def test_looks_at_noise_again_and_again_hardly_ever_find_anything() -> None:
    """Jobs cost the same under both but for chance; each series is looked at five times, each with twice the jobs."""
    found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        costs = rng.lognormal(3.0, 1.5, (2, 1600))
        submit = np.sort(rng.uniform(0.0, 40 * 86_400.0, 1600))
        for look in range(1, 6):
            count = 50 * 2**look
            interval = paired_interval(submit[:count], costs[0, :count], costs[1, :count], chance_of(look))
            if interval is not None and (interval.low > 0.0 or interval.high < 0.0):
                found += 1
                break
    assert found <= 8, "all looks together may be wrong in one of twenty series"


def test_fewer_blocks_than_could_be_heads_in_a_row_say_nothing() -> None:
    submit = np.arange(7) * 86_400.0
    before, after = np.full(7, 10.0), np.full(7, 1.0)
    assert paired_interval(submit, before, after, 0.05) is not None
    assert paired_interval(submit, before, after, 0.001) is None
