"""One cycle: who comes first, who goes where, and what stops it."""

from typing import get_args

import pytest

from ares.api.reasons import REMEDIES, ReasonCode
from ares.core.schedule.actions import ACTIONS
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.schedule.plugins import check
from ares.model.job import Gang
from ares.model.profile import OrderPolicy, Profile, Weight
from ares.model.state import Placement
from tests.unit.core.world import (
    NOW,
    cluster,
    cycle_at,
    left_out,
    node,
    nodes_of,
    placed,
    places,
    plan,
    run,
    spec,
    state,
    wants,
)

FIT = (Weight(name="fit", weight=1.0),)


def test_one_job_gets_all_it_asked_for_from_the_current_incarnation() -> None:
    made = cluster(node("a", gpus=4, incarnation=7))
    made.enqueue(state("j1"), spec(cpu=2, memory=100, gpus=2))
    expected = Placement(node="a", incarnation=7, cpu_milli=2000, memory_mib=100, gpus=(0, 1))
    assert places(plan(made)) == {"j1": expected}


def test_priority_comes_before_submission_and_classes_mix_by_submission() -> None:
    made = cluster(node("a", cpu=3))
    for at, (job, options) in enumerate(
        {"low": {"priority": "LOW"}, "n1": {}, "n2": {"memory": 2}, "n3": {}, "crit": {"priority": "CRITICAL"}}.items()
    ):
        made.enqueue(state(job, at), spec(**options))
    decided = plan(made)
    assert [job for job, _ in nodes_of(decided)] == ["crit", "n1", "n2"]
    assert left_out(decided) == {"n3": 1, "low": 1}


def test_array_tasks_of_one_moment_go_by_index() -> None:
    made = cluster(node("a", cpu=3))
    for index in (10, 2, 1):
        made.enqueue(state(f"j_{index}", 5.0, index=index), spec())
    assert [job for job, _ in nodes_of(plan(made))] == ["j_1", "j_2", "j_10"]


def test_a_class_that_does_not_fit_lets_others_pass() -> None:
    made = cluster(node("a", cpu=4))
    made.enqueue(state("big", 0), spec(cpu=16))
    made.enqueue(state("small", 1), spec(cpu=1))
    decided = plan(made)
    assert (nodes_of(decided), left_out(decided)) == ([("small", "a")], {"big": 1})


def test_jobs_pack_and_ties_go_to_the_node_that_came_first() -> None:
    made = cluster(node("b", cpu=2), node("a", cpu=2))
    for n in range(4):
        made.enqueue(state(f"j{n}", n), spec(memory=512))
    assert [where for _, where in nodes_of(plan(made))] == ["b", "b", "a", "a"]


def test_jobs_without_gpus_stay_away_from_idle_gpus() -> None:
    made = cluster(node("gpu", gpus=8), node("cpu"))
    made.enqueue(state("j"), spec())
    assert nodes_of(plan(made)) == [("j", "cpu")]


@pytest.mark.parametrize(
    ("asked", "fits"),
    [("A100", True), ("a100 sxm4", True), ("NVIDIA A100-SXM4-80GB", True), ("A10", False), ("A100 40GB", False),
     ("H100", False), ("80GB", True), ("--", True)],
)  # fmt: skip
def test_gpu_models_match_by_whole_words(asked: str, fits: bool) -> None:
    made = cluster(node("a", gpus=1))
    made.enqueue(state("j"), spec(gpus=1, model=asked))
    assert len(plan(made).placed) == fits


def test_the_limit_stops_a_cycle_and_says_so() -> None:
    made = cluster(node("a", cpu=100))
    for n in range(5):
        made.enqueue(state(f"j{n}", n), spec())
    stopped = plan(made, max_placements_per_cycle=3)
    assert [job for job, _ in nodes_of(stopped)] == ["j0", "j1", "j2"]
    assert (stopped.more, stopped.left) == (True, ())
    assert not plan(made, max_placements_per_cycle=6).more


def test_partly_placed_classes_tell_how_many_are_left() -> None:
    made = cluster(node("a", cpu=3))
    for n in range(5):
        made.enqueue(state(f"j{n}", n), spec())
    decided = plan(made)
    assert (len(decided.placed), left_out(decided)) == (3, {"j3": 2})


def test_a_node_that_reports_no_cpu_takes_nothing_and_breaks_nothing() -> None:
    made = cluster(node("a", cpu=0, memory=0))
    made.enqueue(state("j"), spec(cpu=0.001, memory=1))
    made.enqueue(state("g"), spec(cpu=0.001, memory=1, gang=Gang(ranks=2)))
    assert plan(made).placed == ()


def test_a_class_notices_all_that_others_took_since_its_last_job() -> None:
    made = cluster(node("small", cpu=1), *(node(f"n{n}", cpu=2) for n in range(30)))
    made.enqueue(state("first", 0), spec(cpu=1))
    for n in range(31):
        made.enqueue(state(f"wide{n:02d}", 1 + n), spec(cpu=2))
    made.enqueue(state("second", 100), spec(cpu=1))
    decided = plan(made, scorers=FIT)
    assert len(decided.placed) == 31
    assert left_out(decided) == {"wide30": 1, "second": 1}


def test_places_found_ahead_are_not_used_when_somebody_came_in_between() -> None:
    """A run of like jobs is placed together; the one in between takes the very room that was found for the next."""
    made = cluster(node("a", cpu=4), node("b", cpu=4))
    for n in range(4):
        made.enqueue(state(f"one{n}", n), spec(cpu=1))
    made.enqueue(state("wide", 1.5), spec(cpu=2))
    for n in range(4, 8):
        made.enqueue(state(f"one{n}", n), spec(cpu=1))
    decided = plan(made, scorers=FIT, order=OrderPolicy(primary=(Weight(name="fifo", weight=1.0),)))
    assert [job for job, _ in nodes_of(decided)] == ["one0", "one1", "wide", "one2", "one3", "one4", "one5"]
    assert [where for _, where in nodes_of(decided)] == ["a"] * 3 + ["b"] * 4


def test_an_empty_cluster_and_an_empty_queue() -> None:
    assert plan(Cluster()).placed == ()
    assert plan(cluster(node("a"))).left == ()
    made = Cluster()
    made.enqueue(state("j"), spec())
    made.enqueue(state("g"), spec(gang=Gang(ranks=2)))
    assert left_out(plan(made)) == {"g": 1, "j": 1}


def test_a_gentle_cycle_takes_nothing_away() -> None:
    made = cluster(node("a", gpus=1))
    run(made, "low", spec(gpus=1, priority="BEST_EFFORT"), placed("a", gpus=(0,)))
    made.enqueue(state("j"), spec(gpus=1, priority="CRITICAL"))
    assert cycle_at(made, made.profile, NOW, gentle=True).evictions == ()
    assert [one.victims for one in plan(made).evictions] == [("low",)]


def test_decisions_are_kept_whole_as_far_as_asked() -> None:
    made = cluster(node("a"), node("b", gpus=1))
    for n in range(3):
        made.enqueue(state(f"j{n}", n), spec(memory=n + 1, alternatives=(wants(cpu=99),)))
    decided = cycle_at(made, made.profile, NOW, keep=2)
    assert list(decided.considered) == ["j0", "j1"]
    assert decided.considered["j0"].nodes[0] == nodes_of(decided)[0][1]
    assert decided.considered["j0"].passing == 2
    assert cycle_at(made, made.profile, NOW).considered == {}


def test_every_code_says_who_can_do_something() -> None:
    assert set(REMEDIES) == set(get_args(ReasonCode))


def test_the_default_profile_names_only_what_exists() -> None:
    check(Profile(), dict(ACTIONS))


def test_a_cycle_leaves_the_time_to_its_caller() -> None:
    """A job that runs beyond its estimate is believed to end when it was said to, until the cluster is advanced."""
    made = cluster(node("a"))
    run(made, "long", spec(cpu=8, expected_runtime_s=60.0), placed("a", cpu=8), since=NOW - 100)
    made.enqueue(state("j1"), spec(cpu=8))
    before, said = made.moment, made.holdings["long"].ends_at
    first = cycle(made, NOW)
    assert first == cycle(made, NOW)
    assert (made.moment, made.holdings["long"].ends_at) == (before, said)
    made.advance(NOW)
    corrected = made.holdings["long"].ends_at
    assert corrected is not None
    assert corrected > NOW
