"""Dominant shares at every level of the tree under the default profile, by hand: who gets how much of a cluster."""

from collections import Counter

import pytest

from ares.model.profile import Profile, Share
from tests.unit.core.world import NOW, cluster, node, plan, spec, state


def started(
    accounts: list[tuple[str, str, str]], slots: int = 20, late_s: float = 60.0, **shares: float
) -> Counter[str]:
    """How many of 20 slots each account gets: each has 20 jobs waiting, and each came a minute after the one before."""
    profile = Profile(shares={path.replace("__", "/"): Share(weight=weight) for path, weight in shares.items()})
    made = cluster(node("a", cpu=slots), profile=profile)
    for turn, (tenant, team, user) in enumerate(accounts):
        for number in range(20):
            who = state(f"{turn:02d}-{number:02d}", NOW - 3600 + late_s * turn, tenant, team=team, submitted_by=user)
            made.enqueue(who, spec(cpu=1))
    found = plan(made)
    names = ["/".join(account) for account in accounts]
    return Counter(names[int(placed.job[:2])] for placed in found.placed)


@pytest.mark.parametrize(
    "accounts",
    [
        [("a", "x", "u"), ("b", "x", "u")],
        [("t", "a", "u"), ("t", "b", "u")],
        [("t", "x", "a"), ("t", "x", "b")],
    ],
    ids=["tenants", "teams", "users"],
)
def test_equal_accounts_get_ten_each(accounts: list[tuple[str, str, str]]) -> None:
    assert sorted(started(accounts).values()) == [10, 10]


@pytest.mark.parametrize(
    ("accounts", "weights"),
    [
        ([("a", "x", "u"), ("b", "x", "u")], {"b": 3.0}),
        ([("t", "a", "u"), ("t", "b", "u")], {"t__b": 3.0}),
        ([("t", "x", "a"), ("t", "x", "b")], {"t__x__b": 3.0}),
    ],
    ids=["tenants", "teams", "users"],
)
def test_three_times_the_weight_gets_fifteen_of_twenty(
    accounts: list[tuple[str, str, str]], weights: dict[str, float]
) -> None:
    found = started(accounts, **weights)
    assert [found["/".join(account)] for account in accounts] == [5, 15]


def test_three_levels() -> None:
    """Tenants half each; of `a` its two teams half each; of team `a/x` its two users half each."""
    accounts = [("a", "x", "u"), ("a", "x", "v"), ("a", "y", "u"), ("b", "z", "u")]
    found = started(accounts, slots=24, late_s=5.0)
    assert dict(found) == {"a/x/u": 3, "a/x/v": 3, "a/y/u": 6, "b/z/u": 12}


def test_a_tenant_gains_nothing_by_having_many_teams() -> None:
    accounts = [("a", f"team{n}", "u") for n in range(5)] + [("b", "x", "u")]
    found = started(accounts, late_s=1.0)
    assert found["b/x/u"] == 10
    assert set(found.values()) == {2, 10}
