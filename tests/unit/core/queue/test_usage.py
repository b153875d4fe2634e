"""Use that fades: half after every half-life, whatever the order in which it becomes known."""

import random
from itertools import pairwise, permutations
from math import exp, log

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


@pytest.mark.parametrize("ended_at", [1.0, 90.0])
def test_an_end_that_is_heard_of_late_counts_for_what_was_asked_before(ended_at: float) -> None:
    """A small sibling did not count beside a job that was thought to run on."""

    def told(asked: bool) -> list[float]:
        usage = DecayedUsage(7 * DAY)
        usage.charge("small/t/u", 0.895, 0.0, 0.0)
        usage.charge("mid/t/u", 100.0, 0.0, 0.0)
        usage.begin("job", "big/t/u", Amounts(0, 0, 8000), 0.0)
        if asked:
            usage.normalised("mid/t/u", 100.0, TREE)
        usage.end("job", ended_at)
        return [usage.normalised("mid/t/u", now, TREE) for now in (101.0, HOUR)]

    assert told(asked=True) == pytest.approx(told(asked=False))


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


def _by_all_meters(usage: DecayedUsage, account: str, now: float, accounts: list[str], tree: dict[str, Share]) -> float:
    """The same as `normalised`, by reading every account there is."""
    known = {path for each in accounts for path in _paths(each)} | tree.keys()

    def level(parent: str, path: str) -> float:
        of_all = usage.of(parent, now)
        if usage.of(path, now) <= 0.0 or of_all <= 0.0:
            return 1.0
        depth = path.count("/")
        siblings = [
            each for each in known if each.count("/") == depth and each.startswith(f"{parent}/" if parent else "")
        ]
        weights = sum(
            tree.get(each, Share()).weight
            for each in siblings
            if each in tree or each == path or usage.of(each, now) >= 0.001 * of_all
        )
        return 2.0 ** -((usage.of(path, now) / of_all) / (tree.get(path, Share()).weight / weights))

    tenant, team, user = _paths(account)
    return (4.0 * level("", tenant) + 2.0 * level(tenant, team) + level(team, user)) / 7.0


def _paths(account: str) -> tuple[str, str, str]:
    tenant, team, _ = account.split("/")
    return tenant, f"{tenant}/{team}", account


@pytest.mark.parametrize("seed", range(20))
def test_siblings_that_count_are_those_that_all_meters_say(seed: int) -> None:
    chance, usage, now = random.Random(seed), DecayedUsage(DAY), 0.0
    accounts = [f"t{tenant}/x{team}/u" for tenant in range(12) for team in range(2)]
    trees: list[dict[str, Share]] = [TREE, {"t0": Share(weight=2.0), "t1/x0": Share(weight=3.0)}]
    tree, running = TREE, list[str]()
    for number in range(300):
        now += chance.choice((0.0, 1e-9, 1.0, 600.0, HOUR, DAY, 9 * DAY))
        what, account = chance.random(), chance.choice(accounts)
        if what < 0.4:
            usage.begin(str(number), account, Amounts(chance.choice((1, 1000, 64_000)), 1, 0), at=now)
            running.append(str(number))
        elif what < 0.7 and running:
            late_s = chance.choice((0.0, 0.0, 1e-9, 50.0))
            usage.end(running.pop(chance.randrange(len(running))), now - late_s)
        elif what < 0.75:
            usage.charge(account, 0.0, chance.choice((1.0, HOUR)), at=now)
        elif what < 0.77:
            tree = chance.choice(trees)
        asked_at = now - 1000.0 if what > 0.99 else now
        found = usage.normalised(account, asked_at, tree)
        assert found == pytest.approx(_by_all_meters(usage, account, asked_at, accounts, tree), rel=1e-12)


def test_one_tenant_asks_few_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    usage, exps = DecayedUsage(7 * DAY), _Counted()
    for number in range(300):
        usage.begin(str(number), f"t{number}/x/u", Amounts(1000, 1, 0), at=0.0)
    usage.normalised("t7/x/u", DAY, TREE)
    monkeypatch.setattr("ares.core.queue.usage.exp", exps)
    for number in range(300):
        usage.end(str(number), DAY + 60.0 * number)
        usage.normalised("t7/x/u", DAY + 60.0 * number, TREE)
    # Read whole, they would be 300 each time.
    assert exps.calls < 30 * 300


class _Counted:
    """The exponential, and how often it was asked for: once for each meter that is read."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, value: float) -> float:
        self.calls += 1
        return exp(value)
