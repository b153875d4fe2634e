"""Intervals that learn from their misses hold in four of five cases, whatever the cases do."""

import random
from collections.abc import Callable

import pytest

from ares.core.forecast.spread import COVERAGE, IntervalEnds, Spread

CASES = 6000


def steady(chance: random.Random, _: int) -> float:
    return chance.lognormvariate(0.0, 1.0)


def drifting(chance: random.Random, case: int) -> float:
    """What is said gets ever more wrong: twenty times too short in the end."""
    return chance.lognormvariate(3.0 * case / CASES, 0.5)


def broken_in_two(chance: random.Random, case: int) -> float:
    return chance.lognormvariate(0.0 if case < CASES / 2 else 2.0, 0.3 if case < CASES / 2 else 1.5)


def bimodal(chance: random.Random, _: int) -> float:
    return chance.choice((0.01, 1.0, 1.0, 1.0, 50.0))


@pytest.mark.parametrize("world", [steady, drifting, broken_in_two])
@pytest.mark.parametrize("delay", [0, 200])
def test_four_of_five_hold(world: Callable[[random.Random, int], float], delay: int) -> None:
    """Also when a case is judged long after its interval was given."""
    chance, spread = random.Random(7), Spread()
    open_: list[tuple[float, IntervalEnds]] = []
    held = 0
    for case in range(CASES):
        open_.append((600.0 * world(chance, case), spread.ends))
        if len(open_) > delay:
            truth, given = open_.pop(0)
            held += spread.judge(600.0, truth, given=given)
    assert held / (CASES - delay) == pytest.approx(COVERAGE, abs=0.03)


def test_a_share_that_cannot_be_met_exactly_is_met_or_exceeded() -> None:
    chance, spread = random.Random(7), Spread()
    held = sum(spread.judge(600.0, 600.0 * bimodal(chance, case)) for case in range(CASES))
    assert held / CASES >= COVERAGE - 0.03


def test_the_interval_is_around_what_was_said_and_survives_being_kept() -> None:
    chance, spread = random.Random(7), Spread()
    for case in range(500):
        spread.judge(600.0, 600.0 * steady(chance, case))
    low, high = spread.around(600.0)
    assert 0.0 < low < 600.0 < high
    assert Spread(spread.data).around(600.0) == (low, high)
    # With a floor, nothing is said to be before now.
    assert spread.around(0.0, 60.0)[0] == 0.0
