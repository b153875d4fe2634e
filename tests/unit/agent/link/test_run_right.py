"""The right to run: dated from sending, moved only by acknowledgements."""

from math import inf

import pytest

from ares.agent.link.run_right import RunRight


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        raise AssertionError("leases must not look at the wall clock")

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def run_right(clock: HandClock) -> RunRight:
    run_right = RunRight(clock)
    run_right.set_terms(7 / 9, 9.0)
    return run_right


def test_there_is_no_right_before_the_first_acknowledgement(run_right: RunRight, clock: HandClock) -> None:
    run_right.sending()
    assert run_right.deadline(9.0) == -inf


def test_the_right_is_dated_from_when_the_renewal_was_sent(run_right: RunRight, clock: HandClock) -> None:
    nonce = run_right.sending()
    clock.now += 3.0
    assert run_right.acknowledged(nonce)
    assert run_right.deadline(9.0) == pytest.approx(107.0)
    assert run_right.deadline(90.0) == pytest.approx(170.0)


def test_acknowledgements_out_of_order_or_repeated_move_nothing_back(run_right: RunRight, clock: HandClock) -> None:
    first = run_right.sending()
    clock.now += 1.0
    second = run_right.sending()
    assert run_right.acknowledged(second)
    assert not run_right.acknowledged(first)
    assert not run_right.acknowledged(second)
    assert not run_right.acknowledged(999)
    assert run_right.deadline(9.0) == pytest.approx(108.0)
    assert run_right.unanswered_since() is None


def test_a_lost_session_keeps_the_right_and_forgets_what_was_under_way(run_right: RunRight, clock: HandClock) -> None:
    run_right.acknowledged(run_right.sending())
    clock.now += 1.0
    late = run_right.sending()
    assert run_right.unanswered_since() == 101.0
    run_right.dropped()
    assert run_right.unanswered_since() is None
    assert not run_right.acknowledged(late), "it was sent on another session"
    assert run_right.deadline(9.0) == pytest.approx(107.0)
    run_right.lost()
    assert run_right.deadline(9.0) == -inf


# ---- nobody is there who could judge


def _held(run_right: RunRight) -> None:
    assert run_right.acknowledged(run_right.sending())


def test_a_moment_without_control_plane_is_as_good_as_a_renewal(run_right: RunRight, clock: HandClock) -> None:
    _held(run_right)
    assert run_right.unjudged(104.0, 18.0)
    assert run_right.deadline(9.0) == pytest.approx(111.0)
    assert run_right.held_since() == 100.0, "a renewal is due all the same"


def test_such_moments_add_up_to_the_longest_lease_and_no_more(run_right: RunRight, clock: HandClock) -> None:
    """A store that was restored elsewhere lets no more than that pass."""
    _held(run_right)
    for at in (104.0, 110.0, 113.0):
        assert run_right.unjudged(at, 18.0)
    assert run_right.deadline(9.0) == pytest.approx(114.0)
    assert not run_right.unjudged(114.5, 18.0)
    assert run_right.deadline(9.0) == pytest.approx(114.0)
    assert run_right.deadline(90.0) == pytest.approx(170.0), "a job's own lease is never cut"


def test_a_right_that_has_ended_does_not_come_back(run_right: RunRight, clock: HandClock) -> None:
    """It may have been given away by a server that was killed since."""
    _held(run_right)
    assert not run_right.unjudged(107.0, 18.0)
    assert run_right.deadline(9.0) == pytest.approx(107.0)


def test_without_a_longer_lease_it_adds_nothing(run_right: RunRight, clock: HandClock) -> None:
    _held(run_right)
    run_right.unjudged(104.0, 9.0)
    assert run_right.deadline(9.0) == pytest.approx(107.0)


def test_a_lost_right_stays_lost_whatever_was_seen(run_right: RunRight, clock: HandClock) -> None:
    _held(run_right)
    assert run_right.unjudged(104.0, 18.0)
    run_right.lost()
    assert run_right.deadline(9.0) == -inf
    assert not run_right.unjudged(105.0, 18.0)
