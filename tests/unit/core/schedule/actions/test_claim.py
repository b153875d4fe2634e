"""Room that was kept: given to the one it was kept for as soon as nobody else is on it, and not a moment sooner."""

import pytest

from ares.model.profile import Pool, Profile, Share
from ares.model.state import Placement
from tests.unit.core.world import cluster, node, nodes_of, placed, places, plan, reserve, run, spec, state

GPUS = placed("a", gpus=(0, 1))
DEVICES = placed("a", devices={"fpga": ("f0",)})
NUMA = placed("a", cpu=3, numa=0)


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (GPUS, spec(gpus=2)),
        (placed("a", gpus=(0, 1), gpu_milli=600), spec(gpus=2, gpu_milli=600)),
        (DEVICES, spec(devices={"fpga": 1})),
        (NUMA, spec(cpu=3, numa="required")),
        (placed("a", cpu=8), spec(cpu=8)),
        (placed("a", memory=1000), spec(memory=1000)),
    ],
)  # fmt: skip
def test_a_victim_that_lingers_keeps_the_room_until_it_is_gone(place: Placement, wanted: object) -> None:
    made = cluster(node("a", gpus=2, numa=2, devices={"fpga": ("f0",)}))
    run(made, "victim", wanted, place, phase="PREEMPTED")  # pyright: ignore[reportArgumentType]
    made.enqueue(state("j"), wanted)  # pyright: ignore[reportArgumentType]
    reserve(made, "j", place, evicting=("victim",))
    waits = plan(made)
    assert (waits.placed, waits.unheld) == ((), ())
    made.release("victim")
    assert places(plan(made)) == {"j": place}


def test_nobody_else_gets_it() -> None:
    made = cluster(node("a", gpus=2))
    made.enqueue(state("j", 9), spec(gpus=2))
    made.enqueue(state("first", 0, tenant="u"), spec(gpus=1, priority="CRITICAL"))
    reserve(made, "j", GPUS)
    assert nodes_of(plan(made)) == [("j", "a")]


@pytest.mark.parametrize("why", ["restarted", "silent", "gone", "smaller"])
def test_room_that_is_of_no_use_any_more_is_given_up(why: str) -> None:
    made = cluster(node("a", gpus=2), node("b"))
    made.enqueue(state("j"), spec(gpus=2))
    reserve(made, "j", GPUS)
    if why == "restarted":
        made.put_node(node("a", gpus=2, incarnation=2))
    elif why == "silent":
        made.set_ready("a", False)
    elif why == "gone":
        made.drop_node("a")
    else:
        made.put_node(node("a", gpus=1))
    found = plan(made)
    assert (found.placed, found.unheld) == ((), ("j",))


def test_a_node_that_no_longer_declares_the_device_breaks_nothing() -> None:
    made = cluster(node("a"))
    made.enqueue(state("j"), spec(devices={"fpga": 1}))
    reserve(made, "j", DEVICES)
    assert plan(made).unheld == ("j",)


def test_a_victim_that_would_not_go_ends_the_wait() -> None:
    made = cluster(node("a", gpus=2))
    run(made, "victim", spec(gpus=2), GPUS)
    made.enqueue(state("j"), spec(gpus=2))
    reserve(made, "j", GPUS, evicting=("victim",))
    found = plan(made)
    assert (found.placed, found.unheld) == ((), ("j",))


def test_licences_and_limits_that_ran_out_meanwhile_still_count() -> None:
    profile = Profile(licences={"solver": 1}, shares={"t": Share(hard={"gpu": 2000})})
    made = cluster(node("a", gpus=4), profile=profile)
    run(made, "other", spec(licences={"solver": 1}), placed("a"))
    made.enqueue(state("licensed"), spec(gpus=2, licences={"solver": 1}))
    reserve(made, "licensed", GPUS)
    assert plan(made).placed == ()
    made.release("other")
    assert nodes_of(plan(made)) == [("licensed", "a")]
    run(made, "mine", spec(gpus=1), placed("a", gpus=(3,)))
    assert plan(made).placed == ()


def test_over_commit_counts_for_those_who_may_use_it() -> None:
    profile = Profile(pools={"default": Pool(overcommit_cpu=2.0)})
    made = cluster(node("a", cpu=4), profile=profile)
    run(made, "other", spec(cpu=4), placed("a", cpu=4))
    made.enqueue(state("j"), spec(cpu=3, qos="burstable"))
    reserve(made, "j", placed("a", cpu=3))
    assert nodes_of(plan(made)) == [("j", "a")]
    made.dequeue("j")
    made.enqueue(state("j"), spec(cpu=3))
    assert plan(made).placed == ()
