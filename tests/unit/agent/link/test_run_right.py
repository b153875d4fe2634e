"""The right to run: dated from sending, moved only by acknowledgements."""

from math import inf

import pytest

from ares.agent.link.run_right import Leash


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
def leash(clock: HandClock) -> Leash:
    leash = Leash(clock)
    leash.set_terms(7 / 9, 9.0)
    return leash


def test_there_is_no_right_before_the_first_acknowledgement(leash: Leash, clock: HandClock) -> None:
    leash.sending()
    assert leash.deadline(9.0) == -inf


def test_the_right_is_dated_from_when_the_renewal_was_sent(leash: Leash, clock: HandClock) -> None:
    nonce = leash.sending()
    clock.now += 3.0
    assert leash.acknowledged(nonce)
    assert leash.deadline(9.0) == pytest.approx(107.0)
    assert leash.deadline(90.0) == pytest.approx(170.0)


def test_acknowledgements_out_of_order_or_repeated_move_nothing_back(leash: Leash, clock: HandClock) -> None:
    first = leash.sending()
    clock.now += 1.0
    second = leash.sending()
    assert leash.acknowledged(second)
    assert not leash.acknowledged(first)
    assert not leash.acknowledged(second)
    assert not leash.acknowledged(999)
    assert leash.deadline(9.0) == pytest.approx(108.0)
    assert leash.unanswered_since() is None


def test_a_lost_session_keeps_the_right_and_forgets_what_was_under_way(leash: Leash, clock: HandClock) -> None:
    leash.acknowledged(leash.sending())
    clock.now += 1.0
    late = leash.sending()
    assert leash.unanswered_since() == 101.0
    leash.dropped()
    assert leash.unanswered_since() is None
    assert not leash.acknowledged(late), "it was sent on another session"
    assert leash.deadline(9.0) == pytest.approx(107.0)
    leash.lost()
    assert leash.deadline(9.0) == -inf


# ---- nobody is there who could judge


def _held(leash: Leash) -> None:
    assert leash.acknowledged(leash.sending())


def test_a_moment_without_control_plane_is_as_good_as_a_renewal(leash: Leash, clock: HandClock) -> None:
    _held(leash)
    assert leash.unjudged(104.0, 18.0)
    assert leash.deadline(9.0) == pytest.approx(111.0)
    assert leash.held_since() == 100.0, "a renewal is due all the same"


def test_such_moments_add_up_to_the_longest_lease_and_no_more(leash: Leash, clock: HandClock) -> None:
    """A store that was restored elsewhere lets no more than that pass."""
    _held(leash)
    for at in (104.0, 110.0, 113.0):
        assert leash.unjudged(at, 18.0)
    assert leash.deadline(9.0) == pytest.approx(114.0)
    assert not leash.unjudged(114.5, 18.0)
    assert leash.deadline(9.0) == pytest.approx(114.0)
    assert leash.deadline(90.0) == pytest.approx(170.0), "a job's own lease is never cut"


def test_a_right_that_has_ended_does_not_come_back(leash: Leash, clock: HandClock) -> None:
    """It may have been given away by a server that was killed since."""
    _held(leash)
    assert not leash.unjudged(107.0, 18.0)
    assert leash.deadline(9.0) == pytest.approx(107.0)


def test_without_a_longer_lease_it_adds_nothing(leash: Leash, clock: HandClock) -> None:
    _held(leash)
    leash.unjudged(104.0, 9.0)
    assert leash.deadline(9.0) == pytest.approx(107.0)


def test_a_lost_right_stays_lost_whatever_was_seen(leash: Leash, clock: HandClock) -> None:
    _held(leash)
    assert leash.unjudged(104.0, 18.0)
    leash.lost()
    assert leash.deadline(9.0) == -inf
    assert not leash.unjudged(105.0, 18.0)
