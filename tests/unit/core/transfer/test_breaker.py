"""The breaker: open after many errors, one probe, then a ramp."""

import pytest

from ares.core.transfer.breaker import PROBE_MAX_S, RAMP_S, REQUESTS_MIN, WINDOW_S, EndpointBreaker, failed
from ares.core.transfer.leases import floor, leased


def opened(at: float = 0.0) -> EndpointBreaker:
    breaker = EndpointBreaker()
    for _ in range(REQUESTS_MIN):
        breaker.ended(at, ok=False)
    assert breaker.phase(at) == "open"
    return breaker


def test_few_errors_or_a_small_share_of_many_open_nothing() -> None:
    breaker = EndpointBreaker()
    for _ in range(REQUESTS_MIN - 1):
        breaker.ended(0.0, ok=False)
    assert breaker.phase(0.0) == "closed"
    breaker = EndpointBreaker()
    for number in range(200):
        breaker.ended(0.0, ok=number % 5 < 3)
    assert breaker.phase(0.0) == "closed"
    assert breaker.wait_s(0.0) == 0.0


def test_half_of_twenty_open_it() -> None:
    breaker = EndpointBreaker()
    for number in range(REQUESTS_MIN):
        breaker.ended(0.0, ok=number % 2 == 0)
    assert breaker.phase(0.0) == "open"


def test_old_errors_are_forgotten() -> None:
    breaker = EndpointBreaker()
    for _ in range(REQUESTS_MIN - 1):
        breaker.ended(0.0, ok=False)
    breaker.ended(WINDOW_S + 0.1, ok=False)
    assert breaker.phase(WINDOW_S + 0.1) == "closed"
    assert not breaker.idle(WINDOW_S + 0.1)
    assert breaker.idle(3 * WINDOW_S)


def test_one_request_probes_and_each_failure_doubles_the_pause() -> None:
    breaker, now, pauses = opened(), 0.0, list[float]()
    for _ in range(6):
        wait_s = breaker.wait_s(now)
        pauses.append(wait_s)
        now += wait_s
        assert breaker.wait_s(now) == 0.0
        assert breaker.phase(now) == "probing"
        assert breaker.wait_s(now) > 0.0
        breaker.ended(now, ok=False)
    assert pauses == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]


def test_after_a_good_probe_a_growing_part_goes_through() -> None:
    breaker = opened()
    assert breaker.wait_s(5.0) == 0.0
    breaker.ended(5.0, ok=True)
    assert breaker.phase(5.0) == "ramping"

    def let_through(at: float) -> int:
        return sum(breaker.wait_s(at) == 0.0 for _ in range(100))

    assert let_through(5.0) == pytest.approx(10, abs=1)
    assert let_through(5.0 + RAMP_S / 2) == pytest.approx(55, abs=1)
    assert let_through(5.0 + RAMP_S) == 100
    assert breaker.phase(5.0 + RAMP_S) == "closed"


def test_errors_in_the_ramp_open_it_for_longer() -> None:
    breaker = opened()
    breaker.wait_s(5.0)
    breaker.ended(5.0, ok=True)
    for _ in range(REQUESTS_MIN):
        breaker.ended(6.0, ok=False)
    assert breaker.wait_s(6.0) == 10.0


def test_a_probe_that_never_ends_is_followed_by_another() -> None:
    breaker = opened()
    assert breaker.wait_s(5.0) == 0.0
    assert breaker.wait_s(30.0) > 0.0
    assert breaker.wait_s(5.0 + PROBE_MAX_S) == 0.0
    breaker.given_up()
    assert breaker.wait_s(6.0 + PROBE_MAX_S) == 0.0


@pytest.mark.parametrize("status", [200, 206, 304, 400, 403, 404, 412, 416])
def test_answers_are_no_failures(status: int) -> None:
    assert not failed(status)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_a_failure(status: int) -> None:
    assert failed(status)


def test_a_rate_is_dealt_out_by_demand_and_never_more_than_there_is() -> None:
    rates = leased(100.0, {"n1": 30.0, "n2": 10.0}, elsewhere=40.0, nodes=10)
    assert rates == {"n1": pytest.approx(95 * 30 / 80 + 0.5), "n2": pytest.approx(95 * 10 / 80 + 0.5)}
    everywhere = leased(100.0, {f"n{number}": float(number) for number in range(10)}, 0.0, 10)
    assert sum(everywhere.values()) == pytest.approx(100.0)
    assert leased(100.0, {"n1": 0.0}, 0.0, 3) == {}
    assert floor(100.0, 0) == pytest.approx(5.0)
