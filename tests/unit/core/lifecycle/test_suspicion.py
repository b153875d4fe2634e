"""Many silent nodes at once: one pause, then silence counts again."""

import pytest

from ares.core.lifecycle.suspicion import Suspicion, judge

DEAD_S = 9.0


def _ages(nodes: int, silent: int) -> dict[str, float]:
    return {f"n{n}": DEAD_S if n < silent else 0.0 for n in range(nodes)}


@pytest.mark.parametrize(
    ("nodes", "silent", "storm"),
    [(0, 0, False), (4, 4, False), (5, 1, False), (5, 2, True), (10, 2, False), (10, 3, True), (10, 0, False)],
)
def test_a_storm_is_more_than_a_fifth_of_at_least_five(nodes: int, silent: int, storm: bool) -> None:
    verdict = judge(_ages(nodes, silent), Suspicion(), 100.0, DEAD_S)
    assert verdict == (Suspicion(paused_since=100.0) if storm else Suspicion())


def test_a_storm_gets_one_pause_of_one_period_and_the_next_storm_another() -> None:
    storm, calm = _ages(10, 5), _ages(10, 1)
    told = [judge(storm, Suspicion(), 100.0, DEAD_S)]
    for now, ages in [(111.2, storm), (111.25, storm), (500.0, storm), (501.0, calm), (502.0, storm)]:
        told.append(judge(ages, told[-1], now, DEAD_S))
    paused, spent = Suspicion(paused_since=100.0), Suspicion(spent=True)
    assert told == [paused, paused, spent, spent, Suspicion(), Suspicion(paused_since=502.0)]


def test_a_node_that_has_been_dead_for_long_is_no_part_of_a_storm() -> None:
    """One of five machines has been off for an hour; when a second one dies, its jobs must not wait for a storm."""
    ages = {"off": 3600.0, "dies": DEAD_S, "a": 0.0, "b": 1.0, "c": 2.0}
    assert judge(ages, Suspicion(), 100.0, DEAD_S) == Suspicion()
    many = {**{f"off{n}": 100.0 + n for n in range(50)}, **_ages(10, 2)}
    assert judge(many, Suspicion(), 100.0, DEAD_S) == Suspicion()
    # Nor do the dead hide one: three of the ten that were left are silent.
    assert judge({**many, **_ages(10, 3)}, Suspicion(), 100.0, DEAD_S) == Suspicion(paused_since=100.0)


def test_who_falls_silent_together_is_seen_together() -> None:
    """They renewed at different times: when the first lease is over, the storm must be known already."""
    ages = {f"n{n}": 4.5 * n / 1000 for n in range(1000)}
    verdict, now = Suspicion(), 0.0
    while max(ages.values()) < DEAD_S:
        now += 0.5
        ages = {node: age + 0.5 for node, age in ages.items()}
        verdict = judge(ages, verdict, now, DEAD_S)
    assert verdict.paused_since is not None
    assert sum(age >= DEAD_S for age in ages.values()) < 0.2 * len(ages)
