"""Figures: means over time and distributions against counting by hand."""

import numpy as np
import pytest

from ares.sim.report.figures import SHARES, figures, plain
from ares.sim.report.metrics import METRICS, best, change, words_of
from tests.unit.sim.report.made import outcome


def test_use_over_time_adds_up_to_the_time_used() -> None:
    made = outcome(jobs=500)
    found = figures([made]).runs[0]
    ran, times = made.intervals, found.over_time
    used = float(((ran.end - ran.begin) * ran.gpu_milli).sum())
    assert sum(times.gpu_utilisation) * times.every_s * made.facts.gpu_milli == pytest.approx(used, rel=1e-3)
    assert found.summary.gpu_utilisation == pytest.approx(np.mean(times.gpu_utilisation), rel=1e-3)


def test_use_over_time_is_what_ran_then() -> None:
    """One stretch, by adding up what of every interval lies in it."""
    made = outcome(jobs=300, seed=7)
    times = figures([made]).runs[0].over_time
    begin = times.begin_s + 100 * times.every_s
    overlap = np.minimum(made.intervals.end, begin + times.every_s) - np.maximum(made.intervals.begin, begin)
    share = float((np.maximum(overlap, 0.0) * 4000).sum()) / times.every_s / made.facts.cpu_milli
    assert times.cpu_utilisation[100] == pytest.approx(share, abs=1e-4)


def test_queue_is_never_deeper_than_its_highest() -> None:
    made = outcome(jobs=400, wait_s=5000.0)
    times = figures([made]).runs[0].over_time
    assert max(times.queued_max) == int(made.series.queued.max())
    assert all(mean <= most + 1e-9 for mean, most in zip(times.queued_mean, times.queued_max, strict=True))


def test_distributions_are_of_values_that_occur() -> None:
    made = outcome(jobs=77)
    spread = figures([made]).runs[0].spread
    waits = np.round(made.jobs.first_start - made.jobs.submit, 4)
    assert spread.shares == SHARES
    assert set(spread.wait_s) <= set(waits.tolist())
    for share, value in zip(spread.shares, spread.wait_s, strict=True):
        assert (waits <= value).mean() >= share
        assert (waits < value).mean() <= share


def test_changes_are_against_the_first_and_named_as_in_the_summary() -> None:
    found = plain(figures([outcome("slow", wait_s=900.0), outcome("fast", wait_s=90.0)]))
    slow, fast = found["runs"]
    percent = (fast["summary"]["meanWaitS"] / slow["summary"]["meanWaitS"] - 1) * 100
    assert fast["changePercent"]["meanWaitS"] == pytest.approx(percent)
    assert slow["changePercent"]["meanWaitS"] == 0.0
    # Nothing was preempted: there is no percentage of that.
    assert fast["changePercent"]["preemptions"] is None
    assert set(fast["changePercent"]) <= set(fast["summary"])
    assert len(fast["changePercent"]) == len(METRICS)


def test_one_grid_for_all_policies() -> None:
    runs = figures([outcome("a", jobs=50), outcome("b", jobs=900)]).runs
    assert runs[0].over_time.every_s == runs[1].over_time.every_s
    assert runs[0].over_time.begin_s == runs[1].over_time.begin_s


def test_nothing_ended() -> None:
    """A trace whose jobs fit nowhere still has a report."""
    made = outcome(jobs=3)
    for column in (made.jobs.first_start, made.jobs.end, made.jobs.run):
        column[:] = np.nan
    found = plain(figures([made]))
    assert found["runs"][0]["summary"]["unfinished"] == 3
    assert found["runs"][0]["spread"]["waitS"] == []


def test_what_nobody_measured_is_not_the_best() -> None:
    """An oracle without machines uses no energy: that is no merit."""
    energy = next(one for one in METRICS if one.field == "energy_kwh")
    assert best(energy, [12.0, 0.0, 10.0]) == {2}
    assert best(energy, [12.0, 0.0]) == frozenset()
    assert words_of(energy, 0.0) == "-"
    assert change(energy, 0.0, 12.0) is None
    wait = next(one for one in METRICS if one.field == "mean_wait_s")
    assert best(wait, [12.0, 0.0]) == {1}
    assert change(wait, 0.0, 12.0) == -100.0
