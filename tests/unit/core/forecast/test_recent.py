"""Running quantiles: exact on what they keep, faithful to change, and of one size for ever."""

from hypothesis import given
from hypothesis import strategies as st

from ares.core.forecast.spread import DECAY, KEPT, RecentValues

VALUES = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=3 * KEPT)
SHARES = st.floats(0.01, 0.99)


def taught(values: list[float]) -> RecentValues:
    recent = RecentValues()
    for value in values:
        recent.add(value)
    return recent


def weight_at_or_below(values: list[float], limit: float) -> float:
    """Of the weight of the latest, from first principles."""
    newest_first = values[::-1][:KEPT]
    weights = [DECAY**age for age in range(len(newest_first))]
    return sum(w for v, w in zip(newest_first, weights, strict=True) if v <= limit) / sum(weights)


@given(VALUES, SHARES)
def test_a_quantile_is_the_smallest_value_with_enough_weight(values: list[float], share: float) -> None:
    said = taught(values).quantile(share)
    assert said in values[-KEPT:]
    assert weight_at_or_below(values, said) >= share - 1e-6
    assert all(weight_at_or_below(values, v) < share + 1e-6 for v in values[-KEPT:] if v < said)


@given(VALUES, SHARES, SHARES)
def test_quantiles_are_in_order(values: list[float], one: float, other: float) -> None:
    recent = taught(values)
    assert recent.quantile(min(one, other)) <= recent.quantile(max(one, other))


@given(VALUES)
def test_size_is_bounded_and_data_brings_it_back(values: list[float]) -> None:
    recent = taught(values)
    assert len(recent) == min(len(values), KEPT)
    again = RecentValues(recent.values)
    assert [again.quantile(q) for q in (0.1, 0.5, 0.9)] == [recent.quantile(q) for q in (0.1, 0.5, 0.9)]


def test_a_change_is_followed_within_a_few_jobs() -> None:
    recent = taught([100.0] * 1000 + [900.0] * 4)
    assert recent.quantile(0.5) == 900.0, "four of sixteen runs, but the newest"
