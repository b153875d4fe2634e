"""Axes: ticks that people would have chosen, at the places where the values are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.sim.report import svg


@pytest.mark.parametrize(
    ("made", "labels"),
    [
        (svg.linear(0, 3600, "seconds"), ["0", "10 min", "20 min", "30 min", "40 min", "50 min", "1 h"]),
        (svg.linear(0, 10 * 86_400, "seconds"), ["0", "2 d", "4 d", "6 d", "8 d", "10 d"]),
        (svg.linear(0, 3 * 365 * 86_400, "seconds"), ["0", "364 d", "728 d", "1092 d"]),
        (svg.linear(0.0, 1.0, "share"), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (svg.from_zero(13.0), ["0", "5", "10", "15"]),
        (svg.from_zero(54_006.0), ["0", "10k", "20k", "30k", "40k", "50k", "60k"]),
        (svg.logarithmic(1, 7000, "seconds"), ["1 s", "10 s", "1 min", "10 min", "1 h"]),
        (svg.logarithmic(1, 100), ["1", "2", "5", "10", "20", "50", "100"]),
    ],
)
def test_ticks_are_round(made: svg.Scale, labels: list[str]) -> None:
    assert [tick.label for tick in made.ticks] == labels


def test_values_outside_are_drawn_at_the_edge() -> None:
    assert svg.logarithmic(1, 100).part(np.array([0.0, 1.0, 10.0, 100.0, 1e9])).tolist() == pytest.approx(
        [0, 0, 0.5, 1, 1]
    )


@given(st.floats(0, 1e12), st.floats(0, 1e12), st.sampled_from(["seconds", "share", "number"]))
def test_there_are_always_a_few_ticks_on_the_axis(one: float, other: float, unit: svg.Unit) -> None:
    made = svg.linear(min(one, other), max(one, other), unit)
    assert len(made.ticks) <= 8
    slack = (made.high - made.low) * 1e-6
    assert all(made.low - slack <= tick.at <= made.high + slack for tick in made.ticks)
    assert len(svg.from_zero(one, unit).ticks) >= 2
    assert svg.from_zero(one, unit).high >= one * (1 - 1e-9)
