"""Many silent nodes at once: one pause, then silence counts again."""

import pytest

from ares.core.run.suspicion import Verdict, judge

DEAD_S = 9.0


def _ages(nodes: int, silent: int) -> dict[str, float]:
    return {f"n{n}": DEAD_S if n < silent else 0.0 for n in range(nodes)}


@pytest.mark.parametrize(
    ("nodes", "silent", "storm"),
    [(0, 0, False), (4, 4, False), (5, 1, False), (5, 2, True), (10, 2, False), (10, 3, True), (10, 0, False)],
)
def test_a_storm_is_more_than_a_fifth_of_at_least_five(nodes: int, silent: int, storm: bool) -> None:
    verdict = judge(_ages(nodes, silent), Verdict(), 100.0, DEAD_S)
    assert verdict == (Verdict(paused_since=100.0) if storm else Verdict())


def test_a_storm_gets_one_pause_of_one_period_and_the_next_storm_another() -> None:
    storm, calm = _ages(10, 5), _ages(10, 1)
    told = [judge(storm, Verdict(), 100.0, DEAD_S)]
    for now, ages in [(108.9, storm), (109.0, storm), (500.0, storm), (501.0, calm), (502.0, storm)]:
        told.append(judge(ages, told[-1], now, DEAD_S))
    paused, spent = Verdict(paused_since=100.0), Verdict(spent=True)
    assert told == [paused, paused, spent, spent, Verdict(), Verdict(paused_since=502.0)]
