"""Making room: what the properties of victims do not show, as it is about the whole cycle."""

from ares.core.ask import Ask
from ares.core.schedule.actions.allocate import allocate
from ares.core.schedule.actions.resize import shrink
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.share_excess import standing
from ares.core.schedule.trial import Trial
from ares.model.job import Gang, TopologyWish
from ares.model.profile import PreemptionPolicy, Profile, Share
from tests.unit.core.world import NOW, cluster, node, placed, plan, reserve, run, spec, state

LOW = spec(gpus=1, priority="BEST_EFFORT")


def test_a_gang_that_was_shrunk_in_a_cycle_is_not_evicted_in_the_same_one() -> None:
    """Its ranks that left would be given away twice."""
    made = cluster(node("a", gpus=4))
    elastic = spec(gpus=1, priority="LOW", gang=Gang(ranks=4, min_ranks=2))
    ranks = [placed("a", gpus=(at,), rank=at) for at in range(4)]
    run(made, "gang", elastic, *ranks, started_ranks=(0, 1, 2, 3))
    made.enqueue(state("two"), spec(gpus=2, priority="LOW"))
    made.enqueue(state("four"), spec(gpus=4, priority="CRITICAL"))
    decided = plan(made)
    kept = [gpu for one in decided.evictions for place in one.hold for gpu in place.gpus]
    assert len(kept) == len(set(kept))
    assert [(one.job, one.rule) for one in decided.evictions] == [("two", "shrink")]


def test_room_kept_for_one_is_not_made_again_for_another() -> None:
    made = cluster(node("a", gpus=1), node("b", gpus=1))
    for name in ("a", "b"):
        run(made, f"on-{name}", LOW, placed(name, gpus=(0,)))
    for job in ("first", "second", "third"):
        made.enqueue(state(job, tenant=job), spec(gpus=1, priority="CRITICAL"))
    decided = plan(made)
    assert [one.job for one in decided.evictions] == ["first", "second"]
    assert {one.victims for one in decided.evictions} == {("on-a",), ("on-b",)}
    assert {one.hold[0].node for one in decided.evictions} == {"a", "b"}


def test_whoever_has_room_kept_evicts_nobody_else() -> None:
    made = cluster(node("a", gpus=1), node("b", gpus=1))
    run(made, "leaving", LOW, placed("a", gpus=(0,)), phase="PREEMPTED")
    run(made, "stays", LOW, placed("b", gpus=(0,)))
    made.enqueue(state("j"), spec(gpus=1, priority="CRITICAL"))
    reserve(made, "j", placed("a", gpus=(0,)), evicting=("leaving",))
    assert plan(made).evictions == ()


def test_nobody_leaves_for_a_job_that_a_limit_or_a_licence_holds_back() -> None:
    profile = Profile(shares={"t": Share(hard={"gpu": 0})}, licences={})
    for blocked in (spec(gpus=1, priority="CRITICAL"), spec(gpus=1, priority="CRITICAL", licences={"x": 1})):
        made = cluster(node("a", gpus=1), profile=profile)
        run(made, "low", LOW, placed("a", gpus=(0,)), tenant="u")
        made.enqueue(state("j"), blocked)
        assert plan(made).evictions == ()


def test_room_for_an_elastic_gang_keeps_to_its_hard_limit() -> None:
    made = cluster(node("a", gpus=4), profile=Profile(shares={"t": Share(hard={"gpu": 2000})}))
    run(made, "low", spec(gpus=4, priority="BEST_EFFORT"), placed("a", gpus=(0, 1, 2, 3)), tenant="u")
    made.enqueue(state("j"), spec(gpus=1, priority="CRITICAL", gang=Gang(ranks=4, min_ranks=2)))
    (eviction,) = plan(made, preemption=PreemptionPolicy(disruption_max=2.0)).evictions
    assert len(eviction.hold) == 2


def test_a_gang_that_must_stay_together_gets_room_in_one_rack() -> None:
    racks = [node(f"{rack}{n}", gpus=1, rack=rack) for rack in ("a", "b") for n in (1, 2)]
    made = cluster(*racks)
    for name, level in (("a1", "BEST_EFFORT"), ("b1", "BEST_EFFORT"), ("b2", "BEST_EFFORT"), ("a2", "HIGH")):
        run(made, f"on-{name}", spec(gpus=1, priority=level), placed(name, gpus=(0,)))
    together = TopologyWish(level="rack", required=True)
    made.enqueue(state("j"), spec(gpus=1, priority="CRITICAL", gang=Gang(ranks=2), topology=together))
    (eviction,) = plan(made, preemption=PreemptionPolicy(gap=3)).evictions
    assert (eviction.victims, [place.node for place in eviction.hold]) == (("on-b1", "on-b2"), ["b1", "b2"])


def test_a_victim_on_a_node_that_came_back_smaller_breaks_nothing() -> None:
    made = cluster(node("a", gpus=12, devices={"fpga": ("f0",)}), node("b", gpus=2))
    held = placed("a", gpus=(0, 11), devices={"fpga": ("f0",)})
    run(made, "low", spec(gpus=2, priority="BEST_EFFORT"), held)
    made.put_node(node("a", gpus=1, incarnation=2))
    made.drop_node("b")
    made.enqueue(state("j"), spec(gpus=1, priority="CRITICAL"))
    assert [one.victims for one in plan(made, preemption=PreemptionPolicy(disruption_max=4.0)).evictions] == [("low",)]


OWN = {"a": Share(soft={"gpu": 2000}), "b": Share(soft={"gpu": 2000})}


def _lent(gpus: int) -> Cluster:
    """One node of GPUs, every two of them with a job of b."""
    made = cluster(node("n", cpu=64, gpus=gpus), profile=Profile(shares=OWN))
    for at in range(0, gpus, 2):
        run(made, f"b{at}", spec(gpus=2), placed("n", gpus=(at, at + 1)), tenant="b")
    return made


def _reclaimed(made: Cluster) -> list[str]:
    return [one.job for one in plan(made).evictions if one.rule == "reclaim"]


def test_two_classes_of_one_account_reclaim_its_own_once() -> None:
    made = _lent(8)
    made.enqueue(state("first", tenant="a"), spec(gpus=2))
    made.enqueue(state("second", 1.0, tenant="a"), spec(gpus=2, cpu=2))
    assert _reclaimed(made) == ["first"]


def test_what_one_account_gives_back_in_a_cycle_is_not_taken_from_it_again() -> None:
    """b borrows two GPUs: the first asker gets them, and then b has only what is its own."""
    made = cluster(node("n", cpu=64, gpus=4), profile=Profile(shares={**OWN, "c": OWN["a"]}))
    for at in (0, 2):
        run(made, f"b{at}", spec(gpus=2), placed("n", gpus=(at, at + 1)), tenant="b")
    made.enqueue(state("of-a", tenant="a"), spec(gpus=2))
    made.enqueue(state("of-c", 1.0, tenant="c"), spec(gpus=2))
    assert _reclaimed(made) == ["of-a"]


def test_what_was_placed_in_the_cycle_is_held_already() -> None:
    made = _lent(6)
    made.put_node(node("idle", gpus=2))
    made.set_ready("idle", True)
    made.enqueue(state("first", tenant="a"), spec(gpus=2))
    made.enqueue(state("second", 1.0, tenant="a"), spec(gpus=2, cpu=2))
    decided = plan(made)
    assert [one.job for one in decided.placed] == ["first"]
    assert decided.evictions == ()


def test_room_kept_is_held_already_and_whoever_leaves_holds_nothing() -> None:
    made = _lent(6)
    made.enqueue(state("first", tenant="a"), spec(gpus=2))
    made.enqueue(state("second", 1.0, tenant="a"), spec(gpus=1, cpu=2))
    run(made, "b0", spec(gpus=2), placed("n", gpus=(0, 1)), tenant="b", phase="PREEMPTED")
    reserve(made, "first", placed("n", gpus=(0, 1)), evicting=("b0",))
    assert _reclaimed(made) == []
    # Another who is entitled takes what b still borrows, and that is two GPUs, not four.
    made.configure(Profile(shares={**OWN, "c": Share(soft={"gpu": 4000})}))
    made.enqueue(state("of-c", 2.0, tenant="c"), spec(gpus=4))
    assert _reclaimed(made) == []
    made.enqueue(state("less-of-c", 3.0, tenant="c"), spec(gpus=2))
    assert _reclaimed(made) == ["less-of-c"]


def test_ranks_that_leave_a_gang_are_borrowed_no_more() -> None:
    made = cluster(node("n", cpu=64, gpus=4), profile=Profile(shares=OWN))
    ranks = [placed("n", gpus=(at,), rank=at) for at in range(4)]
    elastic = spec(gpus=1, gang=Gang(ranks=4, min_ranks=2))
    run(made, "gang", elastic, *ranks, tenant="b", started_ranks=(0, 1, 2, 3))
    made.enqueue(state("first", tenant="a"), spec(gpus=2))
    found = Trial(made, made.profile, NOW)
    assert standing(found, Ask(gpus=1)) == {"a": -2000, "b": 2000}
    allocate(found)
    shrink(found)
    assert standing(found, Ask(gpus=1)) == {"a": 0, "b": 0}
    found.close()
    run(made, "gang", elastic, *ranks[:2], tenant="b", started_ranks=(0, 1), leaving=tuple(ranks[2:]))
    assert standing(Trial(made, made.profile, NOW), Ask(gpus=1)) == {"a": -2000, "b": 0}
