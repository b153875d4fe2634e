"""Dominant shares at every level of the tree under the default profile, by hand: who gets how much of a cluster."""

from collections import Counter

import pytest

from ares.model.profile import Profile, Share
from ares.sim.traces.engine import replay
from ares.sim.traces.policies import policy
from tests.unit.core.world import NOW, cluster, node, plan, spec, state
from tests.unit.sim.traces.made import job, trace


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


@pytest.mark.parametrize("level", ["tenant", "team", "user"])
def test_an_account_that_comes_to_a_cluster_that_another_has_filled_gets_its_half(level: str) -> None:
    """Both have far more jobs than there is room; the second came ten minutes later, to a full cluster."""
    names = ("first", "second")
    accounts = {name: {"tenant": "t", "team": "x", "user": "u"} | {level: name} for name in names}
    made = [
        (job(600.0 * late + at, 3600.0, expected_runtime_s=3600.0, **accounts[name]), name)
        for late, name in enumerate(names)
        for at in range(120)
    ]
    jobs = sorted(made, key=lambda pair: pair[0].submit)
    found = replay(trace(*(each for each, _ in jobs), cpus=20), policy("default"))
    hours = found.jobs.first_start / 3600.0
    later = [name for (_, name), hour in zip(jobs, hours, strict=True) if 2.0 <= hour < 7.0]
    assert len(later) == 100
    assert 44 <= later.count("second") <= 56
