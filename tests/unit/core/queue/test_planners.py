"""Which planner a pool, a node and a job go to."""

import pytest

from ares.core.queue.planners import chosen, closeness, deal


def test_a_single_pool_has_every_planner() -> None:
    assert deal({"default": 10}, 4) == {"default": (0, 1, 2, 3)}


def test_each_pool_has_a_planner_before_any_has_two() -> None:
    dealt = deal({"small": 1, "large": 100}, 3)
    assert sorted(len(planners) for planners in dealt.values()) == [1, 2]
    assert len(dealt["large"]) == 2
    assert sorted(planner for planners in dealt.values() for planner in planners) == [0, 1, 2]


def test_more_pools_than_planners_are_spread_by_their_nodes() -> None:
    pools = {"a": 50, "b": 30, "c": 20, "d": 10}
    dealt = deal(pools, 2)
    loads = [sum(pools[pool] for pool, planners in dealt.items() if planners == (planner,)) for planner in (0, 1)]
    assert sum(loads) == 110
    assert max(loads) - min(loads) <= 10


@pytest.mark.parametrize("planners", [1, 2, 7])
def test_without_nodes_there_is_nothing_to_deal(planners: int) -> None:
    assert deal({}, planners) == {}


def test_names_are_spread_evenly() -> None:
    counts = [0] * 4
    for number in range(4000):
        counts[chosen((0, 1, 2, 3), f"node-{number}")] += 1
    assert min(counts) > 800


def test_own_nodes_come_first_and_others_in_an_order_of_ones_own() -> None:
    names = [f"node-{number}" for number in range(12)]
    homes = {name: number % 3 for number, name in enumerate(names)}
    orders = [
        sorted(names, key=lambda name, planner=planner: -closeness(name, homes[name], planner, 3))
        for planner in range(3)
    ]
    for planner, order in enumerate(orders):
        assert [homes[name] for name in order] == [(planner + away) % 3 for away in (0, 1, 2) for _ in range(4)]
        assert all(0.0 <= closeness(name, homes[name], planner, 3) <= 1.0 for name in names)
    # Nodes of the third are tried by the first and the second in different orders.
    assert [name for name in orders[0] if homes[name] == 2] != [name for name in orders[1] if homes[name] == 2]
