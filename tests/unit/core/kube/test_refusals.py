"""Nodes that get nothing for a while."""

from ares.core.kube.refusals import FIRST_S, MOST_S, Refusals


def test_each_time_lasts_twice_as_long_and_long_after_it_begins_anew() -> None:
    refusals, now, lasted = Refusals(), 1000.0, list[float]()
    for _ in range(9):
        lasted.append(refusals.add("n", now))
        now += lasted[-1] + 1
    assert lasted == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert refusals.add("n", now + MOST_S) == FIRST_S
    assert refusals.add("other", 0.0) == FIRST_S


def test_the_end_is_told_once_however_late_it_is_looked_for() -> None:
    """A loop that was busy for minutes must not leave a node closed."""
    refusals = Refusals()
    refusals.add("n", 0.0)
    assert (refusals.said("n", 1.0), refusals.over(1.0)) == (True, set())
    assert (refusals.over(10_000.0), refusals.over(10_000.0)) == ({"n"}, set())
    assert not refusals.said("n", 10_000.0)
