"""Fairness on generated cases. Tasks are whole, so each promise holds to within one task."""

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import fsum, isclose

from hypothesis import given
from hypothesis import strategies as st

from ares.core.queue.drf import Amounts
from ares.core.queue.factors import JobFacts, explain, rank
from ares.core.queue.shares import Shares
from ares.core.queue.usage import DecayedUsage
from ares.model.profile import OrderPolicy, Share
from tests.unit.core.queue.filling import fill, times

CAPACITY = Amounts(1000, 1000, 1000)
# Shares are compared in steps; a task is at least 1/200 of the cluster, so a step is far less than a task.
ROUNDING = Fraction(1, 100)
LEVELS = ("{}/x/u", "t/{}/u", "t/x/{}")

amounts = st.integers(0, 120)
tasks = st.builds(Amounts, amounts, amounts, amounts).filter(lambda task: max(task) >= 5)
users = st.lists(tasks, min_size=2, max_size=4)
templates = st.sampled_from(LEVELS)


def _named(template: str, wants: list[Amounts]) -> dict[str, Amounts]:
    return {template.format(f"n{index}"): task for index, task in enumerate(wants)}


def _declared(template: str, weights: list[float]) -> dict[str, Share]:
    depth = template.split("/").index("{}") + 1
    paths = ["/".join(account.split("/")[:depth]) for account in _named(template, [CAPACITY] * len(weights))]
    return {path: Share(weight=weight) for path, weight in zip(paths, weights, strict=True)}


def _biggest(task: Amounts) -> Fraction:
    return max(Fraction(asked, whole) for asked, whole in zip(task, CAPACITY, strict=True))


def _worth(bundle: Amounts, task: Amounts) -> Fraction:
    """How many tasks `bundle` is enough for."""
    return min(Fraction(some, asked) for some, asked in zip(bundle, task, strict=True) if asked)


def _filled(named: Mapping[str, Amounts], tree: Mapping[str, Share] | None = None) -> Counter[str]:
    return Counter(fill(CAPACITY, named, tree))


def _free(named: Mapping[str, Amounts], got: Counter[str]) -> Amounts:
    return Amounts(*(CAPACITY[i] - sum(got[who] * task[i] for who, task in named.items()) for i in range(3)))


@given(templates, users)
def test_nobody_wants_what_another_has(template: str, wants: list[Amounts]) -> None:
    named = _named(template, wants)
    got = _filled(named)
    for me, mine in named.items():
        for other, theirs in named.items():
            # Without its last task the other had no more than me when it got it; what came after left no room for mine.
            bundle = Amounts(*(max(0, got[other] - 1) * amount for amount in theirs))
            assert _worth(bundle, mine) < got[me] + 1 + ROUNDING, f"{me} envies {other}: {got}"


@given(templates, users)
def test_sharing_is_better_than_splitting_and_nothing_useful_is_left(template: str, wants: list[Amounts]) -> None:
    named = _named(template, wants)
    got = _filled(named)
    one_task = max(_biggest(task) for task in wants)
    free = _free(named, got)
    assert min(free) >= 0
    for me, mine in named.items():
        assert got[me] * _biggest(mine) >= Fraction(1, len(wants)) - one_task - ROUNDING / 100, f"{me} gets {got}"
        assert _worth(free, mine) < 1, f"{me} could have one more: {free} is free"


small = st.builds(Amounts, *[st.integers(5, 40)] * 3)
# Several tasks in one, some resources padded, or something else altogether.
lies = st.builds(
    lambda *factors: lambda task: Amounts(*(f * a for f, a in zip(factors, task, strict=True))),
    *[st.integers(1, 4)] * 3,
)


@given(templates, st.lists(small, min_size=2, max_size=4), lies | small.map(lambda task: lambda _: task))
def test_asking_for_something_else_than_needed_gains_nothing(
    template: str, wants: list[Amounts], lie: Callable[[Amounts], Amounts]
) -> None:
    named = _named(template, wants)
    me, mine = next(iter(named.items()))
    honest, false = _filled(named)[me], lie(mine)
    told = _filled({**named, me: false})[me]
    useful = _worth(times(false, told), mine)
    # Whole tasks round: by one of mine, and by one of the largest in the case in units of mine.
    one_task = max(_biggest(task) for task in (*wants, false)) / _biggest(mine)
    assert useful <= honest + 1 + one_task + ROUNDING, f"{told} x {false} instead of {honest} x {mine}"


@given(templates, users, st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_everybody_gets_by_weight(template: str, wants: list[Amounts], weights: list[int]) -> None:
    named = _named(template, wants)
    weights = weights[: len(wants)]
    got = _filled(named, _declared(template, [float(weight) for weight in weights]))
    one_task = max(_biggest(task) / weight for task, weight in zip(wants, weights, strict=True))
    for (me, mine), weight in zip(named.items(), weights, strict=True):
        # As for equal weights, where each of `sum(weights)` parts counts for itself.
        assert got[me] * _biggest(mine) / weight >= Fraction(1, sum(weights)) - one_task - ROUNDING / 100, f"{got}"


accounts = st.builds("{}/{}/{}".format, *[st.sampled_from("ab")] * 3)
helds = st.builds(Amounts, *[st.integers(0, 400)] * 3)
orders = st.builds(
    OrderPolicy,
    ageing_s=st.floats(1.0, 1e6),
    horizon_s=st.floats(1.0, 1e6),
)
facts = st.builds(
    JobFacts,
    level=st.integers(0, 4),
    submitted_at=st.floats(0.0, 1e6),
    latest_start=st.none() | st.floats(0.0, 2e6),
    account=accounts,
    served_s=st.floats(0.0, 1e9),
)
weights = st.dictionaries(
    st.sampled_from(["a", "b", "a/a", "b/a", "a/b/a"]), st.builds(Share, weight=st.floats(0.001, 1e3))
)


@given(weights, st.lists(st.tuples(accounts, helds), max_size=12), facts, orders)
def test_taking_raises_no_rank(
    tree: dict[str, Share], taken: list[tuple[str, Amounts]], job: JobFacts, order: OrderPolicy
) -> None:
    now = 1e6
    shares = Shares(CAPACITY, tree, DecayedUsage(order.half_life_s), now)
    ranks = [rank(job, shares, order, now)]
    for account, held in taken:
        before = shares.dominant(job.account)
        shares.take(account, held)
        assert shares.dominant(job.account) >= before
        ranks.append(rank(job, shares, order, now))
    assert ranks == sorted(ranks, reverse=True)


@given(st.lists(st.tuples(accounts, helds), min_size=1, max_size=12), accounts, accounts)
def test_comparing_numbers_is_comparing_level_by_level(taken: list[tuple[str, Amounts]], one: str, other: str) -> None:
    shares = Shares(CAPACITY, {}, DecayedUsage(1.0), 0.0)
    held: Counter[tuple[str, int]] = Counter()
    for account, amounts in taken:
        shares.take(account, amounts)
        for depth in (1, 2, 3):
            for index in range(3):
                held["/".join(account.split("/")[:depth]), index] += amounts[index]

    def path(account: str) -> list[int]:
        levels = ["/".join(account.split("/")[:depth]) for depth in (1, 2, 3)]
        tenant, *inside = [max(held[level, index] for index in range(3)) for level in levels]
        # Inside a tenant, more than the whole cluster counts as the whole.
        return [tenant, *(min(amount, CAPACITY[0]) for amount in inside)]

    assert (shares.dominant(one) < shares.dominant(other)) == (path(one) < path(other))


@given(weights, st.lists(st.tuples(accounts, helds), max_size=5), facts, orders, st.floats(0.0, 3e6))
def test_terms_add_up_to_the_rank_exactly(
    tree: dict[str, Share], taken: list[tuple[str, Amounts]], job: JobFacts, order: OrderPolicy, now: float
) -> None:
    usage = DecayedUsage(order.half_life_s)
    shares = Shares(CAPACITY, tree, usage, now)
    for account, held in taken:
        shares.take(account, held)
        usage.charge(account, float(held.gpu_milli), float(held.cpu_milli), at=now / 2)
    shown = explain(job, shares, order, now)
    for which, total in zip(("primary", "secondary"), rank(job, shares, order, now), strict=True):
        assert fsum(one.product for one in shown if one.sum == which) == total
    assert all(one.product == one.weight * one.value for one in shown)


uses = st.tuples(accounts, helds, st.floats(0.0, 1e5), st.floats(0.0, 1e5), st.booleans())


@given(st.lists(uses, min_size=1, max_size=8), st.data(), st.floats(60.0, 1e6))
def test_use_does_not_depend_on_the_order_of_news(
    told: list[tuple[str, Amounts, float, float, bool]], data: st.DataObject, half_life_s: float
) -> None:
    def known(order: list[int]) -> DecayedUsage:
        usage = DecayedUsage(half_life_s)
        for number in order:
            account, held, since, lasts, runs = told[number]
            if runs:
                usage.begin(str(number), account, held, since)
                usage.end(str(number), since + lasts)
            else:
                usage.charge(account, held.gpu_milli * lasts, held.cpu_milli * lasts, since + lasts)
        return usage

    numbers = list(range(len(told)))
    one, other = known(numbers), known(data.draw(st.permutations(numbers)))
    now = 3e5
    for path in {"", *(account for account, *_ in told)}:
        assert isclose(one.of(path, now), other.of(path, now), rel_tol=1e-6, abs_tol=1e-9)
        # With nothing running, everything fades alike.
        assert isclose(one.of(path, now + half_life_s), one.of(path, now) / 2, rel_tol=1e-9, abs_tol=1e-12)
