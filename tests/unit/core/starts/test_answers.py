"""What is told about a job that waits or is only planned: reasons of alternatives, times, offers, decisions again."""

from typing import Any

import pytest

from ares.core.explain.smallest_change import smallest_change
from ares.core.explain.why import why_waiting
from ares.core.queue.waiting import class_key
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.considered import decide_again
from ares.core.schedule.plan import Eviction
from ares.core.schedule.trial import Trial
from ares.core.starts.alternatives import offers, would_evict
from ares.core.starts.estimate import start_estimate
from ares.model.job import Gang, JobSpec, Preemption
from ares.model.profile import Pool, Profile, Share, Weight
from tests.changed_spec import changed_spec
from tests.unit.core.world import NOW, cluster, cycle_at, node, nodes_of, placed, run, spec, state, wants

BOTH = [node("h", gpus=2, model="NVIDIA H100"), node("a", gpus=4, model="NVIDIA A100")]


def estimate(made: Cluster, wanted: JobSpec, ahead: int = 0) -> Any:
    key = class_key(state("j"), wanted)
    return start_estimate(Trial(made, made.profile, NOW), key, key.asks[0], ahead)


# ---- reasons


def test_an_alternative_that_will_fit_speaks_before_one_that_never_will() -> None:
    made = cluster(*BOTH)
    run(made, "busy", spec(gpus=4), placed("a", gpus=(0, 1, 2, 3)))
    wanted = spec(gpus=8, model="H100", alternatives=(wants(gpus=4, model="A100"),))
    reason = why_waiting(made, class_key(state("j"), wanted), NOW)
    assert reason is not None
    assert (reason.code, reason.remedy) == ("INSUFFICIENT_GPU", "wait")


def test_without_any_that_could_run_the_first_speaks_and_with_one_that_fits_nobody() -> None:
    made = cluster(*BOTH)
    never = spec(gpus=8, model="H100", alternatives=(wants(cpu=99),))
    reason = why_waiting(made, class_key(state("j"), never), NOW)
    assert reason is not None
    assert reason.code == "INFEASIBLE_GPU"
    fits = spec(gpus=8, model="H100", alternatives=(wants(gpus=4, model="A100"),))
    assert why_waiting(made, class_key(state("j"), fits), NOW) is None


# ---- times


def test_it_starts_when_those_end_that_say_so() -> None:
    made = cluster(node("a", gpus=2))
    for at, runs in enumerate((600.0, 7200.0)):
        run(made, f"r{at}", spec(gpus=1, expected_runtime_s=runs), placed("a", gpus=(at,)), since=NOW - 60)
    assert estimate(made, spec(gpus=1)).latest == NOW + 540
    assert estimate(made, spec(gpus=2)).latest == NOW + 7140
    behind = estimate(made, spec(gpus=1), ahead=3)
    assert (behind.earliest, behind.latest) == (NOW + 540, None)


def test_nobody_can_say_when_those_who_hold_the_place_do_not() -> None:
    made = cluster(node("a", gpus=1))
    run(made, "r", spec(gpus=1), placed("a", gpus=(0,)))
    told = estimate(made, spec(gpus=1))
    assert (told.latest, told.basis) == (None, "1 of 1 jobs that hold its place do not say how long they run")


def test_it_may_start_before_those_end_that_say_so_when_others_do_not_say() -> None:
    made = cluster(node("a", gpus=2))
    run(made, "silent", spec(gpus=2), placed("a", gpus=(0, 1)))
    run(made, "says", spec(expected_runtime_s=600.0), placed("a"))
    told = estimate(made, spec(gpus=1))
    assert (told.earliest, told.latest) == (NOW, None)


def test_with_nobody_there_it_does_not_count_those_who_do_not_say() -> None:
    told = estimate(cluster(node("a", gpus=1)), spec(gpus=2))
    assert (told.latest, told.basis) == (None, "no job that ends makes room for it")


@pytest.mark.parametrize("blocked", [spec(licences={"x": 1}), spec(cpu=3)])
def test_idle_nodes_do_not_help_a_job_that_a_licence_or_a_limit_holds_back(blocked: JobSpec) -> None:
    made = cluster(node("a"), profile=Profile(shares={"t": Share(hard={"cpu": 2000})}))
    told = estimate(made, blocked)
    assert told.latest is None
    assert "fits now" not in told.basis


def test_a_licence_is_free_when_enough_of_those_end_who_hold_it() -> None:
    made = cluster(node("a", cpu=16), profile=Profile(licences={"x": 2}))
    for at, runs in enumerate((600.0, 7200.0)):
        run(made, f"r{at}", spec(licences={"x": 1}, expected_runtime_s=runs), placed("a"), since=NOW - 60)
    run(made, "other", spec(expected_runtime_s=70.0), placed("a"), since=NOW - 60)
    assert estimate(made, spec(licences={"x": 1})).latest == NOW + 540
    assert estimate(made, spec(licences={"x": 2})).latest == NOW + 7140
    behind = estimate(made, spec(licences={"x": 1}), ahead=3)
    assert (behind.earliest, behind.latest) == (NOW + 540, None)


def test_a_limit_is_free_when_its_own_jobs_end_and_a_place_is_needed_too() -> None:
    made = cluster(node("a", cpu=4, gpus=1), profile=Profile(shares={"t": Share(hard={"cpu": 2000})}))
    run(made, "mine", spec(cpu=2, expected_runtime_s=600.0), placed("a", cpu=2), since=NOW)
    run(made, "else", spec(gpus=1, expected_runtime_s=900.0), placed("a", gpus=(0,)), since=NOW, tenant="u")
    assert estimate(made, spec(cpu=2)).latest == NOW + 600
    assert estimate(made, spec(cpu=2, gpus=1)).latest == NOW + 900


def test_nobody_can_say_when_those_under_the_limit_do_not() -> None:
    made = cluster(node("a"), profile=Profile(shares={"t": Share(hard={"cpu": 2000})}))
    run(made, "mine", spec(cpu=2), placed("a", cpu=2))
    run(made, "ends", spec(cpu=1, expected_runtime_s=60.0), placed("a"), since=NOW)
    run(made, "else", spec(cpu=1), placed("a"), tenant="u")
    told = estimate(made, spec(cpu=1))
    assert told.latest is None
    assert told.basis.endswith("1 of 2 jobs under that limit do not say how long they run")


# ---- offers


def test_offers_come_by_start_and_then_by_price() -> None:
    profile = Profile(pools={"dear": Pool(gpu_hour=8.0), "cheap": Pool(gpu_hour=2.0)})
    made = cluster(
        node("h", gpus=2, model="NVIDIA H100", pool="dear"), node("a", gpus=4, model="NVIDIA A100", pool="cheap"),
        node("l", gpus=4, model="NVIDIA L40S", pool="cheap"), profile=profile,
    )  # fmt: skip
    run(made, "busy", spec(gpus=4, expected_runtime_s=3600.0), placed("l", gpus=(0, 1, 2, 3)), since=NOW)
    found = offers(
        made, state("j"), spec(gpus=4, model="NVIDIA L40S", alternatives=(wants(gpus=2, model="H100"),)), NOW
    )
    told = [(one.asked, one.price_hour, one.starts.latest == NOW + 2.0) for one in found]
    assert told == [
        ("on NVIDIA A100", 8.0, True),
        ("alternative 2 x H100", 16.0, True),
        ("as asked", None, False),
        ("with 2 GPUs", None, False),
    ]


def test_what_can_never_run_is_not_offered() -> None:
    made = cluster(node("a", gpus=2), profile=Profile(licences={"x": 1}))
    asked = spec(gpus=1, gang=Gang(ranks=4), licences={"x": 1})
    assert [one.asked for one in offers(made, state("j"), asked, NOW)] == ["with 2 ranks"]
    assert offers(made, state("j"), spec(licences={"x": 2}), NOW) == ()


def test_a_look_at_whom_a_job_would_displace_changes_nothing() -> None:
    made = cluster(node("a", gpus=1))
    run(made, "low", spec(gpus=1, priority="BEST_EFFORT"), placed("a", gpus=(0,)))
    found = would_evict(made, state("j"), spec(gpus=1, priority="CRITICAL"), NOW)
    assert isinstance(found, Eviction)
    assert found.victims == ("low",)
    assert (made.pending, made.table.gpu_left[0, 0]) == (0, 0)
    assert isinstance(would_evict(made, state("j"), spec(gpus=1, priority="LOW"), NOW), str)


def test_a_job_that_displaces_others_starts_when_they_have_left_and_not_when_they_would_have_ended() -> None:
    made = cluster(node("a", gpus=2), profile=Profile(pools={"default": Pool(gpu_hour=3.0)}))
    for at, wait in enumerate((20.0, 60.0)):
        low = spec(
            gpus=1, priority="BEST_EFFORT", expected_runtime_s=1800.0, grace_s=10.0,
            preemption=Preemption(checkpoint_signal="SIGUSR1", wait_s=wait),
        )  # fmt: skip
        run(made, f"low{at}", low, placed("a", gpus=(at,)), since=NOW - 900)
    wanted = spec(gpus=2, priority="CRITICAL")
    evicts = would_evict(made, state("j"), wanted, NOW)
    assert isinstance(evicts, Eviction)
    first, *others = offers(made, state("j"), wanted, NOW, evicts)
    assert (first.asked, first.price_hour) == ("as asked, displacing 2 jobs", 6.0)
    assert (first.starts.earliest, first.starts.latest) == (NOW, NOW + 72.0)
    assert "70 s to save and stop" in first.starts.basis
    assert "as asked" not in [one.asked for one in others]


@pytest.mark.parametrize(
    ("blocked", "said"),
    [
        ({"licences": {"x": 1}}, "a licence is not lifted by preemption"),
        ({"cpu": 3}, "a limit is not lifted by preemption"),
        ({"cpu": 3, "alternatives": (wants(gpus=2),)}, "nobody runs that matters so much less"),
    ],
)
def test_preemption_lifts_no_limit(blocked: dict[str, Any], said: str) -> None:
    made = cluster(node("a", gpus=1), profile=Profile(shares={"t": Share(hard={"cpu": 2000})}))
    assert would_evict(made, state("j"), spec(**blocked), NOW) == said


# ---- changes


def test_a_licence_that_is_out_is_given_up_whole() -> None:
    made = cluster(node("a"))
    wanted = spec(licences={"x": 2})
    change = smallest_change(made, state("j"), wanted, NOW)
    assert change is not None
    assert changed_spec(wanted, change).licences == {}
    assert change.message == "do without licence x"


def test_several_things_are_given_up_together_where_one_is_not_enough() -> None:
    made = cluster(node("a", cpu=2, gpus=1))
    change = smallest_change(made, state("j"), spec(cpu=4, gpus=2), NOW)
    assert change is not None
    assert change.fields == {"resources.cpuMilli": 2000, "resources.gpus": 1}


def test_two_wishes_are_given_up_and_the_third_is_kept() -> None:
    made = cluster(node("a", gpus=1, labels={"zone": "a", "disk": "slow", "rack": "r2"}))
    wanted = spec(gpus=1, selector={"zone": "a", "disk": "fast", "rack": "r1"})
    change = smallest_change(made, state("j"), wanted, NOW)
    assert change is not None
    assert change.fields == {"selector.disk": None, "selector.rack": None}
    assert change.message == "do not require disk=fast and do not require rack=r1"
    assert change.cost == 0.6


def test_three_wishes_of_different_kinds_are_given_up_together() -> None:
    made = cluster(node("a", gpus=1, labels={"zone": "b"}, region="us"))
    wanted = spec(gpus=1, model="NONE SUCH", selector={"zone": "a"}, residency=("eu",))
    change = smallest_change(made, state("j"), wanted, NOW)
    assert change is not None
    assert set(change.fields) == {"resources.gpuModel", "selector.zone", "residency"}


# ---- decisions again


def test_the_same_weights_choose_the_same_and_others_may_not() -> None:
    profile = Profile(
        scorers=(Weight(name="fit", weight=1.0), Weight(name="cost", weight=0.0)),
        pools={"dear": Pool(cpu_hour=9.0), "cheap": Pool(cpu_hour=1.0)},
    )
    made = cluster(node("full", cpu=2, pool="dear"), node("empty", cpu=64, pool="cheap"), profile=profile)
    made.enqueue(state("j"), spec())
    decided = cycle_at(made, profile, NOW, keep=1)
    considered = decided.considered["j"]
    again = decide_again(considered, profile.scorers)
    assert nodes_of(decided) == [("j", again[0].node)] == [("j", "full")]
    cheaper = decide_again(considered, (Weight(name="cost", weight=1.0),))
    assert [one.node for one in cheaper] == ["empty", "full"]
    assert [one.ranks for one in cheaper] == [1, 0]


def test_a_gang_decided_again_has_all_its_ranks() -> None:
    made = cluster(node("a", gpus=2), node("b", gpus=2), node("c", gpus=2))
    made.enqueue(state("j"), spec(gpus=1, gang=Gang(ranks=4)))
    decided = cycle_at(made, made.profile, NOW, keep=1)
    again = decide_again(decided.considered["j"], made.profile.scorers)
    chosen = sorted(place.node for place in decided.placed[0].placements)
    assert sorted(one.node for one in again for _ in range(one.ranks)) == chosen
