"""What is odd: rare by the series' own past, for several minutes, and told with its numbers."""

import numpy as np

from ares.core.insight.anomalies import HISTORY_MIN, RARE, odd_count, odd_drought, odd_level, poisson_tail
from ares.core.insight.watched import QUEUE, oddity, told, watched_as

DAY = 1440
LATENCY = ("ares_store_latency_seconds:p99", ())
FAILED = ("ares_jobs_total:rate", (("state", "failed"),))


def _noise(seed: int = 1, count: int = 2 * DAY) -> np.ndarray:
    return 0.03 * np.exp(np.random.default_rng(seed).normal(0, 0.3, count))


def test_a_level_far_from_its_past_is_odd_and_one_minute_is_not() -> None:
    values = _noise()
    assert odd_level(values, 0.25) is None
    once = values.copy()
    once[-1] = 2.0
    assert odd_level(once, 0.25) is None
    once[-2:] = 2.0
    found = odd_level(once, 0.25)
    assert found is not None
    assert found.value == 2.0
    assert found.probability <= RARE
    assert found.high < 0.1


def test_what_a_series_does_now_and_then_is_usual() -> None:
    """A queue that fills every day is not odd when it fills today."""
    minute = np.arange(2 * DAY)
    queue = np.where(minute % DAY > 1200, 300.0, 0.0) + np.random.default_rng(2).poisson(5, len(minute)).astype(float)
    assert odd_level(queue, 50.0) is None
    queue[-2:] = 4000.0
    assert odd_level(queue, 50.0) is not None


def test_without_history_or_within_the_floor_nothing_is_said() -> None:
    values = np.full(2 * DAY, 200.0)
    values[-2:] = 170.0
    assert odd_level(values, 1.0, rises=True, falls=True) is not None
    assert odd_level(values[-(HISTORY_MIN // 2) :], 1.0) is None
    assert odd_level(values, 31.0) is None
    assert odd_level(values, 1.0, falls=False) is None
    gap = values.copy()
    gap[-1] = np.nan
    assert odd_level(gap, 1.0) is None


def test_a_storm_of_failures_is_odd_and_a_few_are_not() -> None:
    rng = np.random.default_rng(3)
    few = rng.poisson(0.1, 2 * DAY).astype(float)
    few[-10:] = 0.0
    assert odd_count(few) is None
    few[-2:] = 2.0
    assert odd_count(few) is None
    few[-3:] = 20.0
    found = odd_count(few)
    assert found is not None
    assert found.value == 60.0


def test_no_start_while_jobs_wait_is_odd_and_without_jobs_is_rest() -> None:
    starts = np.full(2 * DAY, 8.0)
    starts[-3:] = 0.0
    waiting, nothing = np.full(2 * DAY, 30.0), np.zeros(2 * DAY)
    assert odd_drought(starts, waiting) is not None
    assert odd_drought(starts, nothing) is None
    seldom = np.zeros(2 * DAY)
    seldom[::30] = 1.0
    assert odd_drought(seldom, waiting) is None


def test_the_tail_of_a_count_is_right_where_it_can_be_told() -> None:
    assert poisson_tail(0, 1.0) == 1.0
    assert abs(poisson_tail(3, 1.0) - 0.0803013970713942) < 1e-9
    assert 0.0 < poisson_tail(300, 100.0) < 1e-30


def test_feedback_makes_a_series_quieter_and_then_silent() -> None:
    values = _noise()
    # Just rare enough.
    for level in np.arange(0.3, 3.0, 0.01):
        values[-2:] = level
        if oddity(LATENCY, values) is not None:
            break
    assert oddity(LATENCY, values) is not None
    assert oddity(LATENCY, values, refusals=1) is None
    values[-2:] = 10.0
    assert oddity(LATENCY, values, refusals=1) is not None
    assert oddity(LATENCY, values, refusals=3) is None


def test_it_is_told_in_words_with_numbers() -> None:
    values = np.random.default_rng(4).poisson(0.1, 2 * DAY) / 60.0
    values[-5:] = 20.0 / 60.0
    found = oddity(FAILED, values)
    assert found is not None
    assert told(FAILED, found).startswith("jobs that failed: 100 in ten minutes; usually 0 to ")
    assert watched_as(("ares_jobs_total:rate", (("state", "succeeded"),))) is None
    assert watched_as(QUEUE) is not None
