"""Use that fades: half after every half-life, whatever the order in which it becomes known."""

from itertools import pairwise, permutations
from math import log

import pytest

from ares.core.queue.drf import Amounts
from ares.core.queue.usage import DecayedUsage
from ares.model.profile import Share

HOUR = 3600.0
DAY = 24 * HOUR
ONE_GPU = Amounts(0, 0, 1000)
# Nothing declared: all weigh the same.
TREE: dict[str, Share] = {}


def test_half_after_a_half_life_at_every_level() -> None:
    usage = DecayedUsage(7 * DAY)
    usage.charge("a/x/u", 8 * HOUR, 16 * 4 * HOUR, at=100.0)
    for path in ("", "a", "a/x", "a/x/u"):
        assert usage.of(path, 100.0) == pytest.approx(12.0)
        assert usage.of(path, 100.0 + 7 * DAY) == pytest.approx(6.0)
        assert usage.of(path, 100.0 + 70 * DAY) == pytest.approx(12.0 / 1024)
    assert usage.of("b", 100.0) == usage.of("a/y", 100.0) == 0.0


def test_running_attempt_accrues_and_fades_at_once() -> None:
    usage = DecayedUsage(DAY)
    usage.begin("job", "a/x/u", Amounts(16_000, 4096, 1000), at=0.0)
    # One GPU and sixteen CPUs are two GPUs; over short times that is rate times time.
    assert usage.of("a", 36.0) == pytest.approx(0.02, rel=1e-3)
    # For ever it approaches rate times half-life over ln 2.
    assert usage.of("a", 100 * DAY) == pytest.approx(2 * 24 / log(2))
    usage.end("job", DAY)
    assert usage.of("a/x/u", DAY) == pytest.approx(24 / log(2))
    assert usage.of("a/x/u", 2 * DAY) == pytest.approx(12 / log(2))


def test_ending_twice_and_beginning_twice_count_once() -> None:
    once, twice = DecayedUsage(DAY), DecayedUsage(DAY)
    for usage, repeats in ((once, 1), (twice, 3)):
        for number in range(repeats):
            usage.begin("job", "a/x/u", ONE_GPU, at=0.0 if number == 0 else 500.0)
        for _ in range(repeats):
            usage.end("job", 1000.0)
        usage.end("never began", 1000.0)
    assert once.of("a/x/u", 5000.0) == twice.of("a/x/u", 5000.0) > 0.0


def test_grown_gang_counts_by_what_it_held_when() -> None:
    grown, parts = DecayedUsage(DAY), DecayedUsage(DAY)
    grown.begin("gang", "a/x/u", ONE_GPU, at=0.0)
    grown.begin("gang", "a/x/u", Amounts(0, 0, 4000), at=HOUR)
    grown.end("gang", 2 * HOUR)
    for job, gpus, since, until in (("first", 1000, 0.0, HOUR), ("second", 4000, HOUR, 2 * HOUR)):
        parts.begin(job, "a/x/u", Amounts(0, 0, gpus), at=since)
        parts.end(job, until)
    assert grown.of("a", 3 * HOUR) == pytest.approx(parts.of("a", 3 * HOUR))
    assert grown.of("a", 3 * HOUR) == pytest.approx(5.0, rel=0.1)


def test_order_of_news_does_not_matter() -> None:
    def known(order: tuple[int, ...]) -> float:
        usage = DecayedUsage(HOUR)
        for number in order:
            if number == 0:
                usage.charge("a/x/u", HOUR, 0.0, at=10_000.0)
            elif number == 1:
                usage.charge("a/x/v", 0.0, 5 * HOUR, at=500.0)
            elif number == 2:
                usage.begin("late", "a/x/u", ONE_GPU, at=9000.0)
                usage.end("late", 12_000.0)
            else:
                usage.begin("early", "a/y/u", ONE_GPU, at=100.0)
                usage.end("early", 3000.0)
        return usage.of("a", 20_000.0)

    found = [known(order) for order in permutations(range(4))]
    assert found == pytest.approx([found[0]] * len(found), rel=1e-9)


def test_end_before_the_beginning_charges_nothing() -> None:
    usage = DecayedUsage(DAY)
    usage.begin("job", "a/x/u", ONE_GPU, at=1000.0)
    usage.end("job", 10.0)
    assert usage.of("a/x/u", 5000.0) == 0.0


def test_many_jobs_leave_no_rate_behind() -> None:
    usage = DecayedUsage(DAY)
    for number in range(1000):
        usage.begin(str(number), "a/x/u", Amounts(333, 1, 77), at=float(number))
    for number in range(1000):
        usage.end(str(number), 2000.0 + number)
    left = usage.of("a", 3000.0)
    assert usage.of("a", 3000.0 + DAY) == pytest.approx(left / 2)


def test_nothing_used_is_one_and_the_exact_share_is_a_half() -> None:
    usage = DecayedUsage(DAY)
    tree = {"a": Share(weight=3.0), "b": Share(weight=1.0)}
    assert usage.normalised("a/x/u", 0.0, tree) == 1.0
    usage.charge("a/x/u", 3 * HOUR, 0.0, at=0.0)
    usage.charge("b/x/u", 1 * HOUR, 0.0, at=0.0)
    assert usage.normalised("a/x/u", 0.0, tree) == pytest.approx(0.5)
    assert usage.normalised("b/x/u", 0.0, tree) == pytest.approx(0.5)
    # Fading changes nothing between them: both fade alike.
    assert usage.normalised("b/x/u", 9 * DAY, tree) == pytest.approx(0.5)
    usage.charge("b/x/u", 10 * HOUR, 0.0, at=0.0)
    assert usage.normalised("b/x/u", 0.0, tree) < 0.5 < usage.normalised("a/x/u", 0.0, tree)


def test_fair_share_looks_at_the_tenant_first_then_inside() -> None:
    usage = DecayedUsage(DAY)
    usage.charge("greedy/x/u", 90 * HOUR, 0.0, at=0.0)
    usage.charge("modest/x/u", 8 * HOUR, 0.0, at=0.0)
    usage.charge("modest/y/u", 2 * HOUR, 0.0, at=0.0)
    accounts = ["modest/z/new", "modest/y/u", "modest/x/u", "greedy/x/new", "greedy/x/u"]
    found = {account: usage.normalised(account, 0.0, TREE) for account in accounts}
    assert all(found[sooner] > found[later] for sooner, later in pairwise(accounts))
    # By hand: of the tenants' use 0.1 against a half, of the teams' 0.8 against a half, the only user.
    by_hand = (4 * 2 ** -(0.1 / 0.5) + 2 * 2 ** -(0.8 / 0.5) + 2 ** -(1 / 1)) / 7
    assert found["modest/x/u"] == pytest.approx(by_hand)
    assert all(0.0 <= one <= 1.0 for one in found.values())


def test_users_long_gone_do_not_dilute_the_shares_of_the_others() -> None:
    usage = DecayedUsage(DAY)
    for number in range(200):
        usage.charge(f"a/x/gone{number}", HOUR, 0.0, at=0.0)
    now = 40 * DAY
    usage.charge("a/x/u", HOUR, 0.0, at=now)
    usage.charge("a/x/v", HOUR, 0.0, at=now)
    assert usage.normalised("a/x/u", now, TREE) == pytest.approx(0.5, abs=1e-6)
    # Somebody who comes back weighs in again.
    usage.charge("a/x/gone7", 2 * HOUR, 0.0, at=now)
    by_hand = (4 * 0.5 + 2 * 0.5 + 2 ** -(0.25 / (1 / 3))) / 7
    assert usage.normalised("a/x/u", now, TREE) == pytest.approx(by_hand, abs=1e-6)


def test_another_profile_counts_at_once() -> None:
    usage = DecayedUsage(DAY)
    usage.charge("a/x/u", HOUR, 0.0, at=0.0)
    usage.charge("b/x/u", HOUR, 0.0, at=0.0)
    before = usage.normalised("a/x/u", 0.0, TREE)
    assert usage.normalised("a/x/u", 0.0, {"a": Share(weight=4.0)}) > before
    assert usage.normalised("a/x/u", 0.0, {"silent": Share(weight=2.0)}) < before
