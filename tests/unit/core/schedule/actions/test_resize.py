"""Elastic gangs: they grow where they may, and give back only what somebody can use."""

from typing import Any

import pytest
from msgspec.structs import replace

from ares.core.schedule.cluster import Cluster
from ares.model.job import Gang, JobTerm, TopologyWish
from ares.model.profile import Profile, Share
from tests.unit.core.world import NOW, cluster, node, placed, plan, run, spec, state


def gang(made: Cluster, *nodes: str, gpus: int = 1, **more: Any) -> None:
    """Runs with one rank on each of the nodes named; its ranks have GPUs of their own, from the first on."""
    ranks = tuple(
        placed(name, gpus=tuple(range(gpus * nodes[:at].count(name), gpus * (nodes[:at].count(name) + 1))), rank=at)
        for at, name in enumerate(nodes)
    )
    size = replace(Gang(ranks=8, min_ranks=1), **more.pop("gang", {}))
    wanted = spec(gpus=gpus, gang=size, **more)
    run(made, "gang", wanted, *ranks, started_ranks=tuple(range(len(nodes))))


def grown(made: Cluster) -> list[str]:
    """Where its new ranks go."""
    resized = plan(made).resized
    before = len(made.holdings["gang"].ranks)
    return [place.node for one in resized for place in one.placements[before:]]


def test_it_grows_to_its_full_size_and_numbers_its_ranks_on() -> None:
    made = cluster(node("a", gpus=4), node("b", gpus=8))
    gang(made, "a", "a", gang={"ranks": 5})
    (resized,) = plan(made).resized
    assert [place.rank for place in resized.placements] == [0, 1, 2, 3, 4]
    assert len({(place.node, gpu) for place in resized.placements for gpu in place.gpus}) == 5


def test_a_required_rack_holds_for_new_ranks_too() -> None:
    made = cluster(node("a", gpus=2, rack="r"), node("b", gpus=8, rack="s"), node("c", gpus=2, rack="r"))
    gang(made, "a", topology=TopologyWish(level="rack", required=True))
    assert sorted(grown(made)) == ["a", "c", "c"]


def test_a_node_without_a_rack_is_a_rack_of_its_own() -> None:
    made = cluster(node("a", gpus=2), node("b", gpus=8))
    gang(made, "a", topology=TopologyWish(level="rack", required=True))
    assert grown(made) == ["a"]


def test_a_required_nvlink_domain_holds_for_new_ranks_too() -> None:
    made = cluster(node("a", links=(3, 5)))
    gang(made, "a", topology=TopologyWish(level="nvlink", required=True))
    (resized,) = plan(made).resized
    assert [place.gpus for place in resized.placements] == [(0,), (1,), (2,)]


@pytest.mark.parametrize("near", [(), (JobTerm(labels={"x": "y"}, away=True),)])
def test_its_limit_for_each_node_counts_the_ranks_it_has(near: tuple[JobTerm, ...]) -> None:
    made = cluster(node("a", gpus=8), node("b", gpus=8))
    gang(made, "a", "a", gang={"per_node": 3}, job_affinity=near)
    assert sorted(grown(made)) == ["a", "b", "b", "b"]


def test_two_gangs_do_not_grow_beyond_their_tenants_limit_together() -> None:
    made = cluster(node("a", gpus=8), profile=Profile(shares={"t": Share(hard={"gpu": 5000})}))
    for at, name in enumerate(("one", "two")):
        run(made, name, spec(gpus=1, gang=Gang(ranks=4, min_ranks=1)), placed("a", gpus=(at,)), started_ranks=(0,))
    assert [len(one.placements) for one in plan(made).resized] == [4]


def test_nobody_grows_while_somebody_waits() -> None:
    made = cluster(node("a", gpus=8))
    gang(made, "a")
    made.enqueue(state("wide"), spec(gpus=8))
    assert grown(made) == []


def test_it_gives_up_no_more_ranks_than_help_and_never_the_first_it_needs() -> None:
    made = cluster(node("a", gpus=8))
    gang(made, *["a"] * 8, gang={"min_ranks": 3})
    made.enqueue(state("j"), spec(gpus=2))
    decided = plan(made)
    (resized,), (eviction,) = decided.resized, decided.evictions
    stay = [place.rank for place in resized.placements]
    assert (len(stay), stay[:3]) == (6, [0, 1, 2])
    assert {*eviction.hold[0].gpus} == {0, 1, 2, 3, 4, 5, 6, 7} - {
        gpu for one in resized.placements for gpu in one.gpus
    }


def test_jobs_that_could_never_run_hold_up_no_shrink() -> None:
    made = cluster(node("a", gpus=4))
    gang(made, *["a"] * 4, gang={"ranks": 4, "min_ranks": 1})
    for number in range(40):
        made.enqueue(state(f"never{number:02d}"), spec(gpus=100 + number))
    made.enqueue(state("small", 1.0), spec(gpus=1))
    assert [one.job for one in plan(made).evictions] == ["small"]


def test_a_gang_that_gave_up_ranks_does_not_grow_at_once_and_each_time_later() -> None:
    """Short jobs that keep coming use the room that the first of them was given."""
    made = cluster(node("a", gpus=4))
    waits, now = list[float](), NOW
    for _ in range(3):
        gang(made, *["a"] * 4, gang={"ranks": 4, "min_ranks": 1})
        plan(made, now)
        gang(made, *["a"] * 3, gang={"ranks": 4, "min_ranks": 1})
        moments = (now + step for step in range(0, 2000, 10))
        grows_at = next(moment for moment in moments if plan(made, moment).resized)
        waits.append(grows_at - now)
        now = grows_at
    assert waits == [60, 120, 240]
    gang(made, *["a"] * 4, gang={"ranks": 4, "min_ranks": 1})
    plan(made, now + 10_000)
    gang(made, *["a"] * 3, gang={"ranks": 4, "min_ranks": 1})
    assert plan(made, now + 10_050).resized == ()
    assert plan(made, now + 10_060).resized, "long after, it is the first time again"


def test_it_gives_up_nothing_when_that_would_not_be_enough_or_for_lesser_jobs() -> None:
    made = cluster(node("a", gpus=4))
    gang(made, *["a"] * 4, gang={"ranks": 4, "min_ranks": 3})
    made.enqueue(state("wide"), spec(gpus=2))
    made.enqueue(state("lesser"), spec(gpus=1, priority="LOW"))
    decided = plan(made)
    assert (decided.resized, decided.evictions) == ((), ())


def test_a_rank_on_a_node_that_is_gone_breaks_nothing() -> None:
    made = cluster(node("a", gpus=2), node("b", gpus=1))
    gang(made, "a", "a", "b", gang={"ranks": 3})
    made.drop_node("b")
    made.enqueue(state("j"), spec(gpus=1))
    assert [one.rule for one in plan(made).evictions] == ["shrink"]
