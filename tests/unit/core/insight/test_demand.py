"""Forecasts: with how good they have been, and silent where they would be a guess."""

import numpy as np

from ares.core.insight.demand import DemandForecast, forecast

STEPS = 96


def _weeks(days: int, noise: float, seed: int = 1) -> np.ndarray:
    """Demand with days and weeks, and scatter that lasts for hours."""
    rng = np.random.default_rng(seed)
    step = np.arange(days * STEPS)
    usual = 80 + 40 * np.sin(2 * np.pi * step / STEPS) * np.where((step // STEPS) % 7 >= 5, 0.2, 1.0)
    rest = np.zeros(len(step))
    for now in range(1, len(step)):
        rest[now] = 0.97 * rest[now - 1] + rng.normal(0, noise)
    return usual + rest


def test_a_season_is_foreseen_and_its_skill_is_told() -> None:
    demand, capacity = _weeks(60, 3.0), np.full(60 * STEPS, 100.0)
    found = forecast(demand, capacity, 0, 6 * 3600.0)
    assert isinstance(found, DemandForecast)
    assert found.skill > 0.2
    assert 0.7 < found.coverage < 0.9
    assert found.low < found.high
    assert 0.0 <= found.probability <= 1.0


def test_what_cannot_be_foreseen_is_not_said() -> None:
    demand = np.random.default_rng(2).normal(100, 10, 60 * STEPS)
    said = forecast(demand, np.full(60 * STEPS, 100.0), 0, 6 * 3600.0)
    assert isinstance(said, str) or said.skill < 0.02
    # All of it is white noise: saying the share is as good as it gets.
    assert isinstance(said, str)
    assert "a guess" in said


def test_without_days_or_events_it_says_why() -> None:
    few = forecast(_weeks(5, 3.0), np.full(5 * STEPS, 100.0), 0, 7200.0)
    assert few == "it takes 14 days of numbers, there are 5.0"
    never = forecast(_weeks(30, 3.0), np.full(30 * STEPS, 1e6), 0, 7200.0)
    assert isinstance(never, str)
    assert "demand reached the capacity at 0 of" in never
