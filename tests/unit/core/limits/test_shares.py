"""A tenant that has had its share waits; one that is alone does not."""

from ares.core.limits import TimeShares


def shares() -> TimeShares:
    made = TimeShares(0.25, 0.1)
    made.came("calm", 0.0)
    made.came("noisy", 0.0)
    return made


def test_a_burst_is_had_at_once_and_the_rest_is_waited_for() -> None:
    made = shares()
    made.took("noisy", 0.1, 0.0)
    assert made.wait_s("noisy", 0.0) == 0.0
    made.took("noisy", 0.1, 0.0)
    assert made.wait_s("noisy", 0.0) == 0.4
    assert made.wait_s("calm", 0.0) == 0.0
    made.came("calm", 0.3)
    assert abs(made.wait_s("noisy", 0.3) - 0.1) < 1e-9
    assert made.wait_s("noisy", 0.41) == 0.0


def test_one_that_is_alone_waits_for_nobody() -> None:
    made = shares()
    for moment in range(100):
        made.came("noisy", moment / 10)
        made.took("noisy", 0.1, moment / 10)
    assert made.wait_s("noisy", 9.9) == 0.0
    made.came("calm", 10.0)
    # What it had while it was alone is soon forgiven.
    assert 0.0 < made.wait_s("noisy", 10.0) <= 2.0


def test_tenants_that_are_even_are_forgotten() -> None:
    made = TimeShares(0.25, 0.1)
    for number in range(5000):
        made.took(f"t{number}", 0.001, float(number))
    assert len(made) < 2000
