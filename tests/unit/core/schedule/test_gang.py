"""Gangs: what they hold beside GPUs, how small an elastic one starts, and how few nodes it takes."""

import numpy as np
import pytest

from ares.core.explain.why import why_waiting
from ares.core.queue.waiting import class_key
from ares.core.schedule.gang import pick_nodes
from ares.model.job import Gang, TopologyWish
from ares.model.profile import Profile, Share
from tests.unit.core.world import NOW, cluster, left_out, node, placed, plan, run, spec, state

NVLINK = TopologyWish(level="nvlink", required=True)


def test_in_one_nvlink_domain_every_rank_gets_its_devices_and_its_numa_node() -> None:
    made = cluster(node("a", links=(4,), numa=1, devices={"fpga": ("f0", "f1")}))
    wanted = spec(gpus=2, devices={"fpga": 1}, numa="required", gang=Gang(ranks=2), topology=NVLINK)
    made.enqueue(state("j"), wanted)
    (one,) = plan(made).placed
    assert [(place.gpus, place.devices, place.numa) for place in one.placements] == [
        ((0, 1), {"fpga": ("f0",)}, 0),
        ((2, 3), {"fpga": ("f1",)}, 0),
    ]


def test_in_one_nvlink_domain_an_elastic_gang_starts_with_what_fits_and_shares_may_share() -> None:
    made = cluster(node("a", links=(3, 2)))
    made.enqueue(state("elastic"), spec(gpus=1, gang=Gang(ranks=5, min_ranks=2), topology=NVLINK))
    assert [place.gpus for place in plan(made).placed[0].placements] == [(0,), (1,), (2,)]
    made = cluster(node("a", links=(1, 1)))
    made.enqueue(state("shares"), spec(gpus=1, gpu_milli=250, gang=Gang(ranks=4), topology=NVLINK))
    assert {place.gpus for place in plan(made).placed[0].placements} == {(0,)}


def test_ranks_of_several_shares_fit_as_often_as_they_can() -> None:
    made = cluster(node("a", gpus=3))
    run(made, "one", spec(), placed("a", gpus=(0,), gpu_milli=500))
    run(made, "two", spec(), placed("a", gpus=(1,), gpu_milli=500))
    made.enqueue(state("j"), spec(gpus=2, gpu_milli=500, gang=Gang(ranks=2)))
    assert [place.gpus for place in plan(made).placed[0].placements] == [(0, 2), (1, 2)]


@pytest.mark.parametrize(("limit", "ranks"), [(0, 0), (1000, 0), (2000, 2), (3000, 3), (9000, 4)])
def test_an_elastic_gang_starts_with_as_many_ranks_as_its_hard_limit_allows(limit: int, ranks: int) -> None:
    made = cluster(node("a", gpus=8), profile=Profile(shares={"t": Share(hard={"gpu": limit})}))
    made.enqueue(state("j"), spec(gpus=1, gang=Gang(ranks=4, min_ranks=2)))
    assert sum(len(one.placements) for one in plan(made).placed) == ranks


def test_two_gangs_never_hold_half_of_each_other_s_room() -> None:
    made = cluster(*(node(f"n{n}", gpus=1) for n in range(5)))
    for job in ("one", "two"):
        made.enqueue(state(job), spec(gpus=1, gang=Gang(ranks=3)))
    decided = plan(made)
    assert ([len(one.placements) for one in decided.placed], left_out(decided)) == ([3], {"two": 1})


@pytest.mark.parametrize(("taken", "tail"), [((0,), " (4 free = 2 + 2)"), ((0, 1, 2), "")])
def test_free_room_is_told_as_a_sum_only_where_it_has_parts(taken: tuple[int, ...], tail: str) -> None:
    made = cluster(node("a", gpus=3), node("b", gpus=3))
    run(made, "one", spec(gpus=1), placed("a", gpus=(0,)))
    run(made, "two", spec(gpus=len(taken)), placed("b", gpus=taken))
    wanted = spec(gpus=1, gang=Gang(ranks=3), topology=TopologyWish(level="node", required=True))
    reason = why_waiting(made, class_key(state("j"), wanted), NOW)
    assert reason is not None
    assert (
        reason.message == f"needs room for 3 ranks at once in one node; now there is room for 2 in the roomiest{tail}"
    )


def picked(rooms: list[int], ranks: int) -> list[tuple[int, int]]:
    return pick_nodes(np.arange(len(rooms)), np.array(rooms), np.zeros(len(rooms)), ranks)


def test_few_nodes_full_ones_and_the_last_no_larger_than_it_must_be() -> None:
    assert picked([4, 8, 2, 8], 18) == [(1, 8), (3, 8), (2, 2)]
    assert picked([8, 3, 2, 3], 3) == [(1, 3)]
    assert picked([1, 1, 1], 2) == [(0, 1), (1, 1)]
    assert picked([5], 0) == []
