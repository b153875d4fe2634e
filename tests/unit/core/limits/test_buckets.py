"""Rates hold over any time, bursts are what was promised, and idle keys are not kept."""

from hypothesis import given
from hypothesis import strategies as st

from ares.core.limits import Buckets


def test_a_burst_then_the_rate() -> None:
    buckets = Buckets[str](per_s=10.0, burst=5.0)
    assert [buckets.take("a", 100.0) for _ in range(5)] == [0.0] * 5
    assert round(buckets.take("a", 100.0), 6) == 0.1
    # A refusal takes nothing.
    assert round(buckets.take("a", 100.05), 6) == 0.05
    assert buckets.take("a", 100.1) == 0.0
    assert buckets.take("b", 100.0) == 0.0


def test_what_costs_more_than_a_bucket_is_had_for_a_full_one() -> None:
    buckets = Buckets[str](per_s=10.0, burst=5.0)
    assert buckets.take("a", 0.0, 1000.0) == 0.0
    assert round(buckets.take("a", 0.0), 6) == 0.1
    assert round(buckets.take("a", 0.0, 1000.0), 6) == 0.5


def test_what_is_left() -> None:
    buckets = Buckets[str](per_s=2.0, burst=4.0)
    assert (buckets.left("a", 0.0), buckets.empty("a", 0.0)) == (4.0, False)
    for _ in range(4):
        buckets.take("a", 0.0)
    assert (buckets.left("a", 0.0), buckets.empty("a", 0.0)) == (0.0, True)
    assert (buckets.left("a", 0.75), buckets.empty("a", 0.75)) == (1.5, False)


def test_idle_keys_are_forgotten() -> None:
    """A million addresses, each once: what is remembered is what came within the time a bucket fills."""
    buckets = Buckets[int](per_s=10.0, burst=10.0)
    most = 0
    for number in range(200_000):
        assert buckets.take(number, number * 0.001) == 0.0
        most = max(most, len(buckets))
    # A bucket of one taken token is full after 0.1 s: 100 keys are alive at any time.
    assert most <= 1100


@given(
    per_s=st.floats(0.5, 1000.0),
    burst=st.floats(1.0, 100.0),
    steps=st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.1, 20.0)), min_size=1, max_size=60),
)
def test_never_more_than_burst_and_rate(per_s: float, burst: float, steps: list[tuple[float, float]]) -> None:
    """In every stretch of time: at most the burst plus what the rate adds. And who waits as told is let in."""
    buckets = Buckets[str](per_s, burst)
    now, taken = 0.0, list[tuple[float, float]]()
    for pause, cost in steps:
        now += pause
        wait_s = buckets.take("k", now, cost)
        if wait_s:
            now += wait_s
            assert buckets.take("k", now, cost) == 0.0
        taken.append((now, min(cost, burst)))
    for first in range(len(taken)):
        total = 0.0
        for at, cost in taken[first:]:
            total += cost
            assert total <= burst + per_s * (at - taken[first][0]) + 1e-6 * burst
