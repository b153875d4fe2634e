"""A time that goes on by itself, whatever the wall clock is set to."""

import pytest

from ares.control.state.steady_time import Steady

DAY_S = 86_400.0
START = Steady(1_000_000.0, 50.0)


@pytest.mark.parametrize(("ahead_s", "followed"), [(-DAY_S, False), (0.0, False), (60.0, True), (90.0, False)])
def test_only_a_little_ahead_is_believed_at_once(ahead_s: float, followed: bool) -> None:
    after = START.looked(1_000_010.0 + ahead_s, 60.0, 60.0, DAY_S)
    assert after.now(60.0) == 1_000_010.0 + (ahead_s if followed else 0.0)


def test_a_leap_is_believed_when_it_has_lasted_and_forgotten_when_it_is_corrected() -> None:
    leapt = START.looked(START.now(60.0) + 40 * DAY_S, 60.0, 60.0, DAY_S)
    assert leapt.jumped_since == 60.0
    late = 60.0 + DAY_S
    assert leapt.looked(START.now(late) + 40 * DAY_S, late - 1, 60.0, DAY_S).now(late) == START.now(late)
    assert leapt.looked(START.now(late) + 40 * DAY_S, late, 60.0, DAY_S).now(late) == START.now(late) + 40 * DAY_S
    right = leapt.looked(START.now(70.0), 70.0, 60.0, DAY_S)
    assert right.looked(START.now(late) + 40 * DAY_S, late, 60.0, DAY_S).now(late) == START.now(late)
