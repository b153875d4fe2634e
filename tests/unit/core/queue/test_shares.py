"""Who holds what: the tree, weights, hard limits."""

from collections import Counter

import pytest

from ares.core.queue.drf import Amounts
from ares.core.queue.shares import BrokenLimit
from ares.model.profile import Share, ShareResource
from tests.unit.core.queue.filling import fill, shares, times

GPU = Amounts(1000, 1024, 1000)
# Of 100 GPUs.
CLUSTER = times(GPU, 100)


def test_tenant_with_thousand_jobs_does_not_crowd_out_one_with_five() -> None:
    tasks = {f"many/team/u{index}": GPU for index in range(10)} | {"few/team/user": GPU}
    order = fill(CLUSTER, tasks, wanted=dict.fromkeys(tasks, 100) | {"few/team/user": 5})
    # One task each in turn until the five are served; the rest is the other's.
    assert [account.split("/")[0] for account in order[:10]] == ["many", "few"] * 5
    assert Counter(account.split("/")[0] for account in order) == {"many": 95, "few": 5}


def test_team_of_one_gets_as_much_as_team_of_nine() -> None:
    tasks = {f"tenant/nine/u{index}": GPU for index in range(9)} | {"tenant/one/user": GPU}
    order = fill(CLUSTER, tasks)
    assert Counter(account.split("/")[1] for account in order) == {"nine": 50, "one": 50}
    inside = Counter(order)
    assert {inside[account] for account in tasks if "/nine/" in account} == {5, 6}


def test_tenant_comes_before_team_and_team_before_user() -> None:
    tally = shares(CLUSTER)
    tally.take("a/x/busy", times(GPU, 10))
    tally.take("b/x/busy", times(GPU, 11))
    # Somebody who holds nothing is not better off than their tenant; inside the tenant they are first.
    ranked = ["c/x/new", "a/y/new", "a/x/new", "a/x/busy", "b/y/new", "b/x/new", "b/x/busy"]
    assert sorted(ranked, key=tally.dominant) == ranked
    assert len({tally.dominant(account) for account in ranked}) == len(ranked)
    assert tally.dominant("c/x/new") == 0.0


def test_smallest_holding_counts_and_a_whole_cluster_does_not_spill() -> None:
    huge = Amounts(4_000_000_000, 1 << 40, 80_000_000)
    tally = shares(huge, {"heavy": Share(weight=1e6)})
    tally.take("heavy/x/u", Amounts(1, 1, 0))
    assert tally.dominant("heavy/x/u") > tally.dominant("heavy/x/v") > tally.dominant("heavy/y/v") > 0.0
    tally.take("light/x/u", huge)
    # The team and the user hold the cluster too, which must not make the tenant look larger by a step.
    assert 1.0 < tally.dominant("light/x/u") < 1.0 + 2.0**-20


@pytest.mark.parametrize("scale", [0.001, 1.0, 1000.0])
def test_only_the_relation_of_weights_matters(scale: float) -> None:
    tree = {"a": Share(weight=3 * scale), "b": Share(weight=scale)}
    order = fill(CLUSTER, {"a/x/u": GPU, "b/x/u": GPU}, tree)
    assert Counter(order) == {"a/x/u": 75, "b/x/u": 25}
    tally = shares(CLUSTER, tree)
    tally.take("b/x/u", CLUSTER)
    assert tally.dominant("b/x/u") >= min(1.0, scale) / scale
    assert tally.dominant("b/x/u") <= 1.0 + 2.0**-20


def test_resource_the_cluster_does_not_have_counts_nothing() -> None:
    tally = shares(Amounts(1000, 1000, 0))
    tally.take("a/x/u", Amounts(100, 0, 5000))
    assert tally.dominant("a/x/u") == pytest.approx(0.1, abs=2e-6)


@pytest.mark.parametrize("path", ["a", "a/x", "a/x/u"])
@pytest.mark.parametrize(("resource", "index"), [("cpu", 0), ("memory", 1), ("gpu", 2)])
def test_hard_limit_holds_at_every_level(path: str, resource: ShareResource, index: int) -> None:
    limit = 4 * GPU[index]
    tally = shares(CLUSTER, {path: Share(hard={resource: limit})})
    assert tally.over_hard("a/x/u", times(GPU, 4)) is None
    tally.take("a/x/u", times(GPU, 3))
    assert tally.over_hard("a/x/u", GPU) is None
    found = tally.over_hard("a/x/u", times(GPU, 2))
    assert found == BrokenLimit(path, resource, 2 * GPU[index], 3 * GPU[index], limit, GPU[index])
    # Another resource can still be had, and so can the same one elsewhere.
    assert tally.over_hard("a/x/u", Amounts(*(0 if each == index else 9000 for each in range(3)))) is None
    assert tally.over_hard("b/x/u", times(GPU, 9)) is None


def test_hard_limit_of_the_tenant_is_named_before_that_of_the_team() -> None:
    tally = shares(CLUSTER, {"a/x": Share(hard={"gpu": 1000}), "a": Share(hard={"gpu": 2000, "memory": 10})})
    tally.take("a/y/u", Amounts(0, 0, 2000))
    assert tally.over_hard("a/x/u", Amounts(0, 0, 3000)) == BrokenLimit("a", "gpu", 3000, 2000, 2000, 0)
    assert tally.over_hard("a/x/u", Amounts(0, 11, 3000)) == BrokenLimit("a", "memory", 11, 0, 10, 10)


def test_limit_lowered_below_what_is_held_leaves_nothing_free() -> None:
    tally = shares(CLUSTER, {"a": Share(hard={"gpu": 1000})})
    tally.take("a/x/u", times(GPU, 3))
    assert tally.over_hard("a/x/u", GPU) == BrokenLimit("a", "gpu", 1000, 3000, 1000, 0)
    assert tally.over_hard("a/x/u", Amounts(1000, 1024, 0)) is None


def test_what_is_held_counts_for_tenant_team_and_user() -> None:
    tally = shares(CLUSTER)
    tally.take("a/x/u", times(GPU, 2))
    tally.take("a/y/u/with/slashes", GPU)
    paths = ("a", "a/x", "a/x/u", "a/y/u/with/slashes", "a/z", "b")
    assert [tally.held(path).gpu_milli // 1000 for path in paths] == [3, 2, 2, 1, 0, 0]


def test_account_that_is_no_account_is_an_error() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        shares(CLUSTER).take("tenant/team", GPU)
